//! The score of C3 (Suresh et al., NSDI '15, §3.1).

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::estimate::Ewma;

/// The weight of the newest sample, as in the released code.
const WEIGHT: f64 = 0.9;

/// Parameters of C3.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Clients that share the replicas: each assumes that the others have as many requests at a
    /// replica as it has itself. Default 1, from 1 to 1000000.
    pub clients: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { clients: 1 }
    }
}

impl Config {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("client.replicas.c3.clients", self.clients, 1..=1_000_000)
    }
}

/// What a client knows of one replica.
#[derive(Clone, Debug)]
pub(super) struct Estimates {
    latency: Ewma,
    service: Ewma,
    queue: Ewma,
}

impl Default for Estimates {
    fn default() -> Self {
        let ewma = || Ewma::new(WEIGHT);
        Self { latency: ewma(), service: ewma(), queue: ewma() }
    }
}

impl Estimates {
    /// A reply. Deviation: replies tell the delay of the queue and not its length, which is so many
    /// service times.
    pub(super) fn observe(&mut self, latency: Duration, service: Duration, queue_delay: Duration) {
        let service = service.as_secs_f64();
        self.latency.observe(latency.as_secs_f64());
        self.service.observe(service);
        self.queue.observe(queue_delay.as_secs_f64() / service.max(1e-9));
    }

    /// Ψ in seconds: the lower the better. 0 for a replica that has never answered, so that it is
    /// tried.
    ///
    /// Deviation: C3 also bounds the rate to each replica; here credits do.
    pub(super) fn score(&self, config: Config, outstanding: u32) -> f64 {
        let of = |ewma: &Ewma| ewma.value().unwrap_or(0.0);
        let compensation = f64::from(outstanding) * f64::from(config.clients);
        let queue = 1.0 + compensation + of(&self.queue);
        of(&self.latency) - of(&self.service) + queue * queue * queue * of(&self.service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's example: of two servers with 4 ms and 20 ms the score is equal where the queue
    /// of the faster one is longer by the cube root of 5.
    #[test]
    fn the_score_is_cubic_in_the_queue() {
        let ms = Duration::from_millis;
        let scores = |service, queue: f64| {
            let mut estimates = Estimates::default();
            estimates.observe(ms(service), ms(service), ms(service).mul_f64(queue - 1.0));
            estimates.score(Config::default(), 0)
        };
        let ratio = scores(4, 20.0 * libm::cbrt(5.0)) / scores(20, 20.0);
        assert!((ratio - 1.0).abs() < 1e-6, "{ratio}");
    }

    #[test]
    fn own_requests_count_as_often_as_there_are_clients() {
        let mut estimates = Estimates::default();
        let ms = Duration::from_millis(1);
        estimates.observe(ms, ms, Duration::ZERO);
        assert_eq!(estimates.score(Config { clients: 3 }, 2), 0.001 * 343.0);
        assert_eq!(Estimates::default().score(Config::default(), 5), 0.0);
    }
}
