//! What a handler knows about the request it serves.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::request::{self, Rejected, Stage};
use seawall_control::time::nanos;

use crate::clock;

/// The request context, as handlers see it: cheap to clone and to hand to stages.
#[derive(Clone, Debug)]
pub struct Context(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    request: request::Context,
    /// When the poll that runs now began, nanoseconds.
    polled_at: AtomicU64,
    /// Time on workers in all polls before it, nanoseconds.
    worked: AtomicU64,
    /// A stage has refused it.
    refused: AtomicBool,
    /// For how long the workers were predicted to wait for a CPU when it was refused for that,
    /// nanoseconds; zero if it was not.
    cpu_delay: AtomicU64,
}

impl Context {
    pub(crate) fn new(request: request::Context) -> Self {
        Self(Arc::new(Inner {
            request,
            polled_at: AtomicU64::new(0),
            worked: AtomicU64::new(0),
            refused: AtomicBool::new(false),
            cpu_delay: AtomicU64::new(0),
        }))
    }

    /// What the request has left, now: the smaller of its delay budget and its time to the
    /// deadline.
    pub fn remaining_now(&self) -> Duration {
        self.remaining(clock::now())
    }

    /// A worker begins to poll the handler, which has waited for that since `since`.
    pub(super) fn begin_poll(&self, since: Instant, now: Instant) {
        self.charge(now.since(since));
        self.0.polled_at.store(now.as_nanos(), Relaxed);
    }

    /// The poll has ended.
    pub(super) fn end_poll(&self, now: Instant) {
        self.0.worked.fetch_add(nanos(now.since(self.polled_at())), Relaxed);
    }

    /// Refuses a request that has waited in the run queue since `since` if it cannot wait for
    /// `delay` more, and its handler has not begun. True if it did: then its job has to be dropped.
    pub(super) fn refuse_for_cpu(&self, now: Instant, since: Instant, delay: Duration) -> bool {
        let has_begun = self.polled_at() != Instant::ORIGIN;
        if has_begun || self.admit_waiting(Stage::CPU, now, since, delay).is_ok() {
            return false;
        }
        self.charge(now.since(since));
        self.0.cpu_delay.store(nanos(delay).max(1), Relaxed);
        true
    }

    /// The refusal of a request whose job is dropped because the workers wait for a CPU.
    pub(super) fn cpu_refusal(&self) -> Option<Rejected> {
        let delay = match self.0.cpu_delay.load(Relaxed) {
            0 => return None,
            delay => Duration::from_nanos(delay),
        };
        let rejected = Rejected::new(Stage::CPU, delay, self.remaining_now());
        Some(rejected.with_retry_after(delay))
    }

    /// A stage has refused it.
    pub(super) fn set_refused(&self) {
        self.0.refused.store(true, Relaxed);
    }

    /// True if a stage has refused it.
    pub(super) fn is_refused(&self) -> bool {
        self.0.refused.load(Relaxed)
    }

    /// When the poll that runs now began.
    pub(super) fn polled_at(&self) -> Instant {
        Instant::from_nanos(self.0.polled_at.load(Relaxed))
    }

    /// Time on workers, the poll that runs now included.
    pub(super) fn worked(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.0.worked.load(Relaxed)) + now.since(self.polled_at())
    }
}

impl Deref for Context {
    type Target = request::Context;

    fn deref(&self) -> &request::Context {
        &self.0.request
    }
}
