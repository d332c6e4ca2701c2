//! Netflix's limit after TCP Vegas: the queue is what is in flight beyond what the least latency
//! explains.
//!
//! ```text
//!   queue = ⌈limit × (1 - least latency / latency)⌉
//!   queue ≤ log limit: limit += 6 log limit        queue < 3 log limit: limit += log limit
//!   queue > 6 log limit, or a drop: limit -= log limit                 (logarithms are decimal)
//! ```
//!
//! `VegasLimit` of concurrency-limits 0.5. Each request updates it, unless `windowed`;
//! and every 15 to 30 × limit requests whatever the next one takes becomes the least latency, under
//! whatever load: that is how it follows a service that has become slower, and how it drifts when
//! it has not.

use alloc::boxed::Box;
use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Server;
use super::sampling::{self, Observation, Sampled, Update};
use crate::client;
use crate::config::ConfigError;
use crate::controller::{Algorithm, ClientController, Init, ServerController};
use crate::random::Rng;

/// Parameters of the limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The limit at the start. Default 20.
    pub limit_initial: u32,
    /// The limit never exceeds this. Default 1000.
    pub limit_max: u32,
    /// The limit still grows while the queue is shorter than this, times the decimal logarithm of
    /// the limit. Default 3.
    pub alpha: u32,
    /// The limit shrinks when the queue is longer than this, times that logarithm. Default 6.
    pub beta: u32,
    /// The limit grows by beta, and not by one, times that logarithm, while the queue is at most
    /// this, times that logarithm. Default 1.
    pub threshold: u32,
    /// Weight of the new limit against the one before. Default 1.
    pub smoothing: f64,
    /// The least latency is measured anew every half to whole of this times the limit, in
    /// requests. Default 30.
    pub probe_multiplier: u32,
    /// Whether windows of requests update the limit, and not each request. Default false.
    pub windowed: bool,
    /// The windows, if so.
    pub window: sampling::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit_initial: 20,
            limit_max: 1000,
            alpha: 3,
            beta: 6,
            threshold: 1,
            smoothing: 1.0,
            probe_multiplier: 30,
            windowed: false,
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
        ConfigError::check_range("vegas.limit_max", self.limit_max, 1..=1 << 20)?;
        ConfigError::check_range("vegas.limit_initial", self.limit_initial, 1..=self.limit_max)?;
        ConfigError::check_range("vegas.beta", self.beta, 1..=1000)?;
        ConfigError::check_range("vegas.alpha", self.alpha, 0..=self.beta)?;
        ConfigError::check_range("vegas.threshold", self.threshold, 0..=self.beta)?;
        ConfigError::check_range("vegas.smoothing", self.smoothing, 0.001..=1.0)?;
        ConfigError::check_range("vegas.probe_multiplier", self.probe_multiplier, 1..=1_000_000)?;
        self.window.validate("vegas.window")
    }
}

impl Algorithm for Config {
    fn name(&self) -> &'static str {
        "vegas"
    }

    fn bounds_waits(&self) -> bool {
        false
    }

    fn server(self: Arc<Self>, init: Init) -> Box<dyn ServerController> {
        let windows = self.windowed.then_some(&self.window);
        Box::new(Server::new(Sampled::new(Vegas::new(&self, init), windows, init.now)))
    }

    fn client(self: Arc<Self>, _init: Init) -> Box<dyn ClientController> {
        Box::new(client::Open)
    }
}

/// The limit and the least latency.
#[derive(Debug)]
struct Vegas {
    config: Config,
    rng: Rng,
    limit: f64,
    /// In nanoseconds; `None` before the first request.
    latency_min: Option<f64>,
    /// Updates since the least latency was measured anew, and at which part of the multiplier it
    /// will be.
    updates: u32,
    jitter: f64,
}

impl Vegas {
    fn new(config: &Config, init: Init) -> Self {
        let mut rng = Rng::new(init.seed);
        Self {
            config: config.clone(),
            limit: f64::from(config.limit_initial),
            latency_min: None,
            updates: 0,
            jitter: jitter(&mut rng),
            rng,
        }
    }

    /// The limit that this observation asks for; `None` for the one that there is.
    fn target(&self, observation: &Observation, latency_min: f64) -> Option<f64> {
        let Config { alpha, beta, threshold, .. } = self.config;
        let limit = self.limit;
        let log = f64::from(log10(limit));
        let queue = libm::ceil(limit * (1.0 - latency_min / observation.latency));
        if observation.dropped {
            return Some(limit - log);
        }
        // A limit that is not used is not known to be safe.
        if f64::from(observation.in_flight) * 2.0 < limit {
            return None;
        }
        match queue {
            queue if queue <= f64::from(threshold) * log => Some(limit + f64::from(beta) * log),
            queue if queue < f64::from(alpha) * log => Some(limit + log),
            queue if queue > f64::from(beta) * log => Some(limit - log),
            _ => None,
        }
    }
}

impl Update for Vegas {
    fn update(&mut self, observation: &Observation) {
        self.updates = self.updates.saturating_add(1);
        let probes = self.jitter * f64::from(self.config.probe_multiplier) * self.limit;
        if probes <= f64::from(self.updates) {
            self.jitter = jitter(&mut self.rng);
            self.updates = 0;
            self.latency_min = Some(observation.latency);
            return;
        }
        match self.latency_min {
            Some(least) if observation.latency >= least => {
                if let Some(target) = self.target(observation, least) {
                    let target = target.clamp(1.0, f64::from(self.config.limit_max));
                    self.limit += self.config.smoothing * (target - self.limit);
                }
            }
            _ => self.latency_min = Some(observation.latency),
        }
    }

    fn limit(&self) -> u32 {
        self.limit as u32
    }
}

fn jitter(rng: &mut Rng) -> f64 {
    0.5 + 0.5 * rng.uniform()
}

/// The decimal logarithm, a whole number and at least 1. (Earlier releases take the square root
/// from 1000 on.)
fn log10(limit: f64) -> u32 {
    (limit as u32).checked_ilog10().unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    fn vegas(config: &Config) -> Vegas {
        config.validate().unwrap();
        Vegas::new(config, Init::new(Instant::ORIGIN, 7))
    }

    /// The limit after a request of this latency, in milliseconds.
    fn limit_after(vegas: &mut Vegas, latency: f64, in_flight: u32, dropped: bool) -> u32 {
        vegas.update(&Observation { latency: latency * 1e6, in_flight, dropped });
        vegas.limit()
    }

    #[test]
    fn the_limit_follows_the_queue() {
        // The numbers of VegasLimitTest: from 10, with a least latency of 10 ms.
        let config = Config { limit_initial: 10, limit_max: 20, ..Config::default() };
        let vegas = &mut vegas(&config);
        assert_eq!(limit_after(vegas, 10.0, 10, false), 10, "the first is the least");
        assert_eq!(limit_after(vegas, 10.0, 11, false), 16, "no queue: by beta");
        // ⌈16 × 4 / 30⌉ = 3 is neither short nor long.
        assert_eq!(limit_after(vegas, 10.0 / (1.0 - 3.0 / 16.0), 14, false), 16);
        assert_eq!(limit_after(vegas, 10.0 / (1.0 - 1.5 / 16.0), 14, false), 17, "by one");
        assert_eq!(limit_after(vegas, 50.0, 14, false), 16, "a long queue");
        assert_eq!(limit_after(vegas, 20.0, 7, false), 16, "not in use");
        assert_eq!(limit_after(vegas, 10.0, 2, true), 15, "a drop counts in any case");
        assert_eq!(limit_after(vegas, 10.0, 20, false), 20, "at most");
    }

    #[test]
    fn the_least_latency_is_forgotten_after_some_requests() {
        let vegas = &mut vegas(&Config { limit_initial: 10, ..Config::default() });
        limit_after(vegas, 1.0, 1, false);
        let forgotten = (2..=300).position(|_| {
            limit_after(vegas, 5.0, 1, false);
            vegas.latency_min == Some(5e6)
        });
        assert!((148..=299).contains(&forgotten.unwrap()), "{forgotten:?}");
    }

    #[test]
    fn the_step_is_the_logarithm() {
        assert_eq!([0.0, 9.0, 99.9, 100.0, 1000.0, 1e6].map(log10), [1, 1, 1, 2, 3, 6]);
        let vegas = &mut vegas(&Config { limit_initial: 500, ..Config::default() });
        limit_after(vegas, 1.0, 500, false);
        assert_eq!(limit_after(vegas, 1.0, 500, false), 512);
        assert_eq!(limit_after(vegas, 9.0, 500, false), 510);
    }

    #[test]
    fn refuses_nonsense_by_name() {
        let field = |config: Config| config.validate().unwrap_err().field;
        assert_eq!(field(Config { limit_max: 0, ..Config::default() }), "vegas.limit_max");
        assert_eq!(
            field(Config { limit_initial: 1001, ..Config::default() }),
            "vegas.limit_initial"
        );
        assert_eq!(field(Config { alpha: 7, ..Config::default() }), "vegas.alpha");
        assert_eq!(field(Config { smoothing: 0.0, ..Config::default() }), "vegas.smoothing");
        let window = sampling::Config { samples_min: 0, ..sampling::Config::default() };
        assert_eq!(field(Config { window, ..Config::default() }), "vegas.window");
    }
}
