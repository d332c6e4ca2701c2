//! Predictors: how long a request that joins a queue now will wait there.

pub mod lock;
pub mod queue;
