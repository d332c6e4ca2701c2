//! Mutual exclusion.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use seawall_control::predict::lock::Estimate;
use seawall_control::predict::lock::LockKind;
use seawall_control::request::{Context, Rejected, Stage};

use crate::contention::{Kind, Snapshot};
use crate::primitive::const_fn;
use crate::queue::Turn;
use crate::raw::{Asker, RawSemaphore, Stamp, unrefused};

/// A lock that refuses a request which cannot afford to wait for it.
///
/// Async and blocking callers share one queue, first come, first served; only while the first of
/// them wakes up, for 100 µs at most, may others take what is free. A guard may be held across an
/// `.await`, and may be dropped on another thread. A panic while it is held releases it: there is
/// no poison.
///
/// ```
/// use seawall_control::request::{Context, Rejected, Stage};
/// use seawall_sync::Mutex;
///
/// static ORDERS: Mutex<Vec<u32>> = Mutex::new(Vec::new()).at(Stage(16), "orders");
///
/// async fn add(ctx: &Context, order: u32) -> Result<(), Rejected> {
///     ORDERS.lock(ctx).await?.push(order); // refused at once if the wait would be too long
///     Ok(())
/// }
/// ```
pub struct Mutex<T: ?Sized> {
    raw: RawSemaphore,
    value: UnsafeCell<T>,
}

/// Access to what a mutex protects, which is released when this is dropped.
///
/// `L` is how it reaches the mutex: see [`MutexGuard`] and [`OwnedMutexGuard`].
#[must_use = "a guard that is dropped at once protects nothing"]
pub struct Guard<L, T: ?Sized>
where
    L: Deref<Target = Mutex<T>>,
{
    lock: L,
    stamp: Stamp,
    // The guard gives access to the value: it may be shared where the value may be.
    value: PhantomData<T>,
}

/// Access to what a borrowed mutex protects.
pub type MutexGuard<'a, T> = Guard<&'a Mutex<T>, T>;

/// Access to what a mutex behind an [`Arc`] protects, for as long as it pleases.
pub type OwnedMutexGuard<T> = Guard<Arc<Mutex<T>>, T>;

// SAFETY: a mutex that is sent takes its value along.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: of all who share the mutex, one at a time reaches the value, and may take it away.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    const_fn! {
        /// A free mutex. In reports it is called by the place of this call, and its refusals name
        /// [`Stage::HANDLER`], until [`at`](Self::at) says otherwise.
        #[track_caller]
        pub const fn new(value: T) -> Self {
            let raw = RawSemaphore::new(Kind::Mutex, 1);
            Self { raw, value: UnsafeCell::new(value) }
        }
    }

    /// The same mutex as a stage with a number and a name of its own.
    #[must_use]
    pub const fn at(mut self, stage: Stage, name: &'static str) -> Self {
        self.raw.settings_mut().set_stage(stage, name);
        self
    }

    /// The same mutex with waits predicted in another way than by [`Estimate::Larger`].
    #[must_use]
    pub const fn predicted_by(mut self, estimate: Estimate) -> Self {
        self.raw.settings_mut().estimate = estimate;
        self
    }

    /// The value; no lock is needed for what nobody else can reach.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks it on behalf of a request, which is charged for the wait.
    ///
    /// A free lock is given out without a look at the request: it costs no wait.
    ///
    /// # Errors
    ///
    /// [`Rejected`], at once, when the predicted wait exceeds what the request has left.
    ///
    /// # Cancellation
    ///
    /// To drop the future gives up the place in the queue.
    pub async fn lock(&self, ctx: &Context) -> Result<MutexGuard<'_, T>, Rejected> {
        let stamp = self.raw.acquire(1, Turn::Exclusive, Asker::Request(ctx)).await?;
        Ok(Guard::new(self, stamp))
    }

    /// Locks it, however long that takes: for work that is no request, such as maintenance.
    pub async fn lock_plain(&self) -> MutexGuard<'_, T> {
        self.lock_as(Asker::Nobody).await
    }

    /// Locks it for `asker`, who cannot turn back.
    pub(crate) async fn lock_as(&self, asker: Asker<'_>) -> MutexGuard<'_, T> {
        let stamp = unrefused(self.raw.acquire(1, Turn::Exclusive, asker).await);
        Guard::new(self, stamp)
    }

    /// Locks it on behalf of a request that cannot turn back, however long that takes: the request
    /// is charged for the wait, and never refused. For what gives back what a request has
    /// taken.
    pub async fn lock_committed(&self, ctx: &Context) -> MutexGuard<'_, T> {
        self.lock_as(Asker::Committed(ctx)).await
    }

    /// [`lock_committed`](Self::lock_committed) for a thread that may sleep.
    pub fn blocking_lock_committed(&self, ctx: &Context) -> MutexGuard<'_, T> {
        self.blocking_lock_as(Asker::Committed(ctx))
    }

    /// Locks it for `asker`, who cannot turn back and may sleep.
    #[inline]
    pub(crate) fn blocking_lock_as(&self, asker: Asker<'_>) -> MutexGuard<'_, T> {
        let stamp = unrefused(self.raw.blocking_acquire(1, Turn::Exclusive, asker));
        Guard::new(self, stamp)
    }

    /// [`lock`](Self::lock) with a guard that owns its mutex.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub async fn lock_owned(
        self: Arc<Self>,
        ctx: &Context,
    ) -> Result<OwnedMutexGuard<T>, Rejected> {
        let stamp = self.raw.acquire(1, Turn::Exclusive, Asker::Request(ctx)).await?;
        Ok(Guard::new(self, stamp))
    }

    /// [`lock_plain`](Self::lock_plain) with a guard that owns its mutex.
    pub async fn lock_owned_plain(self: Arc<Self>) -> OwnedMutexGuard<T> {
        let stamp = unrefused(self.raw.acquire(1, Turn::Exclusive, Asker::Nobody).await);
        Guard::new(self, stamp)
    }

    /// [`lock`](Self::lock) for a thread that may sleep.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub fn blocking_lock(&self, ctx: &Context) -> Result<MutexGuard<'_, T>, Rejected> {
        let stamp = self.raw.blocking_acquire(1, Turn::Exclusive, Asker::Request(ctx))?;
        Ok(Guard::new(self, stamp))
    }

    /// [`lock_plain`](Self::lock_plain) for a thread that may sleep.
    #[inline]
    pub fn blocking_lock_plain(&self) -> MutexGuard<'_, T> {
        self.blocking_lock_as(Asker::Nobody)
    }

    /// Locks it as a lock of this kind would, so that services can compare kinds. One that predicts
    /// waits does it as [`predicted_by`](Self::predicted_by) says, with the
    /// [kind's estimate](LockKind::estimate).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock); of kind [`Try`](LockKind::Try), if it is taken and the request may
    /// be dropped.
    pub async fn lock_by(
        &self,
        kind: LockKind,
        ctx: &Context,
    ) -> Result<MutexGuard<'_, T>, Rejected> {
        match kind {
            LockKind::Plain => Ok(self.lock_plain().await),
            LockKind::Try if ctx.claims().droppable => self.lock_or_refuse(ctx),
            _ => self.lock(ctx).await,
        }
    }

    /// [`lock_by`](Self::lock_by) for threads that may sleep.
    ///
    /// # Errors
    ///
    /// As [`lock_by`](Self::lock_by).
    pub fn blocking_lock_by(
        &self,
        kind: LockKind,
        ctx: &Context,
    ) -> Result<MutexGuard<'_, T>, Rejected> {
        match kind {
            LockKind::Plain => Ok(self.blocking_lock_plain()),
            LockKind::Try if ctx.claims().droppable => self.lock_or_refuse(ctx),
            _ => self.blocking_lock(ctx),
        }
    }

    fn lock_or_refuse(&self, ctx: &Context) -> Result<MutexGuard<'_, T>, Rejected> {
        self.try_lock().ok_or_else(|| self.raw.refuse(1, Turn::Exclusive, ctx))
    }

    /// Locks it if that needs no wait.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(Guard::new(self, self.raw.try_acquire(1, Turn::Exclusive)?))
    }

    /// [`try_lock`](Self::try_lock) with a guard that owns its mutex.
    pub fn try_lock_owned(self: Arc<Self>) -> Option<OwnedMutexGuard<T>> {
        let stamp = self.raw.try_acquire(1, Turn::Exclusive)?;
        Some(Guard::new(self, stamp))
    }

    /// The value; no lock is needed for what nobody else can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// What was measured here until now.
    pub fn snapshot(&self) -> Snapshot {
        self.raw.snapshot()
    }
}

impl<L, T: ?Sized> Guard<L, T>
where
    L: Deref<Target = Mutex<T>>,
{
    #[inline]
    fn new(lock: L, stamp: Stamp) -> Self {
        Self { lock, stamp, value: PhantomData }
    }
}

impl<L, T: ?Sized> Guard<L, T>
where
    L: Deref<Target = Mutex<T>>,
{
    /// Says what the holder does until it releases the lock: so many units of `label`, whatever its
    /// loops count.
    ///
    /// From what the same work took before, those who come meanwhile know how long it still takes,
    /// and are refused at once if they cannot wait for so long (LIBROS §VI). Worth it for work that
    /// takes much longer than requests do. Of the labels of one lock 64 are told apart.
    pub fn hold(guard: &mut Self, label: &'static str, amount: u64) {
        guard.stamp = guard.lock.raw.hold(label, amount);
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The mutex that this guard locks.
    pub fn mutex(guard: &Self) -> &'a Mutex<T> {
        guard.lock
    }
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    /// The mutex that this guard locks.
    pub fn mutex(guard: &Self) -> &Arc<Mutex<T>> {
        &guard.lock
    }
}

impl<L, T: ?Sized> Deref for Guard<L, T>
where
    L: Deref<Target = Mutex<T>>,
{
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard has the lock, and nobody else a reference to the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<L, T: ?Sized> DerefMut for Guard<L, T>
where
    L: Deref<Target = Mutex<T>>,
{
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard has the lock, and is borrowed exclusively itself.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<L, T: ?Sized> Drop for Guard<L, T>
where
    L: Deref<Target = Mutex<T>>,
{
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.release(1, self.stamp);
    }
}

impl<L, T: ?Sized + fmt::Debug> fmt::Debug for Guard<L, T>
where
    L: Deref<Target = Mutex<T>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<L, T: ?Sized + fmt::Display> fmt::Display for Guard<L, T>
where
    L: Deref<Target = Mutex<T>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(guard) => shown.field("value", &&*guard),
            None => shown.field("value", &format_args!("<locked>")),
        };
        shown.finish()
    }
}

impl<T: Default> Default for Mutex<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
