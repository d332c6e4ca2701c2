//! Server and client over real connections. One program, since each costs as much to link as a
//! hundred tests to run; those that change what all of a process shares have one of their own.

#[path = "../support/mod.rs"]
mod support;

mod budgets;
mod calls;
mod client;
mod config;
mod copies;
mod deadlines;
mod failures;
mod faults;
mod identity;
mod page;
mod pauses;
mod replicas;
mod retries;
mod spill;
mod utilities;
