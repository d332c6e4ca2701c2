//! Which container gets a CPU, and which gives one back (SurgeGuard).
//!
//! ```text
//!   containers' counters ──► Intake ──► Measured ──► Policy ──► Ledger ──► Outcome
//!                            refuses     per          escalator   floors,    decisions,
//!                            the absurd  interval     parties …   limits     candidates
//! ```
//!
//! A node agent, or the simulator, takes a [`Snapshot`] once in an interval and carries out what the
//! [`Outcome`] decides. Nothing here reads a clock or touches a control group.

mod facts;
mod outcome;

pub use facts::{Averages, Container, ContainerId, Counters, Expected, Node, Report, Snapshot};
pub use outcome::{Candidate, Change, Decision, Outcome};
