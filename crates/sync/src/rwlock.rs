//! Many readers, or one writer.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use seawall_control::predict::lock::Estimate;
use seawall_control::request::{Context, Rejected, Stage};

use crate::contention::{Kind, Snapshot};
use crate::primitive::const_fn;
use crate::queue::Turn;
use crate::raw::{Asker, PERMITS_MAX, RawSemaphore, Stamp, unrefused};

/// A reader holds one permit, a writer all of them.
const ALL: u32 = PERMITS_MAX;

/// A lock for many readers or one writer that refuses a request which cannot afford to wait for it.
///
/// Readers and writers share one queue, first come, first served: neither starves the other. Only
/// while a writer wakes up, for 100 µs at most, may others take what is free.
/// Neighbouring readers have their turn together, which is how waits are predicted: those ahead
/// count once for each writer and once for each run of readers. A thread that reads must not ask to
/// read again, because a writer may have queued up in between.
///
/// ```
/// use seawall_control::request::{Context, Rejected, Stage};
/// use seawall_sync::RwLock;
///
/// static ROUTES: RwLock<Vec<String>> = RwLock::new(Vec::new()).at(Stage(17), "routes");
///
/// async fn count(ctx: &Context) -> Result<usize, Rejected> {
///     Ok(ROUTES.read(ctx).await?.len())
/// }
/// ```
pub struct RwLock<T: ?Sized> {
    raw: RawSemaphore,
    value: UnsafeCell<T>,
}

/// Access to read, which is released when this is dropped.
///
/// `L` is how it reaches the lock: see [`RwLockReadGuard`] and [`OwnedRwLockReadGuard`].
#[must_use = "a guard that is dropped at once protects nothing"]
pub struct ReadGuard<L, T: ?Sized>
where
    L: Deref<Target = RwLock<T>>,
{
    lock: L,
    stamp: Stamp,
    value: PhantomData<T>,
}

/// Access to read and write, which is released when this is dropped.
///
/// `L` is how it reaches the lock: see [`RwLockWriteGuard`] and [`OwnedRwLockWriteGuard`].
#[must_use = "a guard that is dropped at once protects nothing"]
pub struct WriteGuard<L, T: ?Sized>
where
    L: Deref<Target = RwLock<T>>,
{
    lock: L,
    stamp: Stamp,
    value: PhantomData<T>,
}

/// Access to read what a borrowed lock protects.
pub type RwLockReadGuard<'a, T> = ReadGuard<&'a RwLock<T>, T>;

/// Access to read what a lock behind an [`Arc`] protects.
pub type OwnedRwLockReadGuard<T> = ReadGuard<Arc<RwLock<T>>, T>;

/// Access to read and write what a borrowed lock protects.
pub type RwLockWriteGuard<'a, T> = WriteGuard<&'a RwLock<T>, T>;

/// Access to read and write what a lock behind an [`Arc`] protects.
pub type OwnedRwLockWriteGuard<T> = WriteGuard<Arc<RwLock<T>>, T>;

// SAFETY: a lock that is sent takes its value along.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: of all who share the lock, many may read the value at once, and one may take it away.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    const_fn! {
        /// A free lock. In reports it is called by the place of this call, and its refusals name
        /// [`Stage::HANDLER`], until [`at`](Self::at) says otherwise.
        #[track_caller]
        pub const fn new(value: T) -> Self {
            let raw = RawSemaphore::new(Kind::RwLock, ALL);
            Self { raw, value: UnsafeCell::new(value) }
        }
    }

    /// The same lock as a stage with a number and a name of its own.
    #[must_use]
    pub const fn at(mut self, stage: Stage, name: &'static str) -> Self {
        self.raw.settings_mut().set_stage(stage, name);
        self
    }

    /// The same lock with waits predicted in another way than by [`Estimate::Larger`].
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

impl<T: ?Sized> RwLock<T> {
    /// Locks it to read, on behalf of a request, which is charged for the wait.
    ///
    /// # Errors
    ///
    /// [`Rejected`], at once, when the predicted wait exceeds what the request has left.
    ///
    /// # Cancellation
    ///
    /// To drop the future gives up the place in the queue.
    pub async fn read(&self, ctx: &Context) -> Result<RwLockReadGuard<'_, T>, Rejected> {
        let stamp = self.raw.acquire(1, Turn::Shared, Asker::Request(ctx)).await?;
        Ok(ReadGuard::new(self, stamp))
    }

    /// Locks it to read, however long that takes: for work that is no request.
    pub async fn read_plain(&self) -> RwLockReadGuard<'_, T> {
        let stamp = unrefused(self.raw.acquire(1, Turn::Shared, Asker::Nobody).await);
        ReadGuard::new(self, stamp)
    }

    /// [`read`](Self::read) with a guard that owns its lock.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub async fn read_owned(
        self: Arc<Self>,
        ctx: &Context,
    ) -> Result<OwnedRwLockReadGuard<T>, Rejected> {
        let stamp = self.raw.acquire(1, Turn::Shared, Asker::Request(ctx)).await?;
        Ok(ReadGuard::new(self, stamp))
    }

    /// [`read`](Self::read) for a thread that may sleep.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn blocking_read(&self, ctx: &Context) -> Result<RwLockReadGuard<'_, T>, Rejected> {
        let stamp = self.raw.blocking_acquire(1, Turn::Shared, Asker::Request(ctx))?;
        Ok(ReadGuard::new(self, stamp))
    }

    /// [`read_plain`](Self::read_plain) for a thread that may sleep.
    #[inline]
    pub fn blocking_read_plain(&self) -> RwLockReadGuard<'_, T> {
        let stamp = unrefused(self.raw.blocking_acquire(1, Turn::Shared, Asker::Nobody));
        ReadGuard::new(self, stamp)
    }

    /// Locks it to read if that needs no wait.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        Some(ReadGuard::new(self, self.raw.try_acquire(1, Turn::Shared)?))
    }

    /// Locks it to write, on behalf of a request, which is charged for the wait.
    ///
    /// # Errors
    ///
    /// [`Rejected`], at once, when the predicted wait exceeds what the request has left.
    ///
    /// # Cancellation
    ///
    /// To drop the future gives up the place in the queue, and readers behind it need not wait for
    /// it any more.
    pub async fn write(&self, ctx: &Context) -> Result<RwLockWriteGuard<'_, T>, Rejected> {
        let stamp = self.raw.acquire(ALL, Turn::Exclusive, Asker::Request(ctx)).await?;
        Ok(WriteGuard::new(self, stamp))
    }

    /// Locks it to write, however long that takes: for work that is no request.
    pub async fn write_plain(&self) -> RwLockWriteGuard<'_, T> {
        let stamp = unrefused(self.raw.acquire(ALL, Turn::Exclusive, Asker::Nobody).await);
        WriteGuard::new(self, stamp)
    }

    /// [`write`](Self::write) with a guard that owns its lock.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub async fn write_owned(
        self: Arc<Self>,
        ctx: &Context,
    ) -> Result<OwnedRwLockWriteGuard<T>, Rejected> {
        let stamp = self.raw.acquire(ALL, Turn::Exclusive, Asker::Request(ctx)).await?;
        Ok(WriteGuard::new(self, stamp))
    }

    /// [`write`](Self::write) for a thread that may sleep.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn blocking_write(&self, ctx: &Context) -> Result<RwLockWriteGuard<'_, T>, Rejected> {
        let stamp = self.raw.blocking_acquire(ALL, Turn::Exclusive, Asker::Request(ctx))?;
        Ok(WriteGuard::new(self, stamp))
    }

    /// [`write_plain`](Self::write_plain) for a thread that may sleep.
    #[inline]
    pub fn blocking_write_plain(&self) -> RwLockWriteGuard<'_, T> {
        let stamp = unrefused(self.raw.blocking_acquire(ALL, Turn::Exclusive, Asker::Nobody));
        WriteGuard::new(self, stamp)
    }

    /// Locks it to write if that needs no wait.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        Some(WriteGuard::new(self, self.raw.try_acquire(ALL, Turn::Exclusive)?))
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

impl<L, T: ?Sized> ReadGuard<L, T>
where
    L: Deref<Target = RwLock<T>>,
{
    #[inline]
    fn new(lock: L, stamp: Stamp) -> Self {
        Self { lock, stamp, value: PhantomData }
    }
}

impl<L, T: ?Sized> WriteGuard<L, T>
where
    L: Deref<Target = RwLock<T>>,
{
    #[inline]
    fn new(lock: L, stamp: Stamp) -> Self {
        Self { lock, stamp, value: PhantomData }
    }

    /// Says what the holder does until it releases the lock, so that others know how long that
    /// takes: see [`Guard::hold`](crate::mutex::Guard::hold).
    pub fn hold(guard: &mut Self, label: &'static str, amount: u64) {
        guard.stamp = guard.lock.raw.hold(label, amount);
    }

    /// Keeps the right to read and gives that to write back: nobody writes in between.
    pub fn downgrade(guard: Self) -> ReadGuard<L, T> {
        let guard = ManuallyDrop::new(guard);
        // SAFETY: the guard is not used again, and not dropped, so that its lock moves out once.
        let lock = unsafe { std::ptr::read(&guard.lock) };
        lock.raw.release(ALL - 1, guard.stamp);
        ReadGuard::new(lock, Stamp::NONE)
    }
}

impl<L, T: ?Sized> Deref for ReadGuard<L, T>
where
    L: Deref<Target = RwLock<T>>,
{
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard has a permit, without which nobody writes.
        unsafe { &*self.lock.value.get() }
    }
}

impl<L, T: ?Sized> Deref for WriteGuard<L, T>
where
    L: Deref<Target = RwLock<T>>,
{
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard has all permits: nobody else has a reference to the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<L, T: ?Sized> DerefMut for WriteGuard<L, T>
where
    L: Deref<Target = RwLock<T>>,
{
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard has all permits, and is borrowed exclusively itself.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<L, T: ?Sized> Drop for ReadGuard<L, T>
where
    L: Deref<Target = RwLock<T>>,
{
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.release(1, self.stamp);
    }
}

impl<L, T: ?Sized> Drop for WriteGuard<L, T>
where
    L: Deref<Target = RwLock<T>>,
{
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.release(ALL, self.stamp);
    }
}

impl<L, T: ?Sized + fmt::Debug> fmt::Debug for ReadGuard<L, T>
where
    L: Deref<Target = RwLock<T>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<L, T: ?Sized + fmt::Debug> fmt::Debug for WriteGuard<L, T>
where
    L: Deref<Target = RwLock<T>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RwLock");
        match self.try_read() {
            Some(guard) => shown.field("value", &&*guard),
            None => shown.field("value", &format_args!("<locked>")),
        };
        shown.finish()
    }
}

impl<T: Default> Default for RwLock<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::clock::manual::advance;
    use crate::testing::{Polled, now, request, us};

    #[test]
    fn readers_share_and_writers_do_not() {
        let mut lock = RwLock::new(1);
        let (a, b) = (lock.try_read().unwrap(), now(lock.read(&request(0))).unwrap());
        assert_eq!((*a + *b, lock.try_write().is_none()), (2, true));
        drop((a, b));
        let mut writer = now(lock.write(&request(0))).unwrap();
        *writer += 1;
        assert_eq!(format!("{writer:?} {lock:?}"), "2 RwLock { value: <locked> }");
        assert!(lock.try_read().is_none() && lock.try_write().is_none());
        let reader = WriteGuard::downgrade(writer);
        assert_eq!(*reader + *lock.blocking_read_plain(), 4);
        drop(reader);
        *lock.blocking_write_plain() += 1;
        *lock.get_mut() += 1;
        assert_eq!(lock.into_inner(), 4);
    }

    #[test]
    fn a_writer_that_waits_is_overtaken_by_no_reader() {
        let lock = RwLock::new(());
        let reader = lock.try_read().unwrap();
        let mut writer = Polled::waiting(lock.write_plain());
        assert!(lock.try_read().is_none());
        let mut late = [(); 12].map(|()| Polled::waiting(lock.read_plain()));
        drop(reader);
        let guard = writer.poll().unwrap();
        assert!(late.iter_mut().all(|reader| reader.poll().is_none()));
        drop(guard);
        assert!(late.iter().all(|reader| reader.wakes() == 1)); // all at once, beyond one batch
        assert_eq!(late.map(Polled::ready).len(), 12);
        assert!(lock.try_write().is_some());
    }

    #[test]
    fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
        let lock = RwLock::new(());
        let _reader = lock.try_read().unwrap();
        let writer = Polled::waiting(lock.write_plain());
        let mut late = [(); 12].map(|()| Polled::waiting(lock.read_plain()));
        drop(writer);
        assert!(late.iter_mut().all(|reader| reader.poll().is_some()));
    }

    #[test]
    fn waits_are_predicted_by_turns_of_which_readers_share_one() {
        let lock = RwLock::new(()).predicted_by(Estimate::QueuedWork);
        // It is held for 10 µs at a time.
        let writer = lock.try_write().unwrap();
        let mut next = Polled::waiting(lock.write_plain());
        drop(writer);
        let writer = next.poll().unwrap();
        advance(us(10));
        drop(writer);

        let predicted = |refused: Rejected| refused.predicted_delay;
        let hopeless = request(1);
        let to_read = || predicted(now(lock.read(&hopeless)).unwrap_err());
        let to_write = || predicted(now(lock.write(&hopeless)).unwrap_err());
        let _writer = lock.try_write().unwrap();
        assert_eq!((to_read(), to_write()), (us(10), us(10)));
        let _a = Polled::waiting(lock.read_plain());
        let _b = Polled::waiting(lock.read_plain());
        assert_eq!((to_read(), to_write()), (us(10), us(20)));
        let c = Polled::waiting(lock.write_plain());
        assert_eq!((to_read(), to_write()), (us(30), us(30)));
        let _d = Polled::waiting(lock.read_plain());
        assert_eq!((to_read(), to_write()), (us(30), us(40)));
        drop(c); // and all readers are neighbours
        assert_eq!((to_read(), to_write()), (us(10), us(20)));
    }

    /// A rebalance of a ring, as in LIBROS (§VI).
    #[test]
    fn readers_are_refused_by_what_the_writer_says_that_it_does() {
        let ring = RwLock::new(()).predicted_by(Estimate::OldestWaiter);
        let rebalance = |nodes: u64, ms: u64| {
            let mut writer = now(ring.write_plain());
            WriteGuard::hold(&mut writer, "rebalance", nodes);
            advance(us(ms * 1_000));
        };
        rebalance(32, 25);
        rebalance(256, 130);
        let mut writer = now(ring.write_plain());
        WriteGuard::hold(&mut writer, "rebalance", 256);
        advance(us(30_000));
        let refused = now(ring.read(&request(90_000))).unwrap_err();
        assert!(refused.predicted_delay.abs_diff(us(100_000)) < us(1), "{refused:?}");
        let patient = request(110_000);
        let patient = Polled::waiting(ring.read(&patient));
        advance(us(101_000));
        drop(writer);
        drop(patient.ready().unwrap());

        let [forecast] = &ring.raw.snapshot().forecasts[..] else { panic!("one label") };
        assert_eq!((forecast.label, forecast.precision.count()), ("rebalance", 2));
        assert_eq!(forecast.precision.within(us(1_000)), Some(0.5));
        assert!(now(ring.read(&request(0))).is_ok(), "it is free");
        let hold = ring.raw.snapshot().hold;
        assert!(hold < us(1_000), "the mean is that of the others: {hold:?}");
    }

    #[test]
    fn owned_guards_and_unsized_values() {
        let lock: Arc<RwLock<[u32]>> = Arc::new(RwLock::new([1, 2]));
        let ctx = request(1);
        let readers = [(); 2].map(|()| now(lock.clone().read_owned(&ctx)).unwrap());
        assert_eq!(readers.map(|reader| reader.len()), [2, 2]);
        let mut writer = now(lock.clone().write_owned(&ctx)).unwrap();
        writer[0] = 5;
        assert_eq!(WriteGuard::downgrade(writer)[0], 5);
        assert_eq!(Arc::strong_count(&lock), 1);
    }
}
