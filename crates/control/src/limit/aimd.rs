//! A limit that grows by one while replies are quick and shrinks by a factor when they are late.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{LimitPolicy, Sample, Server};
use crate::client;
use crate::config::{ConfigError, duration};
use crate::controller::{Algorithm, ClientController, Init, ServerController};
use crate::time::Instant;

/// Parameters of the AIMD limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Time in the server beyond which a request counts as late. Default: half of the SLO.
    #[serde(with = "duration::option")]
    pub latency_target: Option<Duration>,
    /// Factor applied to the limit after a late request, at most once for each drained queue.
    /// Default 0.9.
    pub decrease: f64,
    /// The limit at the start. Default 16.
    pub limit_initial: u32,
    /// The limit never exceeds this. Default 4096.
    pub limit_max: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { latency_target: None, decrease: 0.9, limit_initial: 16, limit_max: 4096 }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("aimd.decrease", self.decrease, 0.1..=0.999)?;
        ConfigError::check_range("aimd.limit_max", self.limit_max, 1..=1 << 20)?;
        ConfigError::check_range("aimd.limit_initial", self.limit_initial, 1..=self.limit_max)
    }
}

impl Algorithm for Config {
    fn name(&self) -> &'static str {
        "aimd"
    }

    fn server(self: Arc<Self>, init: Init) -> Box<dyn ServerController> {
        Box::new(Server::new(Aimd::new(&self, init)))
    }

    fn client(self: Arc<Self>, _init: Init) -> Box<dyn ClientController> {
        Box::new(client::Open)
    }
}

/// Additive increase, multiplicative decrease, driven by time in the server.
#[derive(Debug)]
pub struct Aimd {
    latency_target: Duration,
    decrease: f64,
    limit_max: f64,
    limit: f64,
    /// Replies until then were admitted under the larger limit, and say nothing about the new one.
    settled_at: Instant,
}

impl Aimd {
    /// A limit for the SLO of `init`.
    pub fn new(config: &Config, init: Init) -> Self {
        Self {
            latency_target: config.latency_target.unwrap_or(init.slo / 2),
            decrease: config.decrease,
            limit_max: f64::from(config.limit_max),
            limit: f64::from(config.limit_initial),
            settled_at: init.now,
        }
    }
}

impl LimitPolicy for Aimd {
    fn on_sample(&mut self, now: Instant, sample: &Sample) {
        if sample.latency > self.latency_target {
            if now >= self.settled_at {
                self.limit = (self.limit * self.decrease).max(1.0);
                self.settled_at = now + sample.latency;
            }
        } else if f64::from(sample.in_flight) * 2.0 >= self.limit {
            // A limit that is not used is not known to be safe, so it does not grow.
            self.limit = (self.limit + 1.0 / self.limit).min(self.limit_max);
        }
    }

    fn limit(&self) -> u32 {
        self.limit as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(latency_us: u64, in_flight: u32) -> Sample {
        Sample::new(Duration::from_micros(latency_us), in_flight)
    }

    #[test]
    fn one_late_queue_shrinks_the_limit_once() {
        let mut aimd = Aimd::new(&Config::default(), Init::new(Instant::ORIGIN, 0));
        for at in [2_000, 2_100, 3_900] {
            aimd.on_sample(Instant::from_micros(at), &sample(2_000, 16));
        }
        assert_eq!(aimd.limit(), 14);
        aimd.on_sample(Instant::from_micros(4_000), &sample(2_000, 16));
        assert_eq!(aimd.limit(), 12);
    }

    #[test]
    fn an_unused_limit_does_not_grow() {
        let mut aimd = Aimd::new(&Config::default(), Init::new(Instant::ORIGIN, 0));
        for _ in 0..1_000 {
            aimd.on_sample(Instant::ORIGIN, &sample(10, 2));
        }
        assert_eq!(aimd.limit(), 16);
        for _ in 0..17 {
            aimd.on_sample(Instant::ORIGIN, &sample(10, 16));
        }
        assert_eq!(aimd.limit(), 17);
    }
}
