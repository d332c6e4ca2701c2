//! The agent of a node: gives CPU to the container that is the cause of a surge (SurgeGuard §IV).
//!
//! ```text
//!   control groups ──► Finder ─┐                      ┌─► Actuator ──► quota, cpuset, frequency
//!                              ├─► Agent::pass ─ policy ─┤
//!   services' pages ──► Pages ─┘       │              └─► orders in services' pages
//!                                      ├─► audit log
//!                                      └─► State ◄── watchdog, when the agent has died
//! ```
//!
//! Once in an interval all containers are read, a policy of `seawall_control::scaling` decides, and
//! what it decides is carried out: what is taken before what is given, within floors and limits
//! whatever the policy says. Before a container is first changed, what it has is saved; in the end,
//! however the agent ends, it gets that back.
//!
//! # What it does not do
//!
//! It is never on the way of a request. Without it, services run on with what they have.

pub mod actuator;
mod adopt;
pub mod audit;
mod begin;
pub mod config;
mod containers;
pub mod crash;
mod decide;
pub mod discover;
pub mod hierarchy;
mod learned;
mod look;
pub mod pace;
pub mod pages;
mod pass;
mod pod;
mod responder;
mod settled;
pub mod state;
pub mod status;
pub mod watchdog;

pub use begin::CannotBegin;
pub use decide::Decide;
pub use pass::Agent;
pub use responder::{Boosts, ResponderStatus, Unwatched};
