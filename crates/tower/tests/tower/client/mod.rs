//! The client against servers that the tests play, on a clock that stands still unless all wait.

mod counts;
mod credits;
mod deadlines;
mod replicas;
mod retries;
mod streams;
mod support;
