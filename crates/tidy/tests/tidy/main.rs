//! Tests of the source tree itself. Each rule is a function from what it reads to a list of
//! complaints, and is also tested with an example that it must complain about.

mod arrows;
mod leftovers;
mod manifests;
mod purity;
mod quotes;
mod size;
mod source;
mod tree;
mod workspace;
