//! The agent on recorded trees of files, and on this machine's control groups.

mod discovery;
mod fixtures;
mod kernel;
mod kubernetes;
mod passes;
mod trust;
