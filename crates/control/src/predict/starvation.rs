//! Starvation: how much longer threads that could run wait until the CPU is theirs.

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use crate::Instant;
use crate::bounce::Problem;
use crate::estimate::Ewma;
use crate::time::nanos;

/// Weight of the newest episode in their mean.
const WEIGHT: f64 = 0.25;

/// Threads that wait for a CPU: some of them could run, and none has.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Starved<'a> {
    /// When one of them was last known to run.
    pub since: Instant,
    /// The kernel's numbers of all of them.
    pub threads: &'a [i32],
}

/// Predicts how much longer threads wait for a CPU (LIBROS §IV.B).
pub trait CpuDelay: fmt::Debug + Send {
    /// How long it will be from `now` until one of the `starved` runs.
    fn predict(&mut self, now: Instant, starved: &Starved<'_>) -> Duration;

    /// One of them has run, after none had for `waited`.
    fn on_episode(&mut self, now: Instant, waited: Duration);
}

/// Makes a predictor for one server.
pub type OpenCpuDelay = fn() -> Result<Box<dyn CpuDelay>, Problem>;

/// Predicts from what such threads have waited before, and from how long they already do: what is
/// missing to the mean of the newest episodes, or the age of the wait if that is more.
///
/// A wait that is older than others were is thought to be half over, and so is the first of all: a
/// request gives up when half of what it had is gone. Nothing is known here of who else wants the
/// CPU, as the shadow of a scheduler's queue does.
///
/// ```
/// use core::time::Duration;
/// use seawall_control::Instant;
/// use seawall_control::predict::starvation::{CpuDelay, Episodes, Starved};
///
/// let (since, now) = (Instant::from_micros(1_000), Instant::from_micros(1_300));
/// let starved = Starved::new(since, &[]);
/// let mut episodes = Episodes::default();
/// assert_eq!(episodes.predict(now, &starved), Duration::from_micros(300));
/// episodes.on_episode(since, Duration::from_millis(4));
/// assert_eq!(episodes.predict(now, &starved), Duration::from_micros(3_700));
/// ```
#[derive(Clone, Debug)]
pub struct Episodes {
    mean: Ewma,
}

impl<'a> Starved<'a> {
    /// None of `threads` has run since `since`.
    pub const fn new(since: Instant, threads: &'a [i32]) -> Self {
        Self { since, threads }
    }
}

impl Default for Episodes {
    fn default() -> Self {
        Self { mean: Ewma::new(WEIGHT) }
    }
}

impl CpuDelay for Episodes {
    fn predict(&mut self, now: Instant, starved: &Starved<'_>) -> Duration {
        let mean = Duration::from_nanos(self.mean.value().unwrap_or(0.0) as u64);
        let age = now.since(starved.since);
        age.max(mean.saturating_sub(age))
    }

    fn on_episode(&mut self, _now: Instant, waited: Duration) {
        self.mean.observe(nanos(waited) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_episodes_count_most() {
        let mut episodes = Episodes::default();
        let at = Instant::from_micros;
        let ms = Duration::from_millis;
        let fresh = |episodes: &mut Episodes| episodes.predict(at(9), &Starved::new(at(9), &[]));
        assert_eq!(fresh(&mut episodes), Duration::ZERO);
        (0..3).for_each(|_| episodes.on_episode(at(0), ms(8)));
        assert_eq!(fresh(&mut episodes), ms(8));
        episodes.on_episode(at(0), ms(4));
        assert_eq!(fresh(&mut episodes), ms(7));
        (0..100).for_each(|_| episodes.on_episode(at(0), ms(1)));
        assert!(fresh(&mut episodes) < Duration::from_micros(1_001));
        episodes.on_episode(at(0), Duration::MAX);
        let old = Starved::new(Instant::ORIGIN, &[]);
        assert!(episodes.predict(Instant::NEVER, &old) > ms(1)); // does not overflow
    }

    #[test]
    fn a_wait_that_outlasts_others_is_half_over() {
        let (at, ms) = (|ms: u64| Instant::from_micros(ms * 1_000), Duration::from_millis);
        let mut episodes = Episodes::default();
        episodes.on_episode(at(0), ms(8));
        let starved = Starved::new(at(10), &[]);
        let predicted = [10, 12, 14, 15, 18, 30].map(|now| episodes.predict(at(now), &starved));
        assert_eq!(predicted, [8, 6, 4, 5, 8, 20].map(ms));
    }
}
