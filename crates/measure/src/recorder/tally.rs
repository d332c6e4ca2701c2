//! Counts and histograms of one class.

use std::time::Duration;

use crate::latency::Latencies;
use crate::outcome::{DropReason, Outcome};

/// Everything counted inside the window.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Successes that completed in the window, whenever they were due. All else is of requests
    /// that were due in it.
    pub(super) completed: u64,
    pub(super) offered: u64,
    /// Successes within the SLO.
    pub(super) good: u64,
    pub(super) rejected: u64,
    pub(super) cancelled: u64,
    pub(super) failed: u64,
    pub(super) unanswered: u64,
    /// By the reason's place in [`DropReason::ALL`].
    pub(super) dropped: [u64; DropReason::ALL.len()],
    pub(super) successes: u64,
    /// Of successes, and of requests without an answer: for those, how long was waited in vain.
    pub(super) latency: Latencies,
    /// Of refusals by the server.
    pub(super) reject_latency: Latencies,
}

impl Tally {
    pub(super) fn record(&mut self, latency: Duration, outcome: Outcome, slo: Duration) {
        self.offered += 1;
        match outcome {
            Outcome::Success => {
                self.successes += 1;
                self.latency.record(latency);
                self.good += u64::from(latency <= slo);
            }
            Outcome::Rejected => {
                self.reject_latency.record(latency);
                self.rejected += 1;
            }
            Outcome::DroppedAtClient(reason) => self.dropped[reason as usize] += 1,
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Unanswered => {
                self.unanswered += 1;
                self.latency.record(latency);
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.completed += other.completed;
        self.offered += other.offered;
        self.good += other.good;
        self.rejected += other.rejected;
        self.cancelled += other.cancelled;
        self.failed += other.failed;
        self.unanswered += other.unanswered;
        for (dropped, other) in self.dropped.iter_mut().zip(other.dropped) {
            *dropped += other;
        }
        self.successes += other.successes;
        self.latency.merge(&other.latency);
        self.reject_latency.merge(&other.reject_latency);
    }

    pub(super) fn dropped_at_client(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Sent, and without a result or a refusal.
    pub(super) fn lost(&self) -> u64 {
        self.unanswered + self.failed + self.cancelled
    }
}
