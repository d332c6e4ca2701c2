//! The store's two kinds of lock, the one place where each is taken, and the rule between them.
//!
//! | lock | how many | guards |
//! |---|---|---|
//! | item lock | one per bucket | the items of that bucket |
//! | slab lock | one | free lists, pages and the order of eviction |
//!
//! **The rule: a thread holds at most one of them at a time.** It makes every lock order
//! impossible to violate, and deadlock with it. (memcached nests them, and has to *try* the item
//! lock of an item that it wants to evict, because there the order is the other way round.)
//! Builds with debug assertions check the rule at every acquisition.
//!
//! An operation therefore runs in short steps, for example a `set`:
//!
//! ```text
//!   slab lock: take a chunk ──► (no lock: copy key and value) ──► item lock: link, unlink the
//!   old item ──► slab lock: give the old chunk back
//! ```
//!
//! What a step has taken and the next has not yet used is owned by a
//! [`Reservation`](super::reserve::Reservation), which gives it back when dropped. So an operation
//! may end between any two steps, and leaves nothing behind; all that it can have cost is an item
//! that was evicted to make room for it. Giving back must not fail, and so has its own entry,
//! [`SlabLock::lock_to_release`].

use core::cell::Cell;
use core::ops::{Deref, DerefMut};

use parking_lot::{Mutex, MutexGuard};

use super::bucket::Bucket;
use super::slabs::Slabs;

/// The hash table: all buckets, each behind its item lock.
#[derive(Debug)]
pub(super) struct ItemLocks {
    buckets: Box<[Mutex<Bucket>]>,
}

impl ItemLocks {
    pub(super) fn new(hash_power: u8) -> Self {
        Self { buckets: (0..1u32 << hash_power).map(|_| Mutex::default()).collect() }
    }

    /// Waits for the item lock of `bucket`.
    pub(super) fn lock(&self, bucket: u32) -> Guard<'_, Bucket> {
        Guard::lock(&self.buckets[bucket as usize])
    }

    /// Number of buckets, a power of two.
    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }
}

/// The slab allocator behind its lock.
#[derive(Debug)]
pub(super) struct SlabLock {
    slabs: Mutex<Slabs>,
}

impl SlabLock {
    pub(super) fn new(slabs: Slabs) -> Self {
        Self { slabs: Mutex::new(slabs) }
    }

    /// Waits for the slab lock in order to get on with a request.
    pub(super) fn lock(&self) -> Guard<'_, Slabs> {
        Guard::lock(&self.slabs)
    }

    /// Waits for the slab lock in order to give back what a request has taken. However locks may
    /// come to refuse requests, this entry never may: it is what makes a refusal clean.
    pub(super) fn lock_to_release(&self) -> Guard<'_, Slabs> {
        Guard::lock(&self.slabs)
    }
}

/// Holds one of the locks until dropped.
pub(super) struct Guard<'a, T> {
    inner: MutexGuard<'a, T>,
    _only: OnlyLock,
}

impl<'a, T> Guard<'a, T> {
    fn lock(mutex: &'a Mutex<T>) -> Self {
        // Before waiting, so that breaking the rule is a panic and never a deadlock.
        let only = OnlyLock::claim();
        Self { inner: mutex.lock(), _only: only }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

thread_local! {
    static HOLDS_ONE: Cell<bool> = const { Cell::new(false) };
}

/// Proof, in builds with debug assertions, that this thread holds no other lock of a store.
struct OnlyLock;

impl OnlyLock {
    fn claim() -> Self {
        if cfg!(debug_assertions) {
            assert!(!HOLDS_ONE.replace(true), "a thread holds at most one lock of a store");
        }
        Self
    }
}

impl Drop for OnlyLock {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            HOLDS_ONE.set(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "at most one lock")]
    fn nesting_is_caught() {
        let locks = ItemLocks::new(1);
        let _first = locks.lock(0);
        let _second = locks.lock(1);
    }

    #[test]
    fn locks_may_follow_each_other() {
        let locks = ItemLocks::new(1);
        drop(locks.lock(0));
        drop(locks.lock(1));
        assert_eq!(locks.len(), 2);
    }
}
