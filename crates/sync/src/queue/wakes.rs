//! Whom to wake once the queue's lock is released.

use std::task::Waker;

/// How many are woken between two times that the queue is locked. Bounds what lies on the stack.
const BATCH: usize = 8;

/// Wakers that were taken under the lock. Waking runs code of others, which may ask for this very
/// lock.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    wakers: [Option<Waker>; BATCH],
    len: usize,
}

impl Wakes {
    /// Adds one, if somebody is there to be woken.
    pub(crate) fn push(&mut self, waker: Option<Waker>) {
        self.wakers[self.len] = waker;
        self.len += 1;
    }

    /// No more fit in.
    pub(crate) fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Wakes all of them.
    pub(crate) fn wake(self) {
        for waker in self.wakers.into_iter().take(self.len).flatten() {
            waker.wake();
        }
    }
}
