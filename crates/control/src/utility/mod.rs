//! What a server should be good at: a number for what was measured, of which more is better.
//!
//! ```text
//!   a window's counts ─► Measured ─► Utility::of ─► one number ─► Svalinn's controller
//! ```
//!
//! The shipped ones are those of Svalinn's evaluation (OSDI '26, §5.3) and their kin; a
//! [configuration](Config) names one of them, or is an expression of the same metrics. A program
//! can hand in any [`Utility`] of its own.

mod config;
mod measured;
mod standard;

pub use config::{Config, Reader, no_expressions};
pub(crate) use measured::Counting;
pub use measured::{METRICS, Measured, Metric};
pub use standard::{Capped, Goodput, Throughput};

use core::fmt;

/// Values what was measured.
pub trait Utility: fmt::Debug + Send + Sync {
    /// The value of `measured`; more is better. What is not a number is worse than anything.
    fn of(&self, measured: &Measured) -> f64;
}
