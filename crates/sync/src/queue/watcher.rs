//! One who sleeps while nobody uses a semaphore.

use std::mem;
use std::task::Waker;

/// At most one watch at a time: a later one ends the earlier.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    /// How many have begun or ended so far, so that each can tell whether it is still the one.
    watches: u64,
    waker: Option<Waker>,
}

impl Watcher {
    /// Begins a watch, which `waker` is told the end of. Returns its number, and who has watched
    /// until now.
    pub(crate) fn begin(&mut self, waker: Waker) -> (u64, Option<Waker>) {
        let former = self.end();
        self.waker = Some(waker);
        (self.watches, former)
    }

    /// Ends the present watch, and returns whom to tell.
    pub(crate) fn end(&mut self) -> Option<Waker> {
        self.watches += 1;
        self.waker.take()
    }

    /// If that watch is still the present one, tells `waker` of its end from now on. Returns the
    /// waker that is not needed any more, to be dropped without the lock; `None` if it has ended.
    pub(crate) fn go_on(&mut self, watch: u64, waker: &Waker) -> Option<Waker> {
        let known = self.waker.as_mut().filter(|_| self.watches == watch)?;
        Some(mem::replace(known, waker.clone()))
    }
}
