//! What lies between clients and servers.

use std::time::Duration;

use seawall_measure::ServiceTime;
use serde::{Deserialize, Serialize};

/// The way of a message, the same in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// Delay of one direction, written like a service time. Messages of one connection do not
    /// overtake each other. Default `const:5us`: Breakwater's cluster, whose round trip is 10 µs
    /// (§5.1).
    pub delay: ServiceTime,
}

impl Default for Network {
    fn default() -> Self {
        Self { delay: ServiceTime::constant(Duration::from_micros(5)) }
    }
}

impl Network {
    /// Mean of both directions together.
    pub fn rtt(&self) -> Duration {
        self.delay.mean() * 2
    }
}
