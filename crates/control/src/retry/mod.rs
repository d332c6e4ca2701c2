//! Whether a call that failed is made again, elsewhere: at most so often, only when that cannot do
//! harm, and never so that retries become a load of their own.
//!
//! ```text
//!   call ──► replica ── refused, or no credit in time ──► Policy ── again ──► another replica
//!              │                                            │
//!              └─ served, or failed for good                └─ enough ──► the caller, and why
//! ```
//!
//! A refusal has had no effect and comes at once, so that another replica can still serve the
//! request in time (Protego §3.2). Where a server has to answer within the SLO over the number of
//! attempts, so does a request that is refused once (§3.3).
//!
//! For delays that no stage predicts, a second copy may be sent before the first one has failed:
//! see [`Hedge`].
//!
//! ```
//! use seawall_control::Instant;
//! use seawall_control::retry::{Config, End, Failed, Policy, Verdict, Why};
//!
//! let policy = &mut Policy::new(&Config::default());
//! policy.on_call();
//! let refused = Failed { others: 1, sent: 1, ..Failed::new(End::Refused, Instant::NEVER) };
//! assert_eq!(policy.on_failure(Instant::ORIGIN, &refused), Verdict::Again);
//! let again = Failed { sent: 2, ..refused };
//! assert_eq!(policy.on_failure(Instant::ORIGIN, &again), Verdict::Enough(Why::Attempts));
//! ```

mod budget;
mod config;
mod hedge;
mod policy;

pub use budget::Budget;
pub use config::Config;
pub use hedge::Hedge;
pub use policy::{Counts, End, Failed, Policy, Verdict, Why};
