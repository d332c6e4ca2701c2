//! Predictors: how long a request that joins a queue now will wait there, and what comes after.

pub mod cpu;
pub mod hold;
pub mod lock;
pub mod memory;
pub mod network;
pub mod pause;
mod precision;
pub mod queue;
pub mod starvation;
pub mod watched;

pub use precision::Precision;
