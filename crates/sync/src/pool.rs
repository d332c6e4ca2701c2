//! Connections, or other things that are dear to make.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};

use seawall_control::predict::lock::Estimate;
use seawall_control::request::{Context, Rejected, Stage};

use crate::block_on::block_on;
use crate::contention::{Kind, Snapshot};
use crate::primitive::Mutex;
use crate::queue::Settings;
use crate::semaphore::{OwnedSemaphorePermit, Semaphore};

type Making<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// At most so many values of a kind, made when they are needed and used again, for requests of
/// which one that cannot afford to wait for a value is refused.
///
/// What was used last is used next, so that those beyond what is needed lie idle and can be told.
/// Clones share one pool.
///
/// ```
/// use seawall_control::request::{Context, Stage};
/// use seawall_sync::{GetError, Pool};
///
/// # struct Connection;
/// # impl Connection {
/// #     async fn open() -> Result<Self, std::io::Error> { Ok(Self) }
/// #     fn is_open(&self) -> bool { true }
/// # }
/// async fn query(pool: &Pool<Connection, std::io::Error>, ctx: &Context)
///     -> Result<(), GetError<std::io::Error>>
/// {
///     let connection = pool.get(ctx).await?; // given back when it is dropped
///     Ok(())
/// }
///
/// let pool = Pool::new(16, Connection::open)
///     .at(Stage(20), "database")
///     .kept_if(|connection| connection.is_open());
/// ```
pub struct Pool<T, E> {
    shared: Arc<Shared<T, E>>,
}

struct Shared<T, E> {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<T>>,
    make: Box<dyn Fn() -> Making<T, E> + Send + Sync>,
    keep_if: Box<dyn Fn(&mut T) -> bool + Send + Sync>,
}

/// A value of a pool, which is given back when this is dropped.
///
/// After [`discard`](Self::discard) or a panic nobody gets it again.
pub struct Pooled<T, E> {
    /// `None` once it was taken out for good.
    value: Option<T>,
    shared: Arc<Shared<T, E>>,
    // Dropped last: whoever is let in next finds the value.
    _permit: OwnedSemaphorePermit,
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GetError<E> {
    /// The wait would have been too long.
    Rejected(Rejected),
    /// There was room for another value, and to make it failed.
    Make(E),
}

impl<T, E> Pool<T, E> {
    /// An empty pool of at most `size` values, which `make` makes.
    ///
    /// In reports it is called by the place of this call, and its refusals name [`Stage::HANDLER`],
    /// until [`at`](Self::at) says otherwise.
    ///
    /// # Panics
    ///
    /// If `size` is 0 or more than [`Semaphore::MAX_PERMITS`].
    #[track_caller]
    pub fn new<F, Fut>(size: u32, make: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        assert!(size > 0, "a pool of size 0 has nothing to give");
        let shared = Shared {
            permits: Arc::new(Semaphore::of_kind(Kind::Pool, size)),
            idle: Mutex::new(Vec::new()),
            make: Box::new(move || Box::pin(make())),
            keep_if: Box::new(|_| true),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The same pool as a stage with a number and a name of its own.
    ///
    /// # Panics
    ///
    /// If the pool has been cloned or used.
    #[must_use]
    pub fn at(mut self, stage: Stage, name: &'static str) -> Self {
        self.settings_mut().set_stage(stage, name);
        self
    }

    /// The same pool with waits predicted in another way than by [`Estimate::Larger`].
    ///
    /// # Panics
    ///
    /// If the pool has been cloned or used.
    #[must_use]
    pub fn predicted_by(mut self, estimate: Estimate) -> Self {
        self.settings_mut().estimate = estimate;
        self
    }

    /// The same pool, which asks `keep_if` before it gives out a value again, and drops those of
    /// which it says no: a connection that has been closed.
    ///
    /// # Panics
    ///
    /// If the pool has been cloned or used.
    #[must_use]
    pub fn kept_if(mut self, keep_if: impl Fn(&mut T) -> bool + Send + Sync + 'static) -> Self {
        self.shared_mut().keep_if = Box::new(keep_if);
        self
    }

    /// Gets a value on behalf of a request, which is charged for the wait until it is its turn, but
    /// not for the time that it takes to make one.
    ///
    /// # Errors
    ///
    /// [`GetError::Rejected`], at once, when the predicted wait exceeds what the request has left;
    /// [`GetError::Make`] when a value had to be made and that failed.
    ///
    /// # Cancellation
    ///
    /// To drop the future gives up the place in the queue, or the value that is being made.
    pub async fn get(&self, ctx: &Context) -> Result<Pooled<T, E>, GetError<E>> {
        let permit = self.shared.permits.clone().acquire_owned(ctx).await?;
        self.value(permit).await.map_err(GetError::Make)
    }

    /// Gets a value, however long that takes: for work that is no request.
    ///
    /// # Errors
    ///
    /// What making a value says.
    pub async fn get_plain(&self) -> Result<Pooled<T, E>, E> {
        let permit = self.shared.permits.clone().acquire_owned_plain().await;
        self.value(permit).await
    }

    /// [`get`](Self::get) for a thread that may sleep. What makes values must not need a runtime
    /// that this very thread drives.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn blocking_get(&self, ctx: &Context) -> Result<Pooled<T, E>, GetError<E>> {
        let permit = self.shared.permits.clone().blocking_acquire_owned(ctx)?;
        block_on(self.value(permit)).map_err(GetError::Make)
    }

    /// Values that lie idle.
    pub fn idle(&self) -> usize {
        self.shared.idle().len()
    }

    /// What was measured here until now.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.permits.snapshot()
    }

    async fn value(&self, permit: OwnedSemaphorePermit) -> Result<Pooled<T, E>, E> {
        let shared = self.shared.clone();
        let value = match shared.reuse() {
            Some(value) => value,
            None => (shared.make)().await?,
        };
        Ok(Pooled { value: Some(value), shared, _permit: permit })
    }

    fn shared_mut(&mut self) -> &mut Shared<T, E> {
        Arc::get_mut(&mut self.shared).expect("a pool is set up before it is shared")
    }

    fn settings_mut(&mut self) -> &mut Settings {
        let permits = Arc::get_mut(&mut self.shared_mut().permits);
        permits.expect("a pool is set up before it is used").settings_mut()
    }
}

impl<T, E> Shared<T, E> {
    /// The idle value that was used last, of those that are still good.
    fn reuse(&self) -> Option<T> {
        loop {
            // In a statement of its own, so that the lock is not held while others' code runs.
            let idle = self.idle().pop();
            let mut value = idle?;
            if (self.keep_if)(&mut value) {
                return Some(value);
            }
        }
    }

    fn idle(&self) -> crate::primitive::MutexGuard<'_, Vec<T>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, E> Pooled<T, E> {
    /// Does not give it back: the pool makes another one when it needs one.
    pub fn discard(self) {
        drop(self.take());
    }

    /// Takes it out of the pool for good, which makes another one when it needs one.
    pub fn take(mut self) -> T {
        self.value.take().expect("a value is there until it is taken")
    }
}

impl<T, E> Drop for Pooled<T, E> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        // What was in use when something went wrong may be in any state.
        if !std::thread::panicking() {
            self.shared.idle().push(value);
        }
    }
}

impl<T, E> Deref for Pooled<T, E> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("a value is there until it is taken")
    }
}

impl<T, E> DerefMut for Pooled<T, E> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("a value is there until it is taken")
    }
}

impl<T, E> Clone for Pool<T, E> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T, E> fmt::Debug for Pool<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("idle", &self.idle()).finish_non_exhaustive()
    }
}

impl<T: fmt::Debug, E> fmt::Debug for Pooled<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<E> From<Rejected> for GetError<E> {
    fn from(rejected: Rejected) -> Self {
        Self::Rejected(rejected)
    }
}

impl<E: fmt::Display> fmt::Display for GetError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(rejected) => rejected.fmt(f),
            Self::Make(error) => write!(f, "no value could be made for the pool: {error}"),
        }
    }
}

impl<E: std::error::Error> std::error::Error for GetError<E> {}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::future::{pending, ready};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use seawall_control::request::RefusalReason;

    use super::*;
    use crate::clock::manual::advance;
    use crate::testing::{Polled, now, request, us};

    /// A pool of numbers, of which each is made once.
    fn numbers(size: u32) -> Pool<u32, &'static str> {
        let next = AtomicU32::new(0);
        Pool::new(size, move || ready(Ok(next.fetch_add(1, Relaxed))))
    }

    #[test]
    fn values_are_made_when_needed_and_used_again() {
        let pool = numbers(2);
        let (a, b) = (pool.blocking_get(&request(0)).unwrap(), now(pool.get_plain()).unwrap());
        assert_eq!((*a, *b, pool.idle()), (0, 1, 0));
        drop(a);
        drop(b);
        assert_eq!(*now(pool.clone().get(&request(0))).unwrap(), 1); // what was used last
        assert_eq!(pool.idle(), 2);
    }

    #[test]
    fn who_cannot_wait_for_a_value_is_refused() {
        let pool = numbers(1).at(Stage(23), "numbers");
        let value = now(pool.get_plain()).unwrap();
        let ctx = request(1_000);
        let mut next = Polled::waiting(pool.get(&ctx));
        advance(us(60));
        let refused = now(pool.get(&request(50))).unwrap_err();
        let expected = Rejected::new(Stage(23), us(60), us(50)).with_reason(RefusalReason::Budget);
        assert_eq!(refused, GetError::Rejected(expected));
        drop(value);
        assert_eq!(*next.poll().unwrap().unwrap(), 0);
        assert_eq!(ctx.charged(), us(60));
    }

    #[test]
    fn values_that_went_bad_are_not_given_out_again() {
        let pool = numbers(3).kept_if(|number| *number != 1);
        let all = [(); 3].map(|()| now(pool.get_plain()).unwrap());
        drop(all); // on top lies 2, then 1
        let two = now(pool.get_plain()).unwrap();
        assert_eq!((*two, *now(pool.get_plain()).unwrap()), (2, 0));
        two.discard();
        assert_eq!(now(pool.get_plain()).unwrap().take(), 0);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _value = now(pool.get_plain());
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!((*now(pool.get_plain()).unwrap(), pool.idle()), (4, 0)); // 3 is gone
    }

    #[test]
    fn what_fails_or_is_given_up_leaves_its_place() {
        let pool = Pool::<u32, _>::new(1, || ready(Err("no")));
        assert_eq!(now(pool.get(&request(0))).unwrap_err(), GetError::Make("no"));
        assert_eq!(pool.blocking_get(&request(0)).unwrap_err(), GetError::Make("no"));
        let slow = Pool::<u32, ()>::new(1, pending);
        drop(Polled::waiting(slow.get_plain()));
        drop(Polled::waiting(slow.get_plain())); // waits for `make` and for no permit
        assert_eq!(slow.snapshot().waits, 0);
    }
}
