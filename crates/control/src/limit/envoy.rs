//! Envoy's gradient controller: what latency is now, against what it is when nearly nothing is let
//! in.
//!
//! ```text
//!   now and then:     limit 3 until 50 requests are answered; their median is the least latency
//!   every 100 ms:     gradient = 1.25 × least latency / median, from 0.5 to 2
//!                     limit    = limit × gradient + √(limit × gradient)
//! ```
//!
//! The filter `adaptive_concurrency` of Envoy 1.40 (`gradient_controller.cc`, and the filter's
//! document). With `min_concurrency_limit`, which is new in that release, measurements of the least
//! latency do not pin the limit, and what they measure is latency under the load that there is. The
//! two intervals have no default in Envoy; those here are of the example in its documents.
//!
//! While it measures it refuses nearly everything, at any load; and where a lasting overload pushes
//! the limit to its floor, it begins to measure at once.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Failure, FailureKind, LimitPolicy, Sample, Server};
use crate::client;
use crate::config::{ConfigError, duration};
use crate::controller::{Algorithm, ClientController, Init, ServerController};
use crate::estimate::DecimalHistogram;
use crate::random::Rng;
use crate::time::{Instant, nanos};

/// Updates in a row that leave the limit at its floor, after which the least latency is measured
/// anew: it may have been wrong.
const AT_FLOOR_MAX: u32 = 5;

/// Bounds of the gradient.
const GRADIENT: (f64, f64) = (0.5, 2.0);

/// Parameters of the controller. Names are Envoy's, where it has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Which quantile stands for all latencies of a time. Default 0.5.
    pub sample_aggregate_percentile: f64,
    /// Time between two updates of the limit. Default 100ms.
    #[serde(with = "duration")]
    pub concurrency_update_interval: Duration,
    /// The limit never exceeds this. Default 1000.
    pub max_concurrency_limit: u32,
    /// The limit never falls below this. Default: `min_concurrency`; and if it is given,
    /// measurements of the least latency leave the limit as it is.
    pub min_concurrency_limit: Option<u32>,
    /// Time between two measurements of the least latency. Default 60s.
    #[serde(with = "duration")]
    pub min_rtt_interval: Duration,
    /// The least latency, if it is not to be measured. Default: it is.
    #[serde(with = "duration::option")]
    pub fixed_value: Option<Duration>,
    /// Requests of such a measurement. Default 50.
    pub request_count: u32,
    /// Each measurement begins later than its interval says, by up to so much of it. Default 0.15.
    pub jitter: f64,
    /// The limit at the start, and meanwhile. Default 3.
    pub min_concurrency: u32,
    /// What is added to the least latency, as a part of it. Default 0.25.
    pub buffer: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sample_aggregate_percentile: 0.5,
            concurrency_update_interval: Duration::from_millis(100),
            max_concurrency_limit: 1000,
            min_concurrency_limit: None,
            min_rtt_interval: Duration::from_secs(60),
            fixed_value: None,
            request_count: 50,
            jitter: 0.15,
            min_concurrency: 3,
            buffer: 0.25,
        }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let quantile = self.sample_aggregate_percentile;
        ConfigError::check_range("envoy.sample_aggregate_percentile", quantile, 0.0..=1.0)?;
        let most = self.max_concurrency_limit;
        ConfigError::check_range("envoy.max_concurrency_limit", most, 1..=1 << 20)?;
        ConfigError::check_range("envoy.min_concurrency", self.min_concurrency, 1..=most)?;
        if let Some(least) = self.min_concurrency_limit {
            ConfigError::check_range("envoy.min_concurrency_limit", least, 1..=most)?;
        }
        ConfigError::check_range("envoy.request_count", self.request_count, 1..=1_000_000)?;
        ConfigError::check_range("envoy.jitter", self.jitter, 0.0..=1.0)?;
        ConfigError::check_range("envoy.buffer", self.buffer, 0.0..=1.0)?;
        let low = Duration::from_millis(1);
        let intervals = [
            ("envoy.concurrency_update_interval", self.concurrency_update_interval),
            ("envoy.min_rtt_interval", self.min_rtt_interval),
        ];
        for (field, interval) in intervals {
            if interval < low {
                return Err(ConfigError::new(field, "must be 1ms or more"));
            }
        }
        if self.fixed_value.is_some_and(|least| least.is_zero()) {
            return Err(ConfigError::new("envoy.fixed_value", "give more than 0s"));
        }
        Ok(())
    }

    /// The limit never falls below this.
    fn floor(&self) -> u32 {
        self.min_concurrency_limit.unwrap_or(self.min_concurrency)
    }
}

impl Algorithm for Config {
    fn name(&self) -> &'static str {
        "envoy"
    }

    fn bounds_waits(&self) -> bool {
        false
    }

    fn server(self: Arc<Self>, init: Init) -> Box<dyn ServerController> {
        Box::new(Server::new(Gradient::new(&self, init)))
    }

    fn client(self: Arc<Self>, _init: Init) -> Box<dyn ClientController> {
        Box::new(client::Open)
    }
}

/// The limit, and what it is made of.
#[derive(Debug)]
struct Gradient {
    config: Config,
    rng: Rng,
    limit: u32,
    /// The limit to go back to, while the least latency is measured.
    deferred: Option<u32>,
    /// Requests that came before are not looked at: when the last measurement began.
    epoch: Instant,
    /// In whole microseconds, as all latencies here.
    latency_min: u64,
    latencies: DecimalHistogram,
    /// Updates in a row that left the limit at its floor.
    at_floor: u32,
    /// When the limit is updated next, and when the least latency is measured.
    update_at: Instant,
    measure_at: Instant,
}

impl Gradient {
    fn new(config: &Config, init: Init) -> Self {
        let fixed = config.fixed_value.map(|least| nanos(least) / 1_000);
        let mut gradient = Self {
            config: config.clone(),
            rng: Rng::new(init.seed),
            limit: config.floor(),
            deferred: None,
            epoch: init.now,
            latency_min: fixed.unwrap_or(0),
            latencies: DecimalHistogram::default(),
            at_floor: 0,
            update_at: init.now + config.concurrency_update_interval,
            measure_at: Instant::NEVER,
        };
        if gradient.measures() {
            gradient.begin_measurement(init.now);
        }
        gradient
    }

    fn measures(&self) -> bool {
        self.config.fixed_value.is_none()
    }

    fn begin_measurement(&mut self, now: Instant) {
        self.measure_at = Instant::NEVER;
        if self.deferred.is_some() {
            return;
        }
        self.deferred = Some(self.limit);
        if self.config.min_concurrency_limit.is_none() {
            self.set_limit(now, self.config.min_concurrency);
        }
        self.latencies.clear();
        self.epoch = now;
    }

    fn end_measurement(&mut self, now: Instant) {
        self.latency_min = self.take_latency();
        if self.config.min_concurrency_limit.is_none()
            && let Some(limit) = self.deferred
        {
            self.set_limit(now, limit);
        }
        self.deferred = None;
        let interval = self.config.min_rtt_interval;
        let jitter = interval.mul_f64(self.config.jitter * self.rng.uniform());
        self.measure_at = now + interval + jitter;
        self.update_at = now + self.config.concurrency_update_interval;
    }

    fn observe(&mut self, now: Instant, latency: Duration) {
        if now - latency < self.epoch {
            return;
        }
        self.latencies.observe(nanos(latency) / 1_000);
        let enough = self.latencies.len() >= u64::from(self.config.request_count);
        if self.deferred.is_some() && enough {
            self.end_measurement(now);
        }
    }

    /// What stands for all latencies since this was asked for before.
    fn take_latency(&mut self) -> u64 {
        let latency = self.latencies.value(self.config.sample_aggregate_percentile);
        self.latencies.clear();
        latency.unwrap_or(0.0) as u64
    }

    fn update(&mut self, now: Instant) {
        if self.latencies.is_empty() {
            return;
        }
        let least = self.latency_min as f64 * (1.0 + self.config.buffer);
        // Latencies of less than a microsecond give the largest gradient.
        let gradient = least / self.take_latency() as f64;
        let gradient = if gradient.is_nan() { GRADIENT.1 } else { gradient };
        let limit = f64::from(self.limit) * gradient.clamp(GRADIENT.0, GRADIENT.1);
        let limit = (limit + libm::sqrt(limit)) as u32;
        let most = self.config.max_concurrency_limit;
        self.set_limit(now, limit.min(most).max(self.config.floor()));
    }

    fn set_limit(&mut self, now: Instant, limit: u32) {
        let floor = self.config.floor();
        let before = core::mem::replace(&mut self.limit, limit);
        if self.deferred.is_none() && before == floor && limit == floor {
            self.at_floor += 1;
        } else {
            self.at_floor = 0;
        }
        if self.at_floor >= AT_FLOOR_MAX && self.measures() {
            self.measure_at = now;
        }
    }
}

impl LimitPolicy for Gradient {
    fn on_sample(&mut self, now: Instant, sample: &Sample) {
        self.observe(now, sample.latency);
    }

    /// To Envoy a refusal of whom it stands in front of is a reply like others; what its client has
    /// given up is none.
    fn on_failure(&mut self, now: Instant, failure: &Failure) {
        if failure.kind == FailureKind::Refused {
            self.observe(now, failure.latency);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now >= self.update_at {
            if self.deferred.is_some() {
                self.update_at = Instant::NEVER; // until the measurement has ended
            } else {
                self.update(now);
                self.update_at = now + self.config.concurrency_update_interval;
            }
        }
        if now >= self.measure_at {
            self.begin_measurement(now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.update_at.min(self.measure_at)).filter(|at| *at < Instant::NEVER)
    }

    fn limit(&self) -> u32 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn gradient(config: &Config) -> Gradient {
        config.validate().unwrap();
        Gradient::new(config, Init::new(Instant::ORIGIN, 7))
    }

    /// So many requests that came with the last one of these, and took so long.
    fn served(gradient: &mut Gradient, now: Instant, count: u32, latency: Duration) {
        for _ in 0..count {
            gradient.on_sample(now, &Sample::new(latency, 1));
        }
    }

    /// The next time at which something is to be done, and the limit after it was.
    fn next(gradient: &mut Gradient) -> (Instant, u32) {
        let at = gradient.poll_timeout().unwrap();
        gradient.handle_timeout(at);
        (at, gradient.limit())
    }

    #[test]
    fn the_first_requests_tell_the_least_latency_and_the_limit_grows_from_there() {
        let gradient = &mut gradient(&Config::default());
        let at = |ms: u64| Instant::ORIGIN + MS * ms as u32;
        assert_eq!(next(gradient), (at(100), 3), "nothing is updated meanwhile");
        assert_eq!(gradient.poll_timeout(), None);
        served(gradient, at(300), 49, MS * 10);
        assert_eq!(gradient.latency_min, 0);
        served(gradient, at(301), 1, MS * 10);
        assert!((10_000..=11_000).contains(&gradient.latency_min), "{}", gradient.latency_min);
        gradient.latency_min = 10_000;
        // As quick as then: by a quarter, and the root of that: 3.75 + 1.94.
        served(gradient, at(400), 1, MS * 10);
        assert_eq!(next(gradient), (at(401), 5));
        // Without a request the limit stays.
        assert_eq!(next(gradient), (at(501), 5));
        // Four times as slow, and no less than a half: 2.5 + 1.58.
        served(gradient, at(550), 10, MS * 40);
        assert_eq!(next(gradient), (at(601), 4));
        served(gradient, at(650), 10, MS);
        assert_eq!(next(gradient), (at(701), 10), "twice as much at most: 8 + 2.83");
    }

    #[test]
    fn the_least_latency_is_measured_again_with_the_limit_pinned() {
        let gradient = &mut gradient(&Config::default());
        served(gradient, Instant::ORIGIN + MS * 10, 50, MS * 10);
        gradient.limit = 200;
        let at = core::iter::from_fn(|| Some(next(gradient))).find(|(_, limit)| *limit == 3);
        let (at, _) = at.unwrap();
        let after = at.since(Instant::ORIGIN + MS * 10);
        assert!(after >= MS * 60_000 && after < MS * 69_000, "{after:?}");
        // Those that came before the measurement do not count.
        gradient.on_sample(at + MS, &Sample::new(MS * 2, 1));
        assert!(gradient.latencies.is_empty());
        served(gradient, at + MS * 50, 50, MS * 20);
        assert!(gradient.latency_min >= 20_000);
        assert_eq!((gradient.limit(), gradient.deferred), (200, None));
    }

    #[test]
    fn a_limit_at_its_floor_is_a_reason_to_measure() {
        let gradient = &mut gradient(&Config::default());
        served(gradient, Instant::ORIGIN + MS * 10, 50, MS * 10);
        let mut updates = 0;
        while gradient.deferred.is_none() {
            let now = gradient.poll_timeout().unwrap();
            served(gradient, now, 9, MS * 90);
            next(gradient);
            updates += 1;
        }
        assert_eq!(updates, AT_FLOOR_MAX);
    }

    #[test]
    fn a_floor_of_its_own_leaves_the_limit_alone() {
        let config = Config { min_concurrency_limit: Some(10), ..Config::default() };
        let gradient = &mut gradient(&config);
        assert_eq!((gradient.limit(), gradient.deferred), (10, Some(10)));
        served(gradient, Instant::ORIGIN + MS * 10, 50, MS * 10);
        gradient.limit = 80;
        gradient.measure_at = Instant::ORIGIN + MS * 20;
        assert_eq!(next(gradient), (Instant::ORIGIN + MS * 20, 80));
        assert!(gradient.deferred.is_some());
    }

    #[test]
    fn a_fixed_least_latency_is_not_measured() {
        let config = Config { fixed_value: Some(MS * 10), ..Config::default() };
        let gradient = &mut gradient(&config);
        for _ in 0..20 {
            let now = gradient.poll_timeout().unwrap();
            served(gradient, now, 9, MS * 90);
            assert_eq!(next(gradient), (now, 3));
        }
        assert_eq!(gradient.deferred, None);
    }

    #[test]
    fn refuses_nonsense_by_name() {
        let field = |config: Config| config.validate().unwrap_err().field;
        let config = Config { min_concurrency: 0, ..Config::default() };
        assert_eq!(field(config), "envoy.min_concurrency");
        let config = Config { min_concurrency_limit: Some(1001), ..Config::default() };
        assert_eq!(field(config), "envoy.min_concurrency_limit");
        let config = Config { concurrency_update_interval: Duration::ZERO, ..Config::default() };
        assert_eq!(field(config), "envoy.concurrency_update_interval");
        assert_eq!(field(Config { jitter: 1.5, ..Config::default() }), "envoy.jitter");
    }
}
