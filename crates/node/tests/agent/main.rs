//! The agent on recorded trees of files, and on this machine's control groups.

mod boosts;
mod discovery;
mod fixtures;
mod kernel;
mod kubernetes;
mod pages;
mod passes;
mod pods;
mod trust;
