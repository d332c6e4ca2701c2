//! What is counted of one replica.

use std::fmt::Display;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use metrics::{counter, gauge};
use seawall_measure::names;

/// The counters of one replica.
#[derive(Debug, Default)]
pub(super) struct Books {
    outstanding: AtomicI64,
    attempts: [AtomicU64; RESULTS.len()],
}

/// How an attempt to have a request answered came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// A response began.
    Answered,
    /// The replica refused it before it did anything.
    Refused,
    /// Nothing of it was sent.
    Unsent,
    /// It was sent, and lost.
    Lost,
    /// No response began in time.
    TimedOut,
}

/// The same as labels.
const RESULTS: [&str; 5] = ["answered", "refused", "unsent", "lost", "timed_out"];

impl Books {
    pub(super) fn submitted(&self) {
        self.outstanding.fetch_add(1, Relaxed);
    }

    pub(super) fn ended(&self) {
        self.outstanding.fetch_sub(1, Relaxed);
    }

    /// Whether requests are there.
    pub(super) fn is_busy(&self) -> bool {
        self.outstanding.load(Relaxed) > 0
    }

    pub(super) fn count(&self, attempt: Attempt) {
        self.attempts[attempt as usize].fetch_add(1, Relaxed);
    }

    /// Tells the recorder what is so now.
    pub(super) fn publish(&self, upstream: &str, replica: &impl Display, is_well: bool) {
        let labels = [("upstream", upstream.to_owned()), ("replica", replica.to_string())];
        let outstanding = self.outstanding.load(Relaxed) as f64;
        gauge!(names::UPSTREAM_OUTSTANDING.name, &labels).set(outstanding);
        gauge!(names::UPSTREAM_WELL.name, &labels).set(f64::from(u8::from(is_well)));
        for (count, result) in self.attempts.iter().zip(RESULTS) {
            let [upstream, replica] = labels.clone();
            let labels = [upstream, replica, ("result", result.to_owned())];
            counter!(names::ATTEMPTS.name, &labels).absolute(count.load(Relaxed));
        }
    }
}
