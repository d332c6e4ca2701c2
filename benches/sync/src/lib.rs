//! What locks and semaphores cost: Seawall's beside those of tokio, `parking_lot` and the standard
//! library.
//!
//! ```text
//!   case: who and how many, how long each holds         contestants, in turns
//!   ┌─────────────────────────────────────────┐        ┌─────────────────────┐
//!   │ threads or tasks: lock, hold, unlock, … │ ─────► │ each runs for a while│ ─► ns per operation
//!   └─────────────────────────────────────────┘        └─────────────────────┘
//! ```
//!
//! The command `seawall-bench-sync` prints how they compare, round by round; the criterion
//! benchmark `primitives` keeps the absolute numbers of the uncontended cases, to compare with
//! earlier runs.
//!
//! # What it does not do
//!
//! Nothing here is refused: it says what a lock costs, not what it is worth under overload.

pub mod cases;
pub mod contestants;
pub mod run;
