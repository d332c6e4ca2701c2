//! What unit tests share: requests, and futures that are polled by hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{self, Poll, Wake, Waker};
use std::time::Duration;

use seawall_control::request::{Claims, Context};

use crate::clock;

pub(crate) const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A request that may wait for that many microseconds in all, from now on.
pub(crate) fn request(budget_us: u64) -> Context {
    Context::new(Claims { budget: Some(us(budget_us)), ..Claims::default() }, clock::now())
}

/// A request that no stage may refuse.
pub(crate) fn undroppable() -> Context {
    let claims = Claims { droppable: false, budget: Some(us(0)), ..Claims::default() };
    Context::new(claims, clock::now())
}

/// A future that is polled by hand, and counts how often it was woken.
pub(crate) struct Polled<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicU32);

impl<'a, T> Polled<'a, T> {
    /// A future that nobody has polled.
    pub(crate) fn new(future: impl Future<Output = T> + 'a) -> Self {
        Self { future: Box::pin(future), wakes: Arc::default() }
    }

    /// A future that has been polled once and waits.
    pub(crate) fn waiting(future: impl Future<Output = T> + 'a) -> Self {
        let mut polled = Self::new(future);
        assert!(polled.poll().is_none(), "it need not wait");
        polled
    }

    pub(crate) fn poll(&mut self) -> Option<T> {
        let waker = Waker::from(self.wakes.clone());
        match self.future.as_mut().poll(&mut task::Context::from_waker(&waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// What it is worth by now.
    #[track_caller]
    pub(crate) fn ready(mut self) -> T {
        self.poll().expect("it is ready")
    }

    pub(crate) fn wakes(&self) -> u32 {
        self.wakes.0.load(Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// What a future is worth that need not wait.
#[track_caller]
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    Polled::new(future).ready()
}
