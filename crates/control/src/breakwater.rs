//! Breakwater (Cho et al., OSDI '20): a credit pool steered by queueing delay.
//!
//! Once per network round trip: below the target delay the pool grows by A (equation 1), above it
//! the pool shrinks by a factor that follows the excess (equation 2). A is proportional to the
//! number of clients (equation 3), which together with the overcommitment of [`credit`] makes up
//! for credits that idle clients hold. A threshold AQM bounds what overcommitment lets through.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::aqm::{Aqm, Threshold};
use crate::client;
use crate::config::{ConfigError, duration};
use crate::controller::{Algorithm, Arrival, ClientController, Init, ServerController, Verdict};
use crate::credit::{self, Growth, Next, PoolPolicy, Window};
use crate::metrics::Metrics;
use crate::time::Instant;

/// Parameters of Breakwater. The defaults are the paper's (§5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Growth of the pool per round trip and client, α of equation 3. Default 0.001. Larger finds
    /// new capacity sooner and refuses more.
    pub alpha: f64,
    /// Sensitivity of the decrease, β of equation 2. Default 0.02.
    pub beta: f64,
    /// Queueing delay to steer for, d_t. Default: 40 % of the SLO.
    #[serde(with = "duration::option")]
    pub target_delay: Option<Duration>,
    /// Queueing delay from which requests are refused. Default: twice the target delay.
    #[serde(with = "duration::option")]
    pub drop_delay: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Self { alpha: 0.001, beta: 0.02, target_delay: None, drop_delay: None }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("breakwater.alpha", self.alpha, 0.0..=1.0)?;
        ConfigError::check_range("breakwater.beta", self.beta, 0.0..=1.0)?;
        if self.target_delay.is_some_and(|target| target.is_zero()) {
            return Err(ConfigError::new(
                "breakwater.target_delay",
                "0 is out of range; give more than 0ns",
            ));
        }
        match (self.target_delay, self.drop_delay) {
            (Some(target), Some(drop)) if drop < target => Err(ConfigError::new(
                "breakwater.drop_delay",
                "it is below breakwater.target_delay; give at least the target delay",
            )),
            _ => Ok(()),
        }
    }

    /// The target delay for this SLO.
    pub fn target_delay(&self, slo: Duration) -> Duration {
        let target = self.target_delay.unwrap_or(slo * 2 / 5);
        target.max(Duration::from_nanos(1))
    }

    /// The delay from which requests are refused, for this SLO.
    pub fn drop_delay(&self, slo: Duration) -> Duration {
        self.drop_delay.unwrap_or(self.target_delay(slo) * 2)
    }
}

/// Breakwater as an [`Algorithm`]: its own parameters and those of the shared parts.
#[derive(Clone, Debug)]
pub struct Breakwater {
    /// How the pool is sized.
    pub policy: Config,
    /// How credits are handed out.
    pub credit: credit::Config,
}

impl Algorithm for Breakwater {
    fn name(&self) -> &'static str {
        "breakwater"
    }

    fn server(self: Arc<Self>, init: Init) -> Box<dyn ServerController> {
        let first = Next { pool: init.cores, settle: Duration::ZERO, measure: init.rtt };
        let policy = Policy::new(&self.policy, init);
        Box::new(credit::Server::new(policy, self.credit.clone(), init, first))
    }

    fn client(self: Arc<Self>, _init: Init) -> Box<dyn ClientController> {
        let tells_all = self.credit.demand == credit::Demand::Synchronise;
        Box::new(client::Credit::default().telling_all(tells_all))
    }
}

/// Equations 1 to 3, and the AQM.
#[derive(Debug)]
pub struct Policy {
    /// Equations 1 and 3.
    growth: Growth,
    beta: f64,
    target_delay: Duration,
    aqm: Threshold,
    rtt: Duration,
}

impl Policy {
    /// A policy for the SLO and round trip of `init`.
    pub fn new(config: &Config, init: Init) -> Self {
        Self {
            growth: Growth::new(config.alpha),
            beta: config.beta,
            target_delay: config.target_delay(init.slo),
            aqm: Threshold::new(config.drop_delay(init.slo)),
            rtt: init.rtt,
        }
    }

    fn shrink(&mut self, pool: u32, delay: Duration) -> u32 {
        self.growth.reset();
        let excess = delay.as_secs_f64() / self.target_delay.as_secs_f64() - 1.0;
        let factor = (1.0 - self.beta * excess).max(0.5);
        (f64::from(pool) * factor) as u32 // equation 2
    }
}

impl PoolPolicy for Policy {
    fn on_window(&mut self, _now: Instant, window: &Window) -> Next {
        let pool = if window.queue_delay < self.target_delay {
            self.growth.grow(window.pool, window.sessions)
        } else {
            self.shrink(window.pool, window.queue_delay)
        };
        Next { pool, settle: Duration::ZERO, measure: self.rtt }
    }

    fn on_arrival(&mut self, now: Instant, arrival: &Arrival) -> Verdict {
        self.aqm.on_arrival(now, arrival)
    }

    fn metrics(&self, metrics: Metrics) -> Metrics {
        metrics.with("target_delay_seconds", self.target_delay.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(alpha: f64) -> Policy {
        let config = Config { alpha, ..Config::default() };
        let slo = Duration::from_micros(200);
        Policy::new(&config, Init { slo, ..Init::new(Instant::ORIGIN, 0) })
    }

    fn pool_after(policy: &mut Policy, pool: u32, sessions: u32, delay_us: u64) -> u32 {
        let queue_delay = Duration::from_micros(delay_us);
        let window = Window { sessions, pool, queue_delay, ..Window::default() };
        policy.on_window(Instant::ORIGIN, &window).pool
    }

    #[test]
    fn shrinks_with_the_excess_and_at_most_to_half() {
        let policy = &mut policy(0.001);
        assert_eq!(pool_after(policy, 1000, 100, 80), 1000); // at the target: a factor of one
        assert_eq!(pool_after(policy, 1000, 100, 160), 980);
        assert_eq!(pool_after(policy, 1000, 100, 2_080), 500);
        assert_eq!(pool_after(policy, 1000, 100, 1_000_000), 500);
    }

    #[test]
    fn grows_by_alpha_for_each_client_and_at_least_by_one() {
        assert_eq!(pool_after(&mut policy(0.001), 40, 100, 79), 41);
        assert_eq!(pool_after(&mut policy(0.001), 40, 10_000, 79), 50);
    }

    #[test]
    fn derives_its_delays_from_the_slo() {
        let config = Config::default();
        let slo = Duration::from_micros(200);
        assert_eq!(config.target_delay(slo), Duration::from_micros(80));
        assert_eq!(config.drop_delay(slo), Duration::from_micros(160));
    }

    #[test]
    fn refuses_nonsense_by_name() {
        let config = Config { beta: f64::NAN, ..Config::default() };
        assert_eq!(config.validate().unwrap_err().field, "breakwater.beta");
        let us = Duration::from_micros;
        let config =
            Config { target_delay: Some(us(9)), drop_delay: Some(us(3)), ..Config::default() };
        assert_eq!(config.validate().unwrap_err().field, "breakwater.drop_delay");
    }
}
