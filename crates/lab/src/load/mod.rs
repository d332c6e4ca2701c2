//! Load on schedule: requests leave when they are due, whatever the server answers.

mod alarm;
mod books;
pub mod engine;
pub mod probe;
mod sessions;
pub mod web;
pub mod workload;
