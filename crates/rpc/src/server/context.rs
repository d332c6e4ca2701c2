//! What a handler knows about the request it serves.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::request;
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
}

impl Context {
    pub(crate) fn new(request: request::Context) -> Self {
        Self(Arc::new(Inner {
            request,
            polled_at: AtomicU64::new(0),
            worked: AtomicU64::new(0),
            refused: AtomicBool::new(false),
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
