//! The thread that keeps a semaphore's capacity where memory is just used up.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use seawall_control::bandit::Config;
use seawall_control::config::ConfigError;
use seawall_control::steer::{Meter, Steer};

use super::MemorySemaphore;
use crate::block_on::block_on;
use crate::clock;

/// Sets the capacity of a semaphore by what a meter shows, until it is dropped (Svalinn §3.2,
/// algorithm 1).
///
/// Capacities from 1 to what the semaphore had at the start are tried; when this is dropped it gets
/// that back. While nobody uses the semaphore its thread sleeps, and the first use wakes it; else
/// it wakes once in each interval, or in each time that the meter needs, if that is longer. So
/// requests neither read the meter nor decide anything (§4 has the reading off their path, and the
/// decision on it).
///
/// A meter that fails, or shows nothing for [some intervals](seawall_control::steer::BLIND_MAX)
/// although the semaphore is used, lets all in until it shows something.
///
/// ```
/// use std::sync::Arc;
/// use seawall_control::bandit::Config;
/// use seawall_control::steer::Meter;
/// use seawall_sync::MemorySemaphore;
/// use seawall_sync::memory::Steering;
///
/// # struct Bytes;
/// # impl Meter for Bytes {
/// #     fn name(&self) -> &str { "bytes" }
/// #     fn total(&mut self) -> Option<u64> { Some(0) }
/// # }
/// # fn main() -> Result<(), seawall_sync::memory::SteerError> {
/// # let bytes = Bytes;
/// // What counts the bytes is in `seawall_measure::memory`.
/// let steering = Steering::start(MemorySemaphore::shared(), &Config::default(), bytes)?;
/// # let memory = Arc::new(MemorySemaphore::new(8));
/// # drop(Steering::start(memory.clone(), &Config::default(), Bytes)?);
/// # assert_eq!(memory.capacity(), 8);
/// # drop(steering);
/// # Ok(())
/// # }
/// ```
#[must_use = "it stops when it is dropped"]
#[derive(Debug)]
pub struct Steering {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Why a semaphore is not steered.
#[derive(Debug)]
#[non_exhaustive]
pub enum SteerError {
    /// A parameter is out of range.
    Config(ConfigError),
    /// Another [`Steering`] does it already.
    Steered,
    /// No thread could be started.
    Thread(io::Error),
}

/// What the thread and its owner share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    is_asleep: AtomicBool,
    decisions: AtomicU64,
    /// Bits of the rate in the last interval, or of NaN.
    rate: AtomicU64,
    /// Ends the thread's sleep between two uses.
    waker: Mutex<Option<Waker>>,
}

/// A semaphore that is steered. When this is dropped, whatever the reason, it gets back the
/// capacity that it had.
struct Steered<S>
where
    S: Deref<Target = MemorySemaphore>,
{
    semaphore: S,
    capacity: u32,
}

/// What the thread does.
struct Pilot<S, M>
where
    S: Deref<Target = MemorySemaphore>,
{
    steered: Steered<S>,
    steer: Steer,
    meter: M,
    shared: Arc<Shared>,
}

impl Steering {
    /// Starts to steer `semaphore`, which is a `&'static` reference or an [`Arc`].
    ///
    /// # Errors
    ///
    /// When a parameter is out of range, the semaphore is steered already, or there is no thread to
    /// be had.
    pub fn start<S, M>(semaphore: S, config: &Config, meter: M) -> Result<Self, SteerError>
    where
        S: Deref<Target = MemorySemaphore> + Send + 'static,
        M: Meter + Send + 'static,
    {
        let seed = clock::now().as_nanos(); // any: two processes shall not explore in step
        let steered = Steered::new(semaphore)?;
        let interval = config.interval.max(meter.resolution());
        let config = Config { interval, ..config.clone() };
        let steer = Steer::new(&config, steered.capacity, seed).map_err(SteerError::Config)?;
        let shared = Arc::new(Shared::default());
        let pilot = Pilot { steered, steer, meter, shared: shared.clone() };
        let thread = thread::Builder::new().name("seawall-memory".into());
        let thread = thread.spawn(move || pilot.run()).map_err(SteerError::Thread)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// How often the bandit has decided.
    pub fn decisions(&self) -> u64 {
        self.shared.decisions.load(Ordering::Relaxed)
    }

    /// What the meter counted per second in the last interval; `None` when it could not be read.
    pub fn rate(&self) -> Option<f64> {
        let rate = f64::from_bits(self.shared.rate.load(Ordering::Relaxed));
        (!rate.is_nan()).then_some(rate)
    }

    /// Whether it sleeps until somebody uses the semaphore.
    pub fn is_asleep(&self) -> bool {
        self.shared.is_asleep.load(Ordering::Relaxed)
    }
}

impl<S, M> Pilot<S, M>
where
    S: Deref<Target = MemorySemaphore>,
    M: Meter,
{
    fn run(mut self) {
        self.carry_out();
        while self.wait_for_use() {
            let total = self.meter.total();
            self.steer.on_use(clock::now(), total);
            loop {
                let uses = self.semaphore().uses();
                if !self.sleep(self.steer.interval()) {
                    return;
                }
                if self.semaphore().uses() == uses && !self.semaphore().is_used() {
                    break;
                }
                let total = self.meter.total();
                self.steer.on_interval(clock::now(), total);
                self.carry_out();
            }
        }
    }

    fn carry_out(&self) {
        let capacity = self.steer.capacity();
        if capacity != self.semaphore().capacity() {
            self.semaphore().resize(capacity);
        }
        let rate = self.steer.rate().unwrap_or(f64::NAN);
        self.shared.rate.store(rate.to_bits(), Ordering::Relaxed);
        self.shared.decisions.store(self.steer.decisions(), Ordering::Relaxed);
    }

    /// Sleeps until somebody uses the semaphore. False when it is time to stop.
    fn wait_for_use(&self) -> bool {
        let mut used = pin!(self.semaphore().used());
        self.shared.is_asleep.store(true, Ordering::Relaxed);
        block_on(poll_fn(|cx| {
            *self.shared.waker() = Some(cx.waker().clone());
            // Not before the waker is there: who stops sets the flag and then looks for it.
            if self.shared.stop.load(Ordering::Relaxed) {
                return Poll::Ready(());
            }
            used.as_mut().poll(cx)
        }));
        self.shared.is_asleep.store(false, Ordering::Relaxed);
        !self.shared.stop.load(Ordering::Relaxed)
    }

    /// Sleeps for that long. False when it is time to stop.
    fn sleep(&self, time: Duration) -> bool {
        let until = clock::now() + time;
        loop {
            if self.shared.stop.load(Ordering::Relaxed) {
                return false;
            }
            let left = until.since(clock::now());
            if left.is_zero() {
                return true;
            }
            thread::park_timeout(left);
        }
    }

    fn semaphore(&self) -> &MemorySemaphore {
        &self.steered.semaphore
    }
}

impl<S> Steered<S>
where
    S: Deref<Target = MemorySemaphore>,
{
    fn new(semaphore: S) -> Result<Self, SteerError> {
        if semaphore.is_steered.swap(true, Ordering::Relaxed) {
            return Err(SteerError::Steered);
        }
        Ok(Self { capacity: semaphore.capacity(), semaphore })
    }
}

impl Shared {
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Drop for Steered<S>
where
    S: Deref<Target = MemorySemaphore>,
{
    fn drop(&mut self) {
        self.semaphore.resize(self.capacity);
        self.semaphore.is_steered.store(false, Ordering::Relaxed);
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(waker) = self.shared.waker().take() {
            waker.wake();
        }
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If the meter panicked, that was reported where it did.
            let _ = thread.join();
        }
    }
}

impl fmt::Display for SteerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Steered => f.write_str("the semaphore is steered already"),
            Self::Thread(error) => write!(f, "no thread could be started: {error}"),
        }
    }
}

impl Error for SteerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Thread(error) => Some(error),
            Self::Steered => None,
        }
    }
}
