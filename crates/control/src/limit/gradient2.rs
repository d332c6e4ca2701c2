//! Netflix's limit after the gradient between latencies over a long and over a short time.
//!
//! ```text
//!   gradient = 1.5 × long / short, from 0.5 to 1
//!   limit    = 0.8 × limit + 0.2 × (limit × gradient + 4)
//! ```
//!
//! `Gradient2Limit` of concurrency-limits 0.5, which its README recommends for servers,
//! in its `WindowedLimit`: `short` is the mean over a second, `long` a moving average over 600 of
//! them. An overload that lasts becomes what is usual: the long average grows to the short one, and
//! the limit with it. Losses do not count.

use alloc::boxed::Box;
use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Server;
use super::sampling::{self, Observation, Sampled, Update};
use crate::client;
use crate::config::ConfigError;
use crate::controller::{Algorithm, ClientController, Init, ServerController};

/// Observations of which the long average is the mean until there are more.
const WARM_UP: u32 = 10;

/// The long average is taken for too old when it is so many times the short one, …
const RECOVERY_RATIO: f64 = 2.0;

/// … and shrinks by this factor then.
const RECOVERY: f64 = 0.95;

/// The limit shrinks to this part of itself at most, but for smoothing.
const GRADIENT_MIN: f64 = 0.5;

/// Parameters of the limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The limit at the start. Default 20.
    pub limit_initial: u32,
    /// The limit never falls below this. Default 20: lower it for servers of few cores, or it lets
    /// a queue of twenty stand.
    pub limit_min: u32,
    /// The limit never exceeds this. Default 200.
    pub limit_max: u32,
    /// Requests by which the limit grows at each update, before smoothing, while latency is as
    /// usual. Default 4.
    pub queue_size: u32,
    /// Weight of the new limit against the one before. Default 0.2.
    pub smoothing: f64,
    /// How many times the long average the short one may be before the limit shrinks. Default 1.5.
    pub tolerance: f64,
    /// Updates over which the long average goes. Default 600: ten minutes, by windows of a second.
    pub long_window: u32,
    /// Whether windows of requests update the limit, and not each request. Default true.
    pub windowed: bool,
    /// The windows, if so.
    pub window: sampling::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit_initial: 20,
            limit_min: 20,
            limit_max: 200,
            queue_size: 4,
            smoothing: 0.2,
            tolerance: 1.5,
            long_window: 600,
            windowed: true,
            window: sampling::Config::default(),
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
        let check = ConfigError::check_range::<u32>;
        check("gradient2.limit_max", self.limit_max, 1..=1 << 20)?;
        check("gradient2.limit_min", self.limit_min, 1..=self.limit_max)?;
        check("gradient2.limit_initial", self.limit_initial, self.limit_min..=self.limit_max)?;
        check("gradient2.queue_size", self.queue_size, 0..=self.limit_max)?;
        check("gradient2.long_window", self.long_window, 1..=1_000_000)?;
        ConfigError::check_range("gradient2.smoothing", self.smoothing, 0.001..=1.0)?;
        ConfigError::check_range("gradient2.tolerance", self.tolerance, 1.0..=100.0)?;
        self.window.validate("gradient2.window")
    }
}

impl Algorithm for Config {
    fn name(&self) -> &'static str {
        "gradient2"
    }

    fn bounds_waits(&self) -> bool {
        false
    }

    fn server(self: Arc<Self>, init: Init) -> Box<dyn ServerController> {
        let windows = self.windowed.then_some(&self.window);
        Box::new(Server::new(Sampled::new(Gradient2::new(&self), windows, init.now)))
    }

    fn client(self: Arc<Self>, _init: Init) -> Box<dyn ClientController> {
        Box::new(client::Open)
    }
}

/// The limit and the long average.
#[derive(Debug)]
struct Gradient2 {
    config: Config,
    limit: f64,
    long: Long,
}

/// A moving average that begins as a mean (`ExpAvgMeasurement`). In nanoseconds.
#[derive(Debug)]
struct Long {
    /// Weight of the newest.
    weight: f64,
    value: f64,
    count: u32,
}

impl Long {
    fn add(&mut self, latency: f64) -> f64 {
        let weight = if self.count < WARM_UP {
            self.count += 1;
            1.0 / f64::from(self.count)
        } else {
            self.weight
        };
        self.value += weight * (latency - self.value);
        self.value
    }
}

impl Gradient2 {
    fn new(config: &Config) -> Self {
        let weight = 2.0 / (f64::from(config.long_window) + 1.0);
        Self {
            limit: f64::from(config.limit_initial),
            long: Long { weight, value: 0.0, count: 0 },
            config: config.clone(),
        }
    }
}

impl Update for Gradient2 {
    fn update(&mut self, observation: &Observation) {
        let Config { smoothing, tolerance, queue_size, limit_min, limit_max, .. } = self.config;
        let short = observation.latency;
        let long = self.long.add(short);
        if long / short > RECOVERY_RATIO {
            self.long.value *= RECOVERY;
        }
        // A limit that is not used is not known to be safe.
        if f64::from(observation.in_flight) < self.limit / 2.0 {
            return;
        }
        let gradient = (tolerance * long / short).clamp(GRADIENT_MIN, 1.0);
        let target = self.limit * gradient + f64::from(queue_size);
        let limit = self.limit * (1.0 - smoothing) + target * smoothing;
        self.limit = limit.clamp(f64::from(limit_min), f64::from(limit_max));
    }

    fn limit(&self) -> u32 {
        self.limit as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit after so many updates by this latency, in milliseconds, with the limit in use.
    fn limit_after(limit: &mut Gradient2, updates: usize, latency: f64) -> f64 {
        for _ in 0..updates {
            let in_flight = limit.limit();
            limit.update(&Observation { latency: latency * 1e6, in_flight, dropped: false });
        }
        limit.limit
    }

    fn config() -> Config {
        Config { limit_initial: 50, limit_min: 4, ..Config::default() }
    }

    #[test]
    fn grows_by_a_fifth_of_the_queue_while_latency_is_as_usual() {
        let limit = &mut Gradient2::new(&config());
        assert!((limit_after(limit, 1, 10.0) - 50.8).abs() < 1e-9);
        // Beyond the tolerance: the long average is 13.5, and the gradient 1.5 × 13.5 / 17.
        assert!((limit_after(limit, 1, 17.0) - 51.6).abs() < 1e-9, "within it still");
        let before = limit.limit;
        let long = (10.0 + 17.0 + 40.0) / 3.0;
        let expected = before * 0.8 + 0.2 * (before * 1.5 * long / 40.0 + 4.0);
        assert!((limit_after(limit, 1, 40.0) - expected).abs() < 1e-9);
        assert_eq!(limit_after(limit, 10_000, 40.0), 200.0, "what lasts becomes usual");
    }

    #[test]
    fn an_unused_limit_stays() {
        let limit = &mut Gradient2::new(&config());
        limit.update(&Observation { latency: 1e6, in_flight: 24, dropped: true });
        assert_eq!(limit.limit(), 50);
    }

    #[test]
    fn the_long_average_warms_up_lags_and_recovers() {
        let limit = &mut Gradient2::new(&config());
        limit_after(limit, 5, 10.0);
        limit_after(limit, 5, 30.0);
        assert!((limit.long.value / 1e6 - 20.0).abs() < 1e-9, "a mean at first");
        limit_after(limit, 1, 30.0);
        assert!((limit.long.value / 1e6 - (20.0 + 10.0 * 2.0 / 601.0)).abs() < 1e-9);
        // Latency is back at a twentieth: without the recovery a hundred updates would bring the
        // average down by a third.
        limit_after(limit, 100, 1.0);
        assert!(limit.long.value < 2.1e6, "{}", limit.long.value);
    }

    #[test]
    fn refuses_nonsense_by_name() {
        let field = |config: Config| config.validate().unwrap_err().field;
        assert_eq!(field(Config { limit_min: 0, ..config() }), "gradient2.limit_min");
        assert_eq!(field(Config { limit_initial: 3, ..config() }), "gradient2.limit_initial");
        assert_eq!(field(Config { tolerance: 0.9, ..config() }), "gradient2.tolerance");
    }
}
