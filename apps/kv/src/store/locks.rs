//! The store's two kinds of lock, the one place where each is taken, and the rule between them.
//!
//! | lock | how many | guards |
//! |---|---|---|
//! | item lock | one per bucket (Protego §5.3) | the items of that bucket |
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
//! Where it comes to a lock, a request that cannot wait for it is refused (Protego §5.3). What a
//! step has taken and the next has not yet used is owned by a
//! [`Reservation`](super::reserve::Reservation), which gives it back when dropped. So an operation
//! may end between any two steps, and leaves nothing behind; all that it can have cost is an item
//! that was evicted to make room for it. Giving back must not fail, and so has its own entry,
//! [`SlabLock::lock_back`].

use core::cell::Cell;
use core::ops::{Deref, DerefMut};

use seawall_control::predict::lock::LockKind;
use seawall_control::request::{Context, Rejected, Stage};
use seawall_sync::{Mutex, MutexGuard};

use super::bucket::Bucket;
use super::slabs::Slabs;

/// The item locks, in refusals: all of them are one stage.
pub const ITEM_LOCK: Stage = Stage(Stage::FIRST_OWN);
/// The slab lock, in refusals.
pub const SLAB_LOCK: Stage = Stage(Stage::FIRST_OWN + 1);

/// The hash table: all buckets, each behind its item lock.
#[derive(Debug)]
pub(super) struct ItemLocks {
    kind: LockKind,
    buckets: Box<[Mutex<Bucket>]>,
}

impl ItemLocks {
    pub(super) fn new(hash_power: u8, kind: LockKind) -> Self {
        let mutex = |_| {
            let mutex = Mutex::new(Bucket::default()).predicted_by(kind.estimate());
            mutex.at(ITEM_LOCK, "item_lock")
        };
        Self { kind, buckets: (0..1u32 << hash_power).map(mutex).collect() }
    }

    /// Waits for the item lock of `bucket` on behalf of a request.
    ///
    /// # Errors
    ///
    /// The request cannot wait for it.
    pub(super) fn lock(&self, ctx: &Context, bucket: u32) -> Result<Guard<'_, Bucket>, Rejected> {
        Guard::lock(&self.buckets[bucket as usize], self.kind, ctx)
    }

    /// Waits for the item lock of `bucket` on behalf of no request.
    pub(super) fn lock_plain(&self, bucket: u32) -> Guard<'_, Bucket> {
        Guard::lock_plain(&self.buckets[bucket as usize])
    }

    /// Number of buckets, a power of two.
    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }
}

/// The slab allocator behind its lock.
#[derive(Debug)]
pub(super) struct SlabLock {
    kind: LockKind,
    slabs: Mutex<Slabs>,
}

impl SlabLock {
    pub(super) fn new(slabs: Slabs, kind: LockKind) -> Self {
        let slabs = Mutex::new(slabs).predicted_by(kind.estimate()).at(SLAB_LOCK, "slab_lock");
        Self { kind, slabs }
    }

    /// Waits for the slab lock in order to get on with a request.
    ///
    /// # Errors
    ///
    /// The request cannot wait for it.
    pub(super) fn lock(&self, ctx: &Context) -> Result<Guard<'_, Slabs>, Rejected> {
        Guard::lock(&self.slabs, self.kind, ctx)
    }

    /// Waits for the slab lock in order to give back what a request has taken, which is charged for
    /// the wait, if it was one. It never refuses, which is what makes refusals clean (Protego
    /// §5.3).
    pub(super) fn lock_back(&self, payer: Option<&Context>) -> Guard<'_, Slabs> {
        match payer {
            Some(ctx) => Guard::lock_committed(&self.slabs, ctx),
            None => self.lock_plain(),
        }
    }

    /// How many wait for it now.
    #[cfg(test)]
    pub(super) fn waiters(&self) -> u32 {
        self.slabs.snapshot().waiters
    }

    /// Waits for the slab lock on behalf of no request.
    pub(super) fn lock_plain(&self) -> Guard<'_, Slabs> {
        Guard::lock_plain(&self.slabs)
    }
}

/// Holds one of the locks until dropped.
pub(super) struct Guard<'a, T> {
    inner: MutexGuard<'a, T>,
    _only: OnlyLock,
}

impl<'a, T> Guard<'a, T> {
    fn lock(mutex: &'a Mutex<T>, kind: LockKind, ctx: &Context) -> Result<Self, Rejected> {
        // Before waiting, so that breaking the rule is a panic and never a deadlock.
        let only = OnlyLock::claim();
        let inner = mutex.blocking_lock_by(kind, ctx)?;
        Ok(Self { inner, _only: only })
    }

    fn lock_committed(mutex: &'a Mutex<T>, ctx: &Context) -> Self {
        let only = OnlyLock::claim();
        Self { inner: mutex.blocking_lock_committed(ctx), _only: only }
    }

    fn lock_plain(mutex: &'a Mutex<T>) -> Self {
        let only = OnlyLock::claim();
        Self { inner: mutex.blocking_lock_plain(), _only: only }
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
        let locks = ItemLocks::new(1, LockKind::default());
        let _first = locks.lock_plain(0);
        let _second = locks.lock_plain(1);
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_bucket_and_its_lock_are_as_large_as_the_configuration_says() {
        assert_eq!(size_of::<Mutex<Bucket>>(), 80);
    }

    #[test]
    fn locks_may_follow_each_other() {
        let locks = ItemLocks::new(1, LockKind::default());
        drop(locks.lock_plain(0));
        drop(locks.lock_plain(1));
        assert_eq!(locks.len(), 2);
    }
}
