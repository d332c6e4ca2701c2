//! The semaphore itself.

use std::fmt;
use std::ops::Deref;
#[cfg(not(loom))]
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::thread;

use seawall_control::predict::lock::Estimate;
use seawall_control::predict::memory::MemoryPolicy;
use seawall_control::request::{Context, Rejected, Stage};

use crate::contention::{Kind, Snapshot};
use crate::primitive::const_fn;
use crate::queue::Turn;
use crate::raw::{Asker, PERMITS_MAX, RawSemaphore, Stamp, unrefused};

/// What a semaphore of one permit each asks for.
const ONE: u32 = 1;

/// Lets as many requests at once do what needs memory bandwidth as use it up, and no more
/// (`m_semaphore`, Svalinn §3.2).
///
/// It is a semaphore whose capacity can be set at any time, by hand or by a
/// [`Steering`](super::Steering).
///
/// ```
/// use seawall_sync::MemorySemaphore;
///
/// let memory = MemorySemaphore::new(2);
/// let first = memory.try_wait().unwrap();
/// let second = memory.try_wait().unwrap();
/// memory.resize(1);
/// drop(first); // there was one too many
/// assert!(memory.try_wait().is_none());
/// drop(second);
/// assert!(memory.try_wait().is_some());
/// ```
pub struct MemorySemaphore {
    raw: RawSemaphore,
    #[cfg(not(loom))]
    pub(super) is_steered: AtomicBool,
}

/// A place among those who may use memory, which is given up when this is dropped (the paper's
/// `post`).
///
/// `L` is how it reaches the semaphore: see [`MemoryPermit`] and [`OwnedMemoryPermit`].
#[must_use = "a permit that is dropped at once permits nothing"]
pub struct Permit<L>
where
    L: Deref<Target = MemorySemaphore>,
{
    semaphore: L,
    stamp: Stamp,
}

/// A permit of a borrowed semaphore; of one that lives as long as the program it is
/// `MemoryPermit<'static>` and can go anywhere.
pub type MemoryPermit<'a> = Permit<&'a MemorySemaphore>;

/// A permit of a semaphore behind an [`Arc`].
pub type OwnedMemoryPermit = Permit<Arc<MemorySemaphore>>;

impl MemorySemaphore {
    /// How large its capacity can be.
    pub const MAX_CAPACITY: u32 = PERMITS_MAX;

    const_fn! {
        /// A semaphore that lets `capacity` requests in at once. In reports it is called by the
        /// place of this call, and its refusals name [`Stage::MEMORY`], until [`at`](Self::at) says
        /// otherwise.
        ///
        /// # Panics
        ///
        /// If `capacity` is 0 or more than [`MAX_CAPACITY`](Self::MAX_CAPACITY).
        #[track_caller]
        pub const fn new(capacity: u32) -> Self {
            assert!(capacity > 0, "a semaphore of capacity 0 lets nobody in");
            let mut raw = RawSemaphore::new(Kind::Memory, capacity);
            raw.settings_mut().stage = Stage::MEMORY;
            Self {
                raw,
                #[cfg(not(loom))]
                is_steered: AtomicBool::new(false),
            }
        }
    }

    /// The one of this process, for all that uses its memory. Until somebody steers it, its
    /// capacity is the number of cores that the process may use.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<MemorySemaphore> = LazyLock::new(|| {
            let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
            MemorySemaphore::new(cores).at(Stage::MEMORY, "memory")
        });
        &SHARED
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

    /// Enters, if fewer are in than may: one compare-and-swap. Never waits, which is a queue of
    /// length zero (Svalinn §4).
    ///
    /// Those who wait are not passed over: what a holder gives up while somebody waits is that
    /// one's, here as in the paper's `post`.
    #[inline]
    pub fn try_wait(&self) -> Option<MemoryPermit<'_>> {
        let stamp = self.raw.try_acquire(ONE, Turn::Weighted)?;
        Some(Permit { semaphore: self, stamp })
    }

    /// [`try_wait`](Self::try_wait) with a permit that owns its semaphore.
    pub fn try_wait_owned(self: Arc<Self>) -> Option<OwnedMemoryPermit> {
        let stamp = self.raw.try_acquire(ONE, Turn::Weighted)?;
        Some(Permit { semaphore: self, stamp })
    }

    /// Enters on behalf of a request, which waits for that if it can afford to, and is charged for
    /// the wait.
    ///
    /// # Errors
    ///
    /// [`Rejected`], at once, when the predicted wait exceeds what the request has left.
    ///
    /// # Cancellation
    ///
    /// To drop the future gives up the place in the queue.
    pub async fn wait_if_uncongested(&self, ctx: &Context) -> Result<MemoryPermit<'_>, Rejected> {
        let stamp = self.raw.acquire(ONE, Turn::Weighted, Asker::Request(ctx)).await?;
        Ok(Permit { semaphore: self, stamp })
    }

    /// [`wait_if_uncongested`](Self::wait_if_uncongested) with a permit that owns its semaphore.
    ///
    /// # Errors
    ///
    /// As [`wait_if_uncongested`](Self::wait_if_uncongested).
    pub async fn wait_if_uncongested_owned(
        self: Arc<Self>,
        ctx: &Context,
    ) -> Result<OwnedMemoryPermit, Rejected> {
        let stamp = self.raw.acquire(ONE, Turn::Weighted, Asker::Request(ctx)).await?;
        Ok(Permit { semaphore: self, stamp })
    }

    /// [`wait_if_uncongested`](Self::wait_if_uncongested) for a thread that may sleep.
    ///
    /// # Errors
    ///
    /// As [`wait_if_uncongested`](Self::wait_if_uncongested).
    pub fn blocking_wait_if_uncongested(
        &self,
        ctx: &Context,
    ) -> Result<MemoryPermit<'_>, Rejected> {
        let stamp = self.raw.blocking_acquire(ONE, Turn::Weighted, Asker::Request(ctx))?;
        Ok(Permit { semaphore: self, stamp })
    }

    /// [`wait_if_uncongested_owned`](Self::wait_if_uncongested_owned) for a thread that may sleep.
    ///
    /// # Errors
    ///
    /// As [`wait_if_uncongested`](Self::wait_if_uncongested).
    pub fn blocking_wait_if_uncongested_owned(
        self: Arc<Self>,
        ctx: &Context,
    ) -> Result<OwnedMemoryPermit, Rejected> {
        let stamp = self.raw.blocking_acquire(ONE, Turn::Weighted, Asker::Request(ctx))?;
        Ok(Permit { semaphore: self, stamp })
    }

    /// Enters, however long it takes: for work that is no request.
    pub async fn wait_plain(&self) -> MemoryPermit<'_> {
        let acquired = self.raw.acquire(ONE, Turn::Weighted, Asker::Nobody).await;
        Permit { semaphore: self, stamp: unrefused(acquired) }
    }

    /// [`wait_plain`](Self::wait_plain) for a thread that may sleep.
    pub fn blocking_wait_plain(&self) -> MemoryPermit<'_> {
        let acquired = self.raw.blocking_acquire(ONE, Turn::Weighted, Asker::Nobody);
        Permit { semaphore: self, stamp: unrefused(acquired) }
    }

    /// Enters on behalf of a request as `policy` says, so that services can compare policies;
    /// `None` where there is no bound. A request that may not be dropped waits rather than be
    /// refused.
    ///
    /// # Errors
    ///
    /// There is no room, and the request may not or cannot wait for it.
    pub async fn enter(
        &self,
        policy: MemoryPolicy,
        ctx: &Context,
    ) -> Result<Option<MemoryPermit<'_>>, Rejected> {
        match policy {
            MemoryPolicy::None => Ok(None),
            MemoryPolicy::Try if ctx.claims().droppable => {
                self.try_wait().map(Some).ok_or_else(|| self.refuse(ctx))
            }
            _ => self.wait_if_uncongested(ctx).await.map(Some),
        }
    }

    /// Refuses a request to which [`try_wait`](Self::try_wait) gave no permit: counts it, and tells
    /// it how long it would have had to wait, and what it had left. Looks at the queue and at the
    /// clock.
    pub fn refuse(&self, ctx: &Context) -> Rejected {
        self.raw.refuse(ONE, Turn::Weighted, ctx)
    }

    /// Lets `capacity` in at once from now on: those who wait enter as far as there is room. If
    /// more are in already, they stay; nobody enters until enough of them have left.
    ///
    /// # Panics
    ///
    /// If `capacity` is 0 or more than [`MAX_CAPACITY`](Self::MAX_CAPACITY).
    pub fn resize(&self, capacity: u32) {
        assert!(capacity > 0, "a semaphore of capacity 0 lets nobody in");
        self.raw.resize(capacity);
    }

    /// How many may be in at once.
    pub fn capacity(&self) -> u32 {
        self.raw.capacity()
    }

    /// How many more would be let in now.
    pub fn available(&self) -> u32 {
        self.raw.available()
    }

    /// How many are in: more than [`capacity`](Self::capacity) for a while after it has shrunk.
    pub fn holders(&self) -> u32 {
        self.raw.held()
    }

    /// Resolves once somebody enters, or is in already: for one who steers the capacity himself and
    /// has nothing to do until then. It may resolve without a use, and does for an earlier caller
    /// when another one calls.
    pub async fn used(&self) {
        self.raw.used().await;
    }

    /// How often somebody has entered; of several in the same instant one may be missing.
    pub fn uses(&self) -> u64 {
        self.raw.acquisitions()
    }

    /// What was measured here until now.
    pub fn snapshot(&self) -> Snapshot {
        self.raw.snapshot()
    }

    /// Whether somebody is in, or waits.
    #[cfg(not(loom))]
    pub(super) fn is_used(&self) -> bool {
        self.raw.is_used()
    }
}

impl<L> Drop for Permit<L>
where
    L: Deref<Target = MemorySemaphore>,
{
    #[inline]
    fn drop(&mut self) {
        self.semaphore.raw.release(ONE, self.stamp);
    }
}

impl fmt::Debug for MemorySemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySemaphore")
            .field("capacity", &self.capacity())
            .field("available", &self.available())
            .finish_non_exhaustive()
    }
}

impl<L> fmt::Debug for Permit<L>
where
    L: Deref<Target = MemorySemaphore>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryPermit").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use seawall_control::request::RefusalReason;

    use super::*;
    use crate::clock::manual::advance;
    use crate::contention;
    use crate::testing::{Polled, now, request, undroppable, us};

    #[test]
    fn as_many_enter_as_may() {
        let memory = MemorySemaphore::new(2);
        let first = memory.try_wait().unwrap();
        let _second = now(memory.wait_if_uncongested(&request(10))).unwrap();
        assert!(memory.try_wait().is_none());
        assert_eq!((memory.capacity(), memory.available()), (2, 0));
        drop(first);
        assert!(memory.blocking_wait_if_uncongested(&request(10)).is_ok());
        assert_eq!((memory.available(), memory.uses()), (1, 3));
        let shown = "MemorySemaphore { capacity: 2, available: 1, .. }";
        assert_eq!(format!("{memory:?}"), shown);
    }

    #[test]
    fn who_finds_no_room_is_refused_as_the_policy_says() {
        let memory = MemorySemaphore::new(1).at(Stage::MEMORY, "memory");
        let held = memory.try_wait().unwrap();
        assert!(now(memory.enter(MemoryPolicy::None, &request(0))).unwrap().is_none());
        let refused = now(memory.enter(MemoryPolicy::Try, &request(1_000))).unwrap_err();
        assert_eq!(refused.stage, Stage::MEMORY);
        let ctx = undroppable();
        let mut waiting = Polled::waiting(memory.enter(MemoryPolicy::Try, &ctx));
        advance(us(20));
        let refused = now(memory.enter(MemoryPolicy::Wait, &request(10))).unwrap_err();
        assert_eq!((refused.stage, refused.predicted_delay), (Stage::MEMORY, us(20)));
        drop(held);
        assert!(waiting.poll().unwrap().unwrap().is_some(), "what must not be dropped waits");
    }

    #[test]
    fn room_that_is_made_goes_to_those_who_wait() {
        let memory = MemorySemaphore::new(1);
        let _held = memory.try_wait().unwrap();
        let mut waiting = [(); 3].map(|()| Polled::waiting(memory.wait_plain()));
        memory.resize(3);
        assert_eq!(waiting.each_ref().map(Polled::wakes), [1, 1, 0]);
        assert!(memory.try_wait().is_none());
        let permits = waiting.each_mut().map(Polled::poll);
        assert_eq!(permits.each_ref().map(Option::is_some), [true, true, false]);
        drop(permits);
        assert!(waiting[2].poll().is_some());
    }

    #[test]
    fn holders_stay_and_what_they_give_back_is_forgotten() {
        let memory = MemorySemaphore::new(4);
        let mut held: Vec<_> = (0..4).map(|_| memory.try_wait().unwrap()).collect();
        let mut waiting = Polled::waiting(memory.wait_plain());
        memory.resize(2);
        memory.resize(1);
        assert_eq!((memory.capacity(), memory.holders()), (1, 4));
        for _ in 0..3 {
            held.pop();
            assert!(memory.try_wait().is_none() && waiting.poll().is_none());
        }
        held.pop();
        assert!(waiting.poll().is_some());
        assert_eq!((memory.capacity(), memory.available(), memory.holders()), (1, 1, 0));
    }

    #[test]
    fn what_is_owed_is_made_good_by_growing() {
        let memory = MemorySemaphore::new(4);
        let held: Vec<_> = (0..4).map(|_| memory.try_wait().unwrap()).collect();
        memory.resize(1);
        memory.resize(5);
        assert_eq!(memory.available(), 1);
        drop(held);
        assert_eq!(memory.available(), 5);
        memory.resize(5);
        assert_eq!(memory.available(), 5);
    }

    #[test]
    fn who_cannot_wait_is_refused_at_its_stage_and_who_waits_is_charged() {
        let memory = MemorySemaphore::new(1);
        let held = memory.try_wait().unwrap();
        let ctx = request(1_000);
        let mut next = Polled::waiting(memory.wait_if_uncongested(&ctx));
        advance(us(70));
        let refused = now(memory.wait_if_uncongested(&request(50))).unwrap_err();
        let expected = Rejected::new(Stage::MEMORY, us(70), us(50));
        assert_eq!(refused, expected.with_reason(RefusalReason::Budget));
        assert_eq!(memory.refuse(&request(50)), expected);
        drop(held);
        assert!(next.poll().unwrap().is_ok());
        assert_eq!(ctx.charged(), us(70));
    }

    #[test]
    fn the_prediction_knows_of_the_new_capacity() {
        let memory = MemorySemaphore::new(1).predicted_by(Estimate::QueuedWork);
        let held = memory.try_wait().unwrap();
        let mut next = Polled::waiting(memory.wait_plain());
        drop(held);
        let permit = next.poll().unwrap();
        advance(us(100));
        drop(permit); // the first hold that is measured

        let predicted = || memory.refuse(&request(0)).predicted_delay;
        let _held = memory.try_wait().unwrap();
        assert_eq!(predicted(), us(100));
        memory.resize(4);
        let _all = [(); 3].map(|()| memory.try_wait().unwrap());
        assert_eq!(predicted(), us(25));
    }

    #[test]
    fn owned_permits_keep_their_semaphore() {
        let memory = Arc::new(MemorySemaphore::new(2));
        let a = memory.clone().try_wait_owned().unwrap();
        let b = now(memory.clone().wait_if_uncongested_owned(&request(0))).unwrap();
        assert!(memory.clone().try_wait_owned().is_none());
        drop((a, b));
        drop(memory.clone().blocking_wait_if_uncongested_owned(&request(9)).unwrap());
        assert_eq!((Arc::strong_count(&memory), memory.available()), (1, 2));
    }

    #[test]
    fn who_is_refused_is_reported_and_who_only_looked_is_not() {
        let memory = MemorySemaphore::new(1).at(Stage(40), "columns");
        let of_name = || {
            let all = contention::report().stages;
            all.into_iter().find(|stage| stage.name == contention::Name::Given("columns"))
        };
        let _held = memory.try_wait().unwrap();
        assert_eq!(of_name(), None);
        assert!(memory.try_wait().is_none());
        assert_eq!(of_name(), None);
        for _ in 0..2 {
            let refused = now(memory.enter(MemoryPolicy::Try, &request(1_000))).unwrap_err();
            assert_eq!(refused.stage, Stage(40));
        }
        let seen = of_name().expect("it is listed");
        assert_eq!((seen.kind, seen.stage, seen.refusals), (Kind::Memory, Stage(40), 2));
    }

    #[test]
    fn a_use_ends_the_wait_for_one() {
        let memory = MemorySemaphore::new(2);
        let mut used = Polled::waiting(memory.used());
        assert!(used.poll().is_none());
        drop(memory.try_wait());
        assert_eq!((used.wakes(), used.poll()), (1, Some(())));
        let held = memory.try_wait();
        now(memory.used()); // somebody is in
        drop(held);
        let mut used = Polled::waiting(memory.used());
        memory.resize(3);
        assert_eq!((used.wakes(), used.poll()), (0, None));
        let _held = now(memory.wait_if_uncongested(&request(9)));
        assert_eq!(used.poll(), Some(()));
    }

    #[test]
    fn a_later_watch_ends_the_earlier_one() {
        let memory = MemorySemaphore::new(1);
        let mut earlier = Polled::waiting(memory.used());
        let mut later = Polled::waiting(memory.used());
        assert_eq!((earlier.wakes(), earlier.poll()), (1, Some(())));
        assert!(later.poll().is_none());
        drop(memory.try_wait());
        assert_eq!((later.wakes(), later.poll()), (1, Some(())));
    }

    #[test]
    #[should_panic(expected = "a semaphore of capacity 0 lets nobody in")]
    fn somebody_must_be_let_in() {
        MemorySemaphore::new(1).resize(0);
    }
}
