//! Permits, a fixed number of them.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use seawall_control::predict::lock::Estimate;
use seawall_control::request::{Context, Rejected, Stage};

use crate::contention::{Kind, Snapshot};
use crate::primitive::const_fn;
use crate::queue::{Settings, Turn};
use crate::raw::{Asker, PERMITS_MAX, RawSemaphore, Stamp, unrefused};

/// Permits for requests, of which one that cannot afford to wait is refused.
///
/// First come, first served, whatever the number of permits: who asks for many is not passed over
/// by those who ask for few, but for 100 µs at most while it wakes up, if it asks for all there
/// are.
///
/// ```
/// use seawall_control::request::{Context, Rejected, Stage};
/// use seawall_sync::Semaphore;
///
/// static UPLOADS: Semaphore = Semaphore::new(8).at(Stage(18), "uploads");
///
/// async fn upload(ctx: &Context) -> Result<(), Rejected> {
///     let _permit = UPLOADS.acquire(ctx).await?; // given back when it is dropped
///     Ok(())
/// }
/// ```
pub struct Semaphore {
    raw: RawSemaphore,
}

/// Permits that somebody holds, which are given back when this is dropped.
///
/// `L` is how it reaches the semaphore: see [`SemaphorePermit`] and [`OwnedSemaphorePermit`].
#[must_use = "a permit that is dropped at once permits nothing"]
pub struct Permit<L>
where
    L: Deref<Target = Semaphore>,
{
    semaphore: L,
    permits: u32,
    stamp: Stamp,
}

/// Permits of a borrowed semaphore.
pub type SemaphorePermit<'a> = Permit<&'a Semaphore>;

/// Permits of a semaphore behind an [`Arc`].
pub type OwnedSemaphorePermit = Permit<Arc<Semaphore>>;

impl Semaphore {
    /// How many permits there can be.
    pub const MAX_PERMITS: u32 = PERMITS_MAX;

    const_fn! {
        /// A semaphore with that many permits. In reports it is called by the place of this call,
        /// and its refusals name [`Stage::HANDLER`], until [`at`](Self::at) says otherwise.
        ///
        /// # Panics
        ///
        /// If there are more than [`MAX_PERMITS`](Self::MAX_PERMITS).
        #[track_caller]
        pub const fn new(permits: u32) -> Self {
            Self::of_kind(Kind::Semaphore, permits)
        }
    }

    const_fn! {
        #[track_caller]
        pub(crate) const fn of_kind(kind: Kind, permits: u32) -> Self {
            Self { raw: RawSemaphore::new(kind, permits) }
        }
    }

    pub(crate) const fn settings_mut(&mut self) -> &mut Settings {
        self.raw.settings_mut()
    }

    /// The same semaphore as a stage with a number and a name of its own.
    #[must_use]
    pub const fn at(mut self, stage: Stage, name: &'static str) -> Self {
        self.raw.settings_mut().set_stage(stage, name);
        self
    }

    /// The same semaphore with waits predicted in another way than by [`Estimate::Larger`].
    #[must_use]
    pub const fn predicted_by(mut self, estimate: Estimate) -> Self {
        self.raw.settings_mut().estimate = estimate;
        self
    }

    /// Takes a permit on behalf of a request, which is charged for the wait.
    ///
    /// # Errors
    ///
    /// [`Rejected`], at once, when the predicted wait exceeds what the request has left.
    ///
    /// # Cancellation
    ///
    /// To drop the future gives up the place in the queue.
    pub async fn acquire(&self, ctx: &Context) -> Result<SemaphorePermit<'_>, Rejected> {
        self.acquire_many(ctx, 1).await
    }

    /// Takes that many permits at once, on behalf of a request, which is charged for the wait.
    ///
    /// # Errors
    ///
    /// [`Rejected`], at once, when the predicted wait exceeds what the request has left. More
    /// permits than there are wait until there are more.
    pub async fn acquire_many(
        &self,
        ctx: &Context,
        permits: u32,
    ) -> Result<SemaphorePermit<'_>, Rejected> {
        let stamp = self.raw.acquire(permits, Turn::Weighted, Asker::Request(ctx)).await?;
        Ok(Permit { semaphore: self, permits, stamp })
    }

    /// Takes that many permits, however long it takes: for work that is no request.
    pub async fn acquire_many_plain(&self, permits: u32) -> SemaphorePermit<'_> {
        let acquired = self.raw.acquire(permits, Turn::Weighted, Asker::Nobody).await;
        Permit { semaphore: self, permits, stamp: unrefused(acquired) }
    }

    /// Takes a permit, however long it takes: for work that is no request.
    pub async fn acquire_plain(&self) -> SemaphorePermit<'_> {
        self.acquire_many_plain(1).await
    }

    /// [`acquire`](Self::acquire) with a permit that owns its semaphore.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_owned(
        self: Arc<Self>,
        ctx: &Context,
    ) -> Result<OwnedSemaphorePermit, Rejected> {
        self.acquire_many_owned(ctx, 1).await
    }

    /// [`acquire_plain`](Self::acquire_plain) with a permit that owns its semaphore.
    pub async fn acquire_owned_plain(self: Arc<Self>) -> OwnedSemaphorePermit {
        let acquired = self.raw.acquire(1, Turn::Weighted, Asker::Nobody).await;
        Permit { stamp: unrefused(acquired), permits: 1, semaphore: self }
    }

    /// [`acquire_many`](Self::acquire_many) with a permit that owns its semaphore.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    pub async fn acquire_many_owned(
        self: Arc<Self>,
        ctx: &Context,
        permits: u32,
    ) -> Result<OwnedSemaphorePermit, Rejected> {
        let stamp = self.raw.acquire(permits, Turn::Weighted, Asker::Request(ctx)).await?;
        Ok(Permit { semaphore: self, permits, stamp })
    }

    /// [`acquire`](Self::acquire) for a thread that may sleep.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub fn blocking_acquire(&self, ctx: &Context) -> Result<SemaphorePermit<'_>, Rejected> {
        self.blocking_acquire_many(ctx, 1)
    }

    /// [`acquire_many`](Self::acquire_many) for a thread that may sleep.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    pub fn blocking_acquire_many(
        &self,
        ctx: &Context,
        permits: u32,
    ) -> Result<SemaphorePermit<'_>, Rejected> {
        let stamp = self.raw.blocking_acquire(permits, Turn::Weighted, Asker::Request(ctx))?;
        Ok(Permit { semaphore: self, permits, stamp })
    }

    /// [`acquire_owned`](Self::acquire_owned) for a thread that may sleep.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub fn blocking_acquire_owned(
        self: Arc<Self>,
        ctx: &Context,
    ) -> Result<OwnedSemaphorePermit, Rejected> {
        let stamp = self.raw.blocking_acquire(1, Turn::Weighted, Asker::Request(ctx))?;
        Ok(Permit { semaphore: self, permits: 1, stamp })
    }

    /// [`acquire_plain`](Self::acquire_plain) for a thread that may sleep.
    #[inline]
    pub fn blocking_acquire_plain(&self) -> SemaphorePermit<'_> {
        let acquired = self.raw.blocking_acquire(1, Turn::Weighted, Asker::Nobody);
        Permit { semaphore: self, permits: 1, stamp: unrefused(acquired) }
    }

    /// Takes a permit if that needs no wait.
    #[inline]
    pub fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.try_acquire_many(1)
    }

    /// Takes that many permits if that needs no wait.
    #[inline]
    pub fn try_acquire_many(&self, permits: u32) -> Option<SemaphorePermit<'_>> {
        let stamp = self.raw.try_acquire(permits, Turn::Weighted)?;
        Some(Permit { semaphore: self, permits, stamp })
    }

    /// [`try_acquire`](Self::try_acquire) with a permit that owns its semaphore.
    pub fn try_acquire_owned(self: Arc<Self>) -> Option<OwnedSemaphorePermit> {
        let stamp = self.raw.try_acquire(1, Turn::Weighted)?;
        Some(Permit { semaphore: self, permits: 1, stamp })
    }

    /// Permits that are free.
    pub fn available_permits(&self) -> u32 {
        self.raw.available()
    }

    /// Adds permits.
    ///
    /// # Panics
    ///
    /// If there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    pub fn add_permits(&self, permits: u32) {
        self.raw.add(permits);
    }

    /// What was measured here until now.
    pub fn snapshot(&self) -> Snapshot {
        self.raw.snapshot()
    }
}

impl<L> Permit<L>
where
    L: Deref<Target = Semaphore>,
{
    /// How many permits this is.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Does not give them back: the semaphore has that many less from now on.
    pub fn forget(mut self) {
        self.semaphore.raw.forget(self.permits);
        self.permits = 0; // which is what is given back
    }
}

impl<L> Drop for Permit<L>
where
    L: Deref<Target = Semaphore>,
{
    #[inline]
    fn drop(&mut self) {
        self.semaphore.raw.release(self.permits, self.stamp);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available_permits()).finish()
    }
}

impl<L> fmt::Debug for Permit<L>
where
    L: Deref<Target = Semaphore>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("permits", &self.permits).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::clock::manual::advance;
    use crate::testing::{Polled, now, request, us};

    #[test]
    fn permits_are_counted() {
        let semaphore = Semaphore::new(3);
        let two = now(semaphore.acquire_many(&request(0), 2)).unwrap();
        let one = semaphore.try_acquire().unwrap();
        assert!(semaphore.try_acquire().is_none());
        assert_eq!((two.permits(), semaphore.available_permits()), (2, 0));
        drop(two);
        one.forget();
        semaphore.add_permits(5);
        assert_eq!(semaphore.available_permits(), 7);
        drop(semaphore.blocking_acquire_plain());
        assert_eq!(format!("{semaphore:?}"), "Semaphore { available: 7 }");
    }

    #[test]
    fn who_asks_for_many_is_not_passed_over() {
        let semaphore = Semaphore::new(3);
        let mut held: Vec<_> = (0..3).map(|_| semaphore.try_acquire().unwrap()).collect();
        let mut many = Polled::waiting(semaphore.acquire_many_plain(2));
        let mut few = Polled::waiting(semaphore.acquire_plain());
        held.pop();
        assert!(many.poll().is_none() && few.poll().is_none());
        assert!(semaphore.try_acquire().is_none());
        held.pop();
        assert_eq!(many.poll().unwrap().permits(), 2); // and given back at once
        assert!(few.poll().is_some());
    }

    #[test]
    fn who_gives_up_many_lets_few_in() {
        let semaphore = Semaphore::new(2);
        let _held = semaphore.try_acquire().unwrap();
        let many = Polled::waiting(semaphore.acquire_many_plain(2));
        let mut few = Polled::waiting(semaphore.acquire_plain());
        drop(many);
        assert_eq!(few.wakes(), 1);
        assert!(few.poll().is_some());
    }

    #[test]
    fn added_permits_reach_those_who_wait() {
        let semaphore = Semaphore::new(0);
        let mut waiting = [(); 3].map(|()| Polled::waiting(semaphore.acquire_plain()));
        semaphore.add_permits(2);
        assert_eq!(waiting.each_ref().map(Polled::wakes), [1, 1, 0]);
        let permits = waiting.each_mut().map(Polled::poll);
        assert_eq!(permits.map(|permit| permit.is_some()), [true, true, false]);
    }

    #[test]
    fn waits_are_predicted_by_permits() {
        let semaphore = Semaphore::new(4).predicted_by(Estimate::QueuedWork);
        // Permits are held for 100 µs at a time.
        let held: Vec<_> = (0..4).map(|_| semaphore.try_acquire().unwrap()).collect();
        let mut next = Polled::waiting(semaphore.acquire_plain());
        drop(held);
        let permit = next.poll().unwrap();
        advance(us(100));
        drop(permit);

        let hopeless = request(1);
        let predicted =
            |permits| now(semaphore.acquire_many(&hopeless, permits)).unwrap_err().predicted_delay;
        let _held: Vec<_> = (0..3).map(|_| semaphore.try_acquire().unwrap()).collect();
        assert_eq!((predicted(2), predicted(4)), (us(25), us(75)));
        let _waiting = Polled::waiting(semaphore.acquire_many_plain(3));
        assert_eq!((predicted(1), predicted(4)), (us(75), us(150)));
    }

    #[test]
    fn owned_permits_keep_their_semaphore() {
        let semaphore = Arc::new(Semaphore::new(2));
        let a = now(semaphore.clone().acquire_owned(&request(0))).unwrap();
        let b = semaphore.clone().try_acquire_owned().unwrap();
        assert!(semaphore.clone().try_acquire_owned().is_none());
        drop((a, b));
        drop(now(semaphore.clone().acquire_many_owned(&request(0), 2)).unwrap());
        assert_eq!((Arc::strong_count(&semaphore), semaphore.available_permits()), (1, 2));
    }

    #[test]
    #[should_panic(expected = "at most 2^27 - 1 permits")]
    fn there_is_a_largest_number_of_permits() {
        Semaphore::new(Semaphore::MAX_PERMITS).add_permits(1);
    }
}
