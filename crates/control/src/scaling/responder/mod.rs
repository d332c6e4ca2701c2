//! Which request says that its service is too slow, at once: per-packet slack, and a freeze for
//! each path (SurgeGuard §IV-A).
//!
//! `slack = expectedTimeFromStart - (now - startTime)`. A request without slack calls for a boost;
//! its path is frozen then, because one request is noise, and because those that come next can only
//! be better once the boost has worked (§IV-A, *Mitigating Frequent Updates*).

mod claims;

pub use claims::{BOOSTED_MAX, Trust, Turn, Unbelievable, observed};

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::time::Instant;

/// Paths that are remembered as frozen. One more changes nothing until one of them thaws: a sender
/// that names a new path with each request gets no more boosts than so many per window.
pub const PATHS_MAX: usize = 256;

/// What is expected of requests that arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// From the start of a job to its arrival here. `None` while nobody has said: nothing is late.
    pub expected: Option<Duration>,
    /// For how long a path is frozen after a decision. About twice the end-to-end latency.
    pub window: Duration,
    /// Requests whose job began longer ago are not judged: nobody waits for them any more, or the
    /// sender's clock is wrong. Default 10 s.
    pub age_max: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { expected: None, window: Duration::from_millis(20), age_max: Duration::from_secs(10) }
    }
}

/// Judges the requests of one service.
#[derive(Clone, Debug, Default)]
pub struct Responder {
    /// Paths on which nothing is changed, and until when.
    frozen: BTreeMap<u16, Instant>,
}

impl Responder {
    /// Nothing has arrived yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A request of `path` arrives, so long after the start of its job. By how much it is late, if
    /// that calls for a boost.
    pub fn on_arrival(
        &mut self,
        now: Instant,
        path: u16,
        time_from_start: Duration,
        config: &Config,
    ) -> Option<Duration> {
        let late_by = lateness(time_from_start, config)?;
        if self.frozen.get(&path).is_some_and(|until| now < *until) {
            return None;
        }
        if self.frozen.len() >= PATHS_MAX {
            self.frozen.retain(|_, until| now < *until);
            if self.frozen.len() >= PATHS_MAX {
                return None;
            }
        }
        self.frozen.insert(path, now + config.window);
        Some(late_by)
    }
}

/// By how much a request is late, if it is: needs no memory, and so no lock.
pub fn lateness(time_from_start: Duration, config: &Config) -> Option<Duration> {
    let late_by = time_from_start.checked_sub(config.expected?)?;
    (!late_by.is_zero() && time_from_start <= config.age_max).then_some(late_by)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    const CONFIG: Config = Config { expected: Some(ms(10)), window: ms(50), age_max: ms(1_000) };

    #[test]
    fn a_request_without_slack_is_late_and_one_with_slack_is_not() {
        let mut responder = Responder::new();
        assert_eq!(responder.on_arrival(at(0), 1, ms(10), &CONFIG), None);
        assert_eq!(responder.on_arrival(at(0), 1, ms(13), &CONFIG), Some(ms(3)));
    }

    #[test]
    fn after_a_decision_its_path_is_frozen_and_others_are_not() {
        let mut responder = Responder::new();
        let mut late = |now, path| responder.on_arrival(at(now), path, ms(11), &CONFIG).is_some();
        assert!(late(0, 1));
        assert!(!late(49, 1));
        assert!(late(49, 2));
        assert!(late(50, 1));
        assert!(!late(98, 2));
    }

    #[test]
    fn what_nobody_expects_and_what_nobody_waits_for_is_not_late() {
        let mut responder = Responder::new();
        let unknown = Config { expected: None, ..CONFIG };
        assert_eq!(responder.on_arrival(at(0), 1, ms(500), &unknown), None);
        assert_eq!(responder.on_arrival(at(0), 1, ms(1_001), &CONFIG), None);
        assert!(responder.on_arrival(at(0), 1, ms(1_000), &CONFIG).is_some());
    }

    #[test]
    fn a_sender_that_makes_paths_up_gets_so_many_boosts_per_window() {
        let mut responder = Responder::new();
        let mut boosts = |now| {
            let late = |path| responder.on_arrival(at(now), path, ms(11), &CONFIG).is_some();
            (0..u16::MAX).map(late).filter(|is_late| *is_late).count()
        };
        assert_eq!(boosts(0), PATHS_MAX);
        assert_eq!(boosts(49), 0);
        assert_eq!(boosts(50), PATHS_MAX);
    }
}
