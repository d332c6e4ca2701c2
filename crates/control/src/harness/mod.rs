//! Two parties and a manual clock: the first tool for testing an algorithm.
//!
//! [`World`] joins one server half and any number of client halves by links with a latency, and
//! lets time jump from one event to the next. Its server is a queue in front of some cores. It is
//! not the simulator: it has no costs for messages and no network beyond a delay, so that what a
//! test sees is the algorithm.
//!
//! [`model`] holds the operations and checks that property tests and fuzzers share; [`Parties`]
//! lets any algorithm live through the same operations.

pub mod model;
mod parties;
mod world;

pub use parties::Parties;
pub use world::{Link, Tally, World};
