//! One address of a service, and the connections to it.

use std::fmt;

use seawall_control::Instant;

use super::books::Books;
use super::connect::Dialer;
use super::health::Health;
use super::pause::Pause;
use super::pool::Pool;
use crate::config::{self, Endpoint, Protocol};
use crate::tls::TlsError;

/// One replica.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) dialer: Dialer,
    pub(super) health: Health,
    pub(crate) pause: Pause,
    pub(super) books: Books,
    /// Connections, those of each worker apart, so that nothing moves between threads.
    pools: Box<[Pool]>,
    config: config::Upstream,
}

impl Replica {
    /// One replica of the upstream called `name`.
    pub(crate) fn new(
        name: &str,
        endpoint: &Endpoint,
        config: &config::Upstream,
        workers: usize,
    ) -> Result<Self, TlsError> {
        let dialer = Dialer::new(endpoint, config)
            .map_err(|error| error.within(&format!("upstreams.{name}")))?;
        Ok(Self {
            dialer,
            health: Health::default(),
            pause: Pause::default(),
            books: Books::default(),
            pools: (0..workers).map(|worker| Pool::new(config.connections, worker)).collect(),
            config: config.clone(),
        })
    }

    /// Whether it is what such an endpoint of such an upstream would be.
    pub(super) fn is(&self, endpoint: &Endpoint, config: &config::Upstream) -> bool {
        let own = &self.config;
        *self.dialer.endpoint() == *endpoint
            && !endpoint.tls
            && own.protocol == config.protocol
            && own.connections == config.connections
    }

    /// Whether requests should go there.
    pub(crate) fn is_well(&self, now: Instant) -> bool {
        self.health.is_well(now)
    }

    /// The connections of one worker.
    pub(crate) fn pool(&self, worker: usize) -> &Pool {
        &self.pools[worker]
    }

    /// What is spoken there, as far as it is set.
    pub(super) fn protocol(&self) -> Protocol {
        self.config.protocol
    }
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dialer.endpoint().fmt(f)
    }
}
