//! The agent of a node: gives CPU to the container that is the cause of a surge (SurgeGuard §IV).

pub mod actuator;
pub mod config;
pub mod discover;
pub mod hierarchy;
