//! Windows of samples, of which a limit sees only the summary.
//!
//! `WindowedLimit` and `ImmutableAverageSampleWindow` of Netflix's concurrency-limits
//! 0.5: the mean latency of all requests that ended in a window, and the most that were in
//! flight when one of them came.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Failure, FailureKind, LimitPolicy, Sample};
use crate::config::{ConfigError, duration};
use crate::time::{Instant, nanos};

/// Parameters of the windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A window lasts at least so long. Default 1s.
    #[serde(with = "duration")]
    pub window_min: Duration,
    /// … and at most so long; between the two it lasts for twice the least latency in it. Default
    /// 1s.
    #[serde(with = "duration")]
    pub window_max: Duration,
    /// A window with fewer requests says nothing. Default 10.
    pub samples_min: u32,
    /// Quicker requests are not looked at. Default 100us: a service whose requests take less is
    /// one that this limit does not see.
    #[serde(with = "duration")]
    pub latency_min: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window_min: Duration::from_secs(1),
            window_max: Duration::from_secs(1),
            samples_min: 10,
            latency_min: Duration::from_micros(100),
        }
    }
}

impl Config {
    /// Checks all ranges; `field` is the one that this is.
    pub(super) fn validate(&self, field: &'static str) -> Result<(), ConfigError> {
        let low = Duration::from_millis(1);
        if self.window_min < low || self.window_max < self.window_min {
            let problem = "window_min must be 1ms or more, and window_max not less than that";
            return Err(ConfigError::new(field, problem));
        }
        if self.samples_min == 0 {
            return Err(ConfigError::new(field, "samples_min must be 1 or more"));
        }
        Ok(())
    }
}

/// What a limit is updated by: one request, or one window of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Observation {
    /// In nanoseconds, more than 0.
    pub(super) latency: f64,
    pub(super) in_flight: u32,
    /// One was refused behind the entry, because it would have been too late.
    pub(super) dropped: bool,
}

/// A limit that observations update.
pub(super) trait Update: fmt::Debug + Send {
    fn update(&mut self, observation: &Observation);
    fn limit(&self) -> u32;
}

/// A limit that is updated by each request, or once for a window of them.
#[derive(Debug)]
pub(super) struct Sampled<U> {
    pub(super) updated: U,
    window: Option<Window>,
}

#[derive(Debug)]
struct Window {
    config: Config,
    /// The first request after this ends the window.
    ends: Instant,
    seen: Seen,
}

#[derive(Debug, Default)]
struct Seen {
    count: u32,
    sum: u64,
    least: u64,
    in_flight: u32,
    dropped: bool,
}

impl<U> Sampled<U> {
    /// `updated`, by windows if there is a configuration for them.
    pub(super) fn new(updated: U, windows: Option<&Config>, now: Instant) -> Self {
        let window =
            |config: &Config| Window { config: config.clone(), ends: now, seen: Seen::default() };
        Self { updated, window: windows.map(window) }
    }
}

impl<U: Update> Sampled<U> {
    fn observe(&mut self, now: Instant, latency: Duration, in_flight: u32, dropped: bool) {
        let latency = nanos(latency).max(1);
        let observation = match &mut self.window {
            None => Some(Observation { latency: latency as f64, in_flight, dropped }),
            Some(window) => window.observe(now, latency, in_flight, dropped),
        };
        if let Some(observation) = observation {
            self.updated.update(&observation);
        }
    }
}

impl<U: Update> LimitPolicy for Sampled<U> {
    fn on_sample(&mut self, now: Instant, sample: &Sample) {
        self.observe(now, sample.latency, sample.in_flight_start, false);
    }

    /// `ConcurrencyLimitServerInterceptor` calls an exceeded deadline a drop, and ignores what
    /// the client has given up.
    fn on_failure(&mut self, now: Instant, failure: &Failure) {
        if failure.kind != FailureKind::Cancelled {
            self.observe(now, failure.latency, failure.in_flight, true);
        }
    }

    fn limit(&self) -> u32 {
        self.updated.limit()
    }
}

impl Window {
    /// Adds a request; what the window amounts to if it ends with that, and was large enough.
    fn observe(
        &mut self,
        now: Instant,
        latency: u64,
        in_flight: u32,
        dropped: bool,
    ) -> Option<Observation> {
        if latency < nanos(self.config.latency_min) {
            return None;
        }
        let seen = &mut self.seen;
        seen.least = if seen.count == 0 { latency } else { seen.least.min(latency) };
        seen.sum = seen.sum.saturating_add(latency);
        seen.in_flight = seen.in_flight.max(in_flight);
        seen.dropped |= dropped;
        seen.count += 1;
        if now <= self.ends {
            return None;
        }
        let seen = core::mem::take(seen);
        let twice = Duration::from_nanos(seen.least.saturating_mul(2));
        self.ends = now + twice.clamp(self.config.window_min, self.config.window_max);
        (seen.count >= self.config.samples_min).then(|| Observation {
            latency: (seen.sum / u64::from(seen.count)) as f64,
            in_flight: seen.in_flight,
            dropped: seen.dropped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[derive(Debug, Default)]
    struct Told(Vec<Observation>);

    impl Update for Told {
        fn update(&mut self, observation: &Observation) {
            self.0.push(*observation);
        }

        fn limit(&self) -> u32 {
            1
        }
    }

    /// Requests that end at these times, in milliseconds, after these latencies, in microseconds.
    fn after(windows: Option<&Config>, requests: &[(u64, u64, u32)]) -> Vec<(f64, u32)> {
        let mut sampled = Sampled::new(Told::default(), windows, Instant::ORIGIN);
        for &(ms, us, in_flight) in requests {
            let now = Instant::from_micros(ms * 1_000);
            sampled.on_sample(now, &Sample::new(Duration::from_micros(us), in_flight));
        }
        sampled.updated.0.iter().map(|seen| (seen.latency / 1e3, seen.in_flight)).collect()
    }

    #[test]
    fn a_window_is_told_by_its_mean_and_its_most() {
        let mut requests: Vec<_> = (0..10).map(|i| (100 * i + 1, 200 + i, i as u32)).collect();
        // The first request of all ends a window, of its own; then a second passes.
        requests.push((1_002, 1_190, 3));
        assert_eq!(after(Some(&Config::default()), &requests), [(303.5, 9)]);
    }

    #[test]
    fn windows_of_few_requests_and_quick_requests_say_nothing() {
        // The last one ends the window, with eight of them.
        let few: Vec<_> = (0..9).map(|i| (130 * i + 1, 200, 1)).collect();
        assert_eq!(after(Some(&Config::default()), &few), []);
        let quick: Vec<_> = (0..1_000).map(|i| (10 * i, 99, 1)).collect();
        assert_eq!(after(Some(&Config::default()), &quick), []);
        assert_eq!(after(None, &[(1, 99, 4)]), [(99.0, 4)]);
    }

    #[test]
    fn what_a_stage_refuses_is_a_drop_and_what_is_cancelled_nothing() {
        let mut sampled = Sampled::new(Told::default(), None, Instant::ORIGIN);
        let failure = |kind| Failure::new(kind, Duration::ZERO, 1);
        sampled.on_failure(Instant::ORIGIN, &failure(FailureKind::Cancelled));
        assert_eq!(sampled.updated.0, []);
        sampled.on_failure(Instant::ORIGIN, &failure(FailureKind::Refused));
        assert_eq!(sampled.updated.0, [Observation { latency: 1.0, in_flight: 1, dropped: true }]);
    }
}
