//! What locks and semaphores cost: Seawall's beside those of tokio, `parking_lot` and the standard
//! library.
//!
//! ```text
//!   case: who, how many, how long           contestants, in turns
//!   ┌──────────────────────────────────┐    ┌───────────────────────┐
//!   │ threads or tasks: lock, hold, …  │ ─► │ each runs for a while │ ─► ns per operation
//!   └──────────────────────────────────┘    └───────────────────────┘
//! ```
//!
//! The command `seawall-bench-sync` prints how they compare, round by round; the criterion
//! benchmark `primitives` keeps the absolute numbers of the uncontended cases, to compare with
//! earlier runs. `seawall-bench-bandit` prints how long the bandit of a memory semaphore looks for
//! the best capacity.
//!
//! # What it does not do
//!
//! Nothing here is refused: it says what a lock costs, not what it is worth under overload.

pub mod cases;
pub mod contestants;
pub mod run;
