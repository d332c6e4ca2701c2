//! What the mechanism asks of the algorithm that sizes the pool.

use core::fmt;
use core::time::Duration;

use crate::controller::{Arrival, Signal, Verdict};
use crate::metrics::Metrics;
use crate::request::{Class, Priority};
use crate::time::Instant;

/// Chooses the size of the credit pool from what was measured.
pub trait PoolPolicy: fmt::Debug + Send {
    /// A measuring window ended: choose the pool, and say how long to settle and to measure next.
    fn on_window(&mut self, now: Instant, window: &Window) -> Next;

    /// A session takes part from now on, the newest of `sessions`: the pool that goes with it.
    fn on_session(&mut self, pool: u32, _sessions: u32) -> u32 {
        pool
    }

    /// Something was measured.
    fn on_signal(&mut self, _now: Instant, _signal: Signal) {}

    /// Entry AQM: a request arrived within its window.
    fn on_arrival(&mut self, _now: Instant, _arrival: &Arrival) -> Verdict {
        Verdict::Admit
    }

    /// State of the policy worth watching, added to the mechanism's own.
    fn metrics(&self, metrics: Metrics) -> Metrics {
        metrics
    }
}

/// A policy's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Credits that may be issued. The mechanism clamps it to between one for each core and
    /// `window_max` for each session.
    pub pool: u32,
    /// How long to let the new pool take effect before counting again.
    pub settle: Duration,
    /// How long to count after that.
    pub measure: Duration,
}

/// Counts of one class of requests in one measuring window. What is counted "of those" belongs to
/// the window in which the request arrived, or to none if it ended later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Requests that arrived, refused ones included.
    pub arrivals: u32,
    /// Requests of those that were served.
    pub completions: u32,
    /// Requests of those that were served within their queueing-delay budget.
    pub in_budget: u32,
    /// Requests of those that were refused at entry.
    pub refused_at_entry: u32,
    /// Requests of those that a later stage refused.
    pub refused_later: u32,
    /// Largest queueing delay that a served request met in all stages together.
    pub queue_delay_max: Duration,
    /// Requests answered with a result in this window, whenever they arrived.
    pub served: u32,
    /// Those of them that had stayed within their queueing-delay budget.
    pub served_in_budget: u32,
    /// Requests that a stage refused in this window after they were admitted, whenever they
    /// arrived.
    pub refused: u32,
}

impl ClassCounts {
    /// Arrivals that were not refused at entry.
    pub const fn admitted(&self) -> u32 {
        self.arrivals.saturating_sub(self.refused_at_entry)
    }
}

/// What the mechanism measured between two decisions.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Window {
    /// When counting began.
    pub start: Instant,
    /// How long it really lasted.
    pub duration: Duration,
    /// Sessions that have sent at least one request.
    pub sessions: u32,
    /// Credits issued: Σ windows.
    pub issued: u32,
    /// The pool as really applied, after clamping.
    pub pool: u32,
    /// The newest queueing delay that was reported.
    pub queue_delay: Duration,
    /// The largest queueing delay that was reported in this window.
    pub queue_delay_max: Duration,
    /// From telling a client of a credit until the answer to the request that used it: the mean of
    /// what was measured in this window, or before if there was nothing to measure (Protego §3.1).
    pub round_trip: Duration,
    /// Counts by class.
    pub classes: [ClassCounts; Class::COUNT],
    /// Arrivals by band of priority.
    pub arrivals_by_priority: [u32; Priority::BANDS],
}

impl Window {
    /// All classes together.
    pub fn total(&self) -> ClassCounts {
        self.classes.iter().fold(ClassCounts::default(), |sum, class| ClassCounts {
            arrivals: sum.arrivals + class.arrivals,
            completions: sum.completions + class.completions,
            in_budget: sum.in_budget + class.in_budget,
            refused_at_entry: sum.refused_at_entry + class.refused_at_entry,
            refused_later: sum.refused_later + class.refused_later,
            queue_delay_max: sum.queue_delay_max.max(class.queue_delay_max),
            served: sum.served + class.served,
            served_in_budget: sum.served_in_budget + class.served_in_budget,
            refused: sum.refused + class.refused,
        })
    }
}
