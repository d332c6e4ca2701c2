//! Waiting for a condition that others bring about.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;

use seawall_control::predict::lock::Estimate;
use seawall_control::request::{Context, Rejected, Stage};

use crate::block_on::block_on;
use crate::cleanup::Cleanup;
use crate::contention::{Kind, Snapshot};
use crate::mutex::MutexGuard;
use crate::primitive::const_fn;
use crate::queue::Turn;
use crate::raw::{Acquired, Asker, RawSemaphore, unrefused};

/// A condition that refuses a request which cannot afford to wait for it.
///
/// The wait is predicted by the age of the oldest waiter (Protego §4): nobody knows when a
/// condition will come true. Notifications wake in the order of arrival, and one that reaches a
/// waiter which gives up goes to the next.
///
/// ```
/// use seawall_control::request::{Context, Rejected};
/// use seawall_sync::{Condvar, Mutex};
///
/// async fn take(jobs: &Mutex<Vec<u32>>, some: &Condvar, ctx: &Context) -> Result<u32, Rejected> {
///     let mut jobs = jobs.lock(ctx).await?;
///     loop {
///         match jobs.pop() {
///             Some(job) => return Ok(job),
///             None => jobs = some.wait(ctx, jobs).await?,
///         }
///     }
/// }
/// ```
pub struct Condvar {
    raw: RawSemaphore,
}

/// A request did not wait for a condition, and holds its mutex still.
#[derive(Debug)]
pub struct Refused<'a, T: ?Sized> {
    /// The guard that the request had given.
    pub guard: MutexGuard<'a, T>,
    /// Why it did not wait.
    pub rejected: Rejected,
}

impl Condvar {
    const_fn! {
        /// A condition for which nobody waits. In reports it is called by the place of this call,
        /// and its refusals name [`Stage::HANDLER`], until [`at`](Self::at) says otherwise.
        #[track_caller]
        pub const fn new() -> Self {
            let mut raw = RawSemaphore::new(Kind::Condvar, 0);
            raw.settings_mut().estimate = Estimate::OldestWaiter;
            Self { raw }
        }
    }

    /// The same condition as a stage with a number and a name of its own.
    #[must_use]
    pub const fn at(mut self, stage: Stage, name: &'static str) -> Self {
        self.raw.settings_mut().set_stage(stage, name);
        self
    }

    /// Gives the mutex back, waits to be notified, and locks it again, all on behalf of a request,
    /// which is charged for both waits. It is not refused any more once it has been notified.
    ///
    /// Nobody notifies between the mutex is given back and the wait begins. The condition may have
    /// become false again when the mutex is locked: ask in a loop.
    ///
    /// # Errors
    ///
    /// [`Refused`], at once and with the guard, when the oldest waiter has waited for longer than
    /// the request can. Where the guard is not needed any more, `?` makes a [`Rejected`] of it.
    ///
    /// # Cancellation
    ///
    /// To drop the future leaves the mutex unlocked; a notification goes to the next waiter.
    pub async fn wait<'a, T: ?Sized>(
        &self,
        ctx: &Context,
        guard: MutexGuard<'a, T>,
    ) -> Result<MutexGuard<'a, T>, Refused<'a, T>> {
        let (mutex, asker) = (MutexGuard::mutex(&guard), Asker::Request(ctx));
        asker.charge(&self.notified(asker, guard).await?);
        let pass_on = Cleanup::new(|| self.notify_one()); // if it is cancelled before it acts on it
        let locked = mutex.lock_as(Asker::Committed(ctx)).await;
        pass_on.keep();
        Ok(locked)
    }

    /// Gives the mutex back, waits to be notified, and locks it again, however long that takes: for
    /// work that is no request.
    pub async fn wait_plain<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let mutex = MutexGuard::mutex(&guard);
        unrefused(self.notified(Asker::Nobody, guard).await.map_err(Rejected::from));
        let pass_on = Cleanup::new(|| self.notify_one());
        let locked = mutex.lock_plain().await;
        pass_on.keep();
        locked
    }

    /// [`wait`](Self::wait) for a thread that may sleep.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn blocking_wait<'a, T: ?Sized>(
        &self,
        ctx: &Context,
        guard: MutexGuard<'a, T>,
    ) -> Result<MutexGuard<'a, T>, Refused<'a, T>> {
        let (mutex, asker) = (MutexGuard::mutex(&guard), Asker::Request(ctx));
        asker.charge_thread(&block_on(self.notified(asker, guard))?);
        Ok(mutex.blocking_lock_as(Asker::Committed(ctx)))
    }

    /// [`wait_plain`](Self::wait_plain) for a thread that may sleep.
    pub fn blocking_wait_plain<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
    ) -> MutexGuard<'a, T> {
        let mutex = MutexGuard::mutex(&guard);
        unrefused(block_on(self.notified(Asker::Nobody, guard)).map_err(Rejected::from));
        mutex.blocking_lock_plain()
    }

    /// Wakes who has waited longest.
    pub fn notify_one(&self) {
        self.raw.let_pass(1);
    }

    /// Wakes all who wait now.
    pub fn notify_all(&self) {
        self.raw.let_pass(u32::MAX);
    }

    /// What was measured here until now.
    pub fn snapshot(&self) -> Snapshot {
        self.raw.snapshot()
    }

    /// Queues up, then gives the mutex back, then waits.
    async fn notified<'a, T: ?Sized>(
        &self,
        asker: Asker<'_>,
        guard: MutexGuard<'a, T>,
    ) -> Result<Acquired, Refused<'a, T>> {
        let mut guard = Some(guard);
        let mut passed = pin!(self.raw.ask(1, Turn::Weighted, asker));
        let result = poll_fn(|cx| {
            let polled = passed.as_mut().poll(cx);
            if polled.is_pending() {
                guard = None; // it stands in the queue, where no notification misses it
            }
            polled
        })
        .await;
        result.map_err(|rejected| {
            let guard = guard.expect("who has queued up is not refused any more");
            Refused { guard, rejected }
        })
    }
}

impl Default for Condvar {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

/// The guard is dropped, and the mutex given back.
impl<T: ?Sized> From<Refused<'_, T>> for Rejected {
    fn from(refused: Refused<'_, T>) -> Self {
        refused.rejected
    }
}

impl<T: ?Sized> fmt::Display for Refused<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rejected.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> std::error::Error for Refused<'_, T> {}

#[cfg(all(test, not(loom)))]
mod tests {
    use seawall_control::request::RefusalReason;

    use super::*;
    use crate::clock::manual::advance;
    use crate::mutex::Mutex;
    use crate::testing::{Polled, now, request, us};

    #[test]
    fn notifications_wake_in_order_and_are_not_stored() {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        condvar.notify_one();
        condvar.notify_all();
        let mut a = Polled::waiting(condvar.wait_plain(mutex.try_lock().unwrap()));
        let mut b = Polled::waiting(condvar.wait_plain(mutex.try_lock().unwrap()));
        let mut c = Polled::waiting(condvar.wait_plain(mutex.try_lock().unwrap()));
        *mutex.try_lock().expect("those who wait do not hold it") += 1;
        condvar.notify_one();
        assert_eq!([a.wakes(), b.wakes(), c.wakes()], [1, 0, 0]);
        assert_eq!(*a.poll().unwrap(), 1);
        condvar.notify_all();
        assert_eq!(b.poll().map(|guard| *guard), Some(1));
        assert_eq!(c.poll().map(|guard| *guard), Some(1));
        assert_eq!(condvar.snapshot().waits, 3);
    }

    #[test]
    fn who_cannot_wait_as_long_as_the_oldest_has_keeps_the_mutex() {
        let (mutex, condvar) = (Mutex::new(3), Condvar::new().at(Stage(21), "some"));
        let first = request(1_000);
        let mut waiting = Polled::waiting(condvar.wait(&first, mutex.try_lock().unwrap()));
        advance(us(200));
        let (ctx, guard) = (request(100), mutex.try_lock().unwrap());
        let refused = now(condvar.wait(&ctx, guard)).unwrap_err();
        let expected = Rejected::new(Stage(21), us(200), us(100));
        assert_eq!(refused.rejected, expected.with_reason(RefusalReason::Budget));
        assert_eq!((*refused.guard, mutex.try_lock().is_none()), (3, true));
        assert_eq!(refused.to_string(), refused.rejected.to_string());
        let _: Rejected = refused.into();

        condvar.notify_one();
        let holder = mutex.try_lock().unwrap();
        assert!(waiting.poll().is_none()); // notified, and waits for the mutex
        advance(us(30));
        drop(holder);
        assert_eq!(*waiting.poll().unwrap().unwrap(), 3);
        assert_eq!(first.charged(), us(230));
    }

    #[test]
    fn who_gives_up_passes_its_notification_on() {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let a = Polled::waiting(condvar.wait_plain(mutex.try_lock().unwrap()));
        let mut b = Polled::waiting(condvar.wait_plain(mutex.try_lock().unwrap()));
        condvar.notify_one();
        drop(a);
        assert!(b.poll().is_some());
        drop(Polled::waiting(condvar.wait_plain(mutex.try_lock().unwrap())));
        condvar.notify_one();
        assert!(mutex.try_lock().is_some());
    }

    #[test]
    fn who_gives_up_before_it_has_the_mutex_again_passes_its_notification_on() {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let ctx = request(1_000);
        let mut a = Polled::waiting(condvar.wait(&ctx, mutex.try_lock().unwrap()));
        let mut b = Polled::waiting(condvar.wait_plain(mutex.try_lock().unwrap()));
        let mut c = Polled::waiting(condvar.wait_plain(mutex.try_lock().unwrap()));
        let holder = mutex.try_lock().unwrap();
        condvar.notify_one();
        assert!(a.poll().is_none()); // notified, and waits for the mutex
        drop(a);
        assert!(b.poll().is_none()); // it as well
        drop(b);
        drop(holder);
        assert!(c.poll().is_some());
    }

    #[test]
    fn all_are_woken_beyond_one_batch() {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let all = [(); 20].map(|()| Polled::waiting(condvar.wait_plain(mutex.try_lock().unwrap())));
        condvar.notify_all();
        assert!(all.iter().all(|one| one.wakes() == 1));
        all.into_iter().for_each(|one| drop(one.ready()));
    }
}
