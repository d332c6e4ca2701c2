//! When an item that is still in the table no longer counts: expiry and `flush_all`.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::bucket::Item;
use super::counters::Counter;
use crate::time::UnixTime;

/// No flush is pending.
const NEVER: u64 = u64::MAX;

/// What `flush_all` has invalidated and will invalidate.
///
/// A flush kills the items whose compare-and-swap numbers had been given out when it took effect.
/// These numbers only grow, so this is exact where the one-second clock is not: an item stored
/// right after the flush, within the same second, lives.
#[derive(Debug)]
pub(super) struct Flush {
    /// Items with a number up to this are dead.
    flushed: AtomicU64,
    /// When the pending flush takes effect, in seconds; [`NEVER`] if none is pending.
    due: AtomicU64,
}

/// The line between live and dead items, for the length of one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Horizon {
    now: UnixTime,
    flushed: u64,
}

impl Flush {
    pub(super) const fn new() -> Self {
        Self { flushed: AtomicU64::new(0), due: AtomicU64::new(NEVER) }
    }

    /// Invalidates everything up to the number `last_cas`, at once.
    pub(super) fn now(&self, last_cas: u64) {
        self.due.store(NEVER, Relaxed);
        self.flushed.fetch_max(last_cas, Release);
    }

    /// Arranges for a flush at `at`, in place of one that may be pending.
    pub(super) fn at(&self, at: UnixTime) {
        self.due.store(at.as_secs(), Relaxed);
    }

    /// The horizon at `now`, after putting a pending flush into effect that has come due.
    pub(super) fn horizon(&self, now: UnixTime, last_cas: &AtomicU64) -> Horizon {
        let due = self.due.load(Relaxed);
        // Whoever clears `due` puts the flush into effect, once. Another thread may miss it by
        // the moment in between, as it may miss it by the grain of the clock.
        if due <= now.as_secs()
            && due != NEVER
            && self.due.compare_exchange(due, NEVER, Relaxed, Relaxed).is_ok()
        {
            self.flushed.fetch_max(last_cas.load(Relaxed), Release);
        }
        Horizon { now, flushed: self.flushed.load(Acquire) }
    }
}

impl Horizon {
    /// What `item` has died of; `None` while it lives.
    pub(super) fn death(&self, item: &Item) -> Option<Counter> {
        if item.cas <= self.flushed {
            Some(Counter::Flushed)
        } else if item.expiry.has_passed(self.now) {
            Some(Counter::Expired)
        } else {
            None
        }
    }
}
