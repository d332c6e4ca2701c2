//! A doubly linked list of waiters that own their nodes.

use std::ptr::NonNull;

use super::waiter::{Entry, Waiter};

/// Waiters in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Lane {
    first: Option<NonNull<Waiter>>,
    last: Option<NonNull<Waiter>>,
}

/// Access to an entry of a lane whose lock the caller holds.
///
/// # Safety
///
/// `waiter` is linked in a queue whose lock the caller holds.
pub(super) unsafe fn with<R>(waiter: NonNull<Waiter>, access: impl FnOnce(&mut Entry) -> R) -> R {
    // SAFETY: a linked waiter is alive, because its owner unlinks it before it ends, and the
    // caller's lock makes the access exclusive.
    unsafe { waiter.as_ref().with(access) }
}

impl Lane {
    /// Links `waiter` at the end.
    ///
    /// # Safety
    ///
    /// The waiter is filled, linked nowhere, and stays where it is until it was unlinked. The
    /// caller holds the queue's lock.
    pub(super) unsafe fn push(&mut self, waiter: NonNull<Waiter>) {
        let last = self.last.replace(waiter);
        // SAFETY: the lock is held, and both are linked as soon as this is done.
        unsafe {
            with(waiter, |entry| entry.previous = last);
            match last {
                Some(last) => with(last, |entry| entry.next = Some(waiter)),
                None => self.first = Some(waiter),
            }
        }
    }

    /// Unlinks `waiter`, and returns who came after it.
    ///
    /// # Safety
    ///
    /// The waiter is linked in this lane, and the caller holds the queue's lock.
    pub(super) unsafe fn remove(&mut self, waiter: NonNull<Waiter>) -> Option<NonNull<Waiter>> {
        // SAFETY: the lock is held, and the neighbours of a linked waiter are linked.
        unsafe {
            let (previous, next) = with(waiter, |entry| (entry.previous.take(), entry.next.take()));
            match previous {
                Some(previous) => with(previous, |entry| entry.next = next),
                None => self.first = next,
            }
            match next {
                Some(next) => with(next, |entry| entry.previous = previous),
                None => self.last = previous,
            }
            next
        }
    }

    pub(super) fn first(&self) -> Option<NonNull<Waiter>> {
        self.first
    }

    pub(super) fn last(&self) -> Option<NonNull<Waiter>> {
        self.last
    }
}
