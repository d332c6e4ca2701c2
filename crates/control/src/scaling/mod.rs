//! Which container gets a CPU, and which gives one back (SurgeGuard).
//!
//! ```text
//!   containers' counters ──► Intake ──► Measured ──► Policy ──► Ledger ──► Outcome
//!                            refuses     per          escalator   floors,    decisions,
//!                            the absurd  interval     parties …   limits     candidates
//! ```
//!
//! A node agent, or the simulator, takes a [`Snapshot`] once in an interval and carries out what
//! the [`Outcome`] decides. Nothing here reads a clock or touches a control group.
//!
//! | policy | looks at | gives to |
//! |---|---|---|
//! | `static` | nothing | nobody |
//! | `vpa` | CPU that was used | who used what it had, after minutes |
//! | `caladan` | waits for connections | who waits |
//! | `parties` | execution with these waits | who is slow, or waits |
//! | `escalator` | both apart, hints, what a unit brought, what was shed | the cause |
//!
//! # What it does not do
//!
//! It does not know what a unit is made of, which hyperthread belongs to whom, or which containers
//! run on other nodes: hints on requests reach those ([`hint`]).

pub mod caladan;
mod config;
pub mod escalator;
mod facts;
#[cfg(test)]
mod fixture;
pub mod growth;
pub mod hint;
pub mod intake;
mod ledger;
pub mod memory;
mod outcome;
pub mod parties;
pub mod pool;
pub mod profile;
#[cfg(test)]
mod properties;
mod reason;
mod refusals;
pub mod responder;
mod roster;
mod scaler;
mod sensitivity;
pub mod vpa;

pub use config::{Config, NAMES};
pub use facts::{Averages, Container, ContainerId, Counters, Expected, Node, Report, Snapshot};
pub use memory::{Memory, Remembered};
pub use outcome::{Candidate, Change, Decision, Outcome};
pub use reason::{Causes, Reason};
pub use refusals::{Absurd, Refusals};
pub use scaler::Scaler;
