//! Predictors: how long a request that joins a queue now will wait there, and what comes after.

pub mod lock;
pub mod memory;
pub mod network;
pub mod queue;
