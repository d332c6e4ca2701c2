//! Predictors: how long a request that joins a queue now will wait there, and what comes after.

pub mod lock;
pub mod network;
pub mod queue;
