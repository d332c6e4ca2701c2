//! What a lock keeps apart from itself once somebody has waited for it.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::predict::lock::{Backlog, Estimate};
use seawall_control::request::Stage;
use seawall_control::time::nanos;

use super::Queue;
use crate::contention::{self, Kind, Name, Snapshot};
use crate::primitive::{Mutex, MutexGuard};

/// Weight of the newest sample in the mean time that a lock is held is 1 / 8, as it is for round
/// trips in TCP (RFC 6298): some twenty holds later an old level is forgotten.
const HOLD_SHIFT: u32 = 3;

/// What is set about a lock when it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) kind: Kind,
    pub(crate) stage: Stage,
    pub(crate) name: Name,
    pub(crate) estimate: Estimate,
}

/// The queue of one lock, and what was measured there.
///
/// It comes into being when somebody waits for the first time: a lock that nobody contends is
/// neither measured nor listed, and costs no more than its word.
pub(crate) struct Site {
    kind: Kind,
    stage: Stage,
    name: Name,
    queue: Mutex<Queue>,
    /// Mean time that it is held, in nanoseconds; 0 before the first sample.
    hold: AtomicU64,
    /// How often it was acquired, as last published.
    acquisitions: AtomicU64,
    /// When the first of the queue was last told to come, in nanoseconds.
    window_opened: AtomicU64,
}

impl Site {
    /// A site that [`contention::report`] lists for as long as it lives.
    pub(crate) fn new(settings: &Settings) -> Arc<Self> {
        let site = Arc::new(Self {
            kind: settings.kind,
            stage: settings.stage,
            name: settings.name,
            queue: Mutex::new(Queue {
                times: contention::times(settings.name),
                ..Queue::default()
            }),
            hold: AtomicU64::new(0),
            acquisitions: AtomicU64::new(0),
            window_opened: AtomicU64::new(0),
        });
        contention::register(&site);
        site
    }

    /// Access to the queue.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Queue> {
        // Only a failed assertion of ours could panic under this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its number in refusals.
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// It was held for `time`.
    ///
    /// Of two holders of a semaphore that leave in the same instant, one sample may be lost.
    pub(crate) fn on_held(&self, time: Duration) {
        let sample = nanos(time).max(1);
        let mean = match self.hold.load(Relaxed) {
            0 => sample,
            mean => mean - (mean >> HOLD_SHIFT) + (sample >> HOLD_SHIFT),
        };
        self.hold.store(mean.max(1), Relaxed);
    }

    /// Mean time that it is held; zero before the first sample.
    pub(crate) fn hold(&self) -> Duration {
        Duration::from_nanos(self.hold.load(Relaxed))
    }

    /// The first of the queue was told to come.
    pub(crate) fn on_window(&self, now: Instant) {
        self.window_opened.store(now.as_nanos(), Relaxed);
    }

    /// When the first of the queue was last told to come.
    pub(crate) fn window_opened(&self) -> Instant {
        Instant::from_nanos(self.window_opened.load(Relaxed))
    }

    /// Publishes how often the lock was acquired.
    pub(crate) fn publish(&self, acquisitions: u64) {
        self.acquisitions.store(acquisitions, Relaxed);
    }

    /// What is ahead of a request whose turn comes after `work_ahead` permits' worth of time, of
    /// `capacity`.
    pub(crate) fn backlog(
        &self,
        queue: &Queue,
        now: Instant,
        work_ahead: u64,
        capacity: u32,
    ) -> Backlog {
        Backlog {
            age: queue.age(now),
            turns: work_ahead as f64 / f64::from(capacity.max(1)),
            hold: self.hold(),
            held: queue.held(now),
            rest: queue.holds.rest(now),
        }
    }

    /// What was measured here until `now`.
    pub(crate) fn snapshot(&self, now: Instant) -> Snapshot {
        let queue = self.lock();
        let (waiters, oldest, counts) = (queue.len(), queue.age(now), queue.counts);
        let forecasts = queue.holds.forecasts();
        drop(queue);
        Snapshot {
            waiters,
            oldest,
            hold: self.hold(),
            acquisitions: self.acquisitions.load(Relaxed),
            waits: counts.waits,
            given_up: counts.given_up,
            refusals: counts.refusals,
            waited: counts.waited,
            prediction_error: counts.relative_error(),
            forecasts,
            ..Snapshot::new(self.kind, self.stage, self.name)
        }
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Settings {
    #[track_caller]
    pub(crate) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            stage: Stage::HANDLER,
            name: Name::Place(Location::caller()),
            estimate: Estimate::Larger,
        }
    }

    pub(crate) const fn set_stage(&mut self, stage: Stage, name: &'static str) {
        self.stage = stage;
        self.name = Name::Given(name);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn site() -> Arc<Site> {
        Site::new(&Settings::new(Kind::Mutex))
    }

    #[test]
    fn the_mean_hold_follows_its_samples() {
        let site = site();
        assert_eq!(site.hold(), Duration::ZERO);
        site.on_held(Duration::from_micros(80));
        assert_eq!(site.hold(), Duration::from_micros(80));
        site.on_held(Duration::from_micros(160));
        assert_eq!(site.hold(), Duration::from_micros(90));
        (0..100).for_each(|_| site.on_held(Duration::ZERO));
        assert!(site.hold() < Duration::from_micros(1));
        site.on_held(Duration::MAX);
        site.on_held(Duration::MAX); // does not overflow
    }
}
