//! CoDel: the server refuses what waited too long, and tells nobody.
//!
//! Its refusals are answered, as those of RPC servers are. So each has cost a message, its parsing
//! and a reply, and the more is refused, the less is served (Breakwater §2.2, Figure 1).

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::aqm::{CoDel, Server, Threshold};
use crate::client;
use crate::config::{ConfigError, duration};
use crate::controller::{Algorithm, ClientController, Init, ServerController};

/// Parameters of `CoDel`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What is done about the delay.
    pub variant: Variant,
    /// Queueing delay that is tolerated. Default: a quarter of the SLO. The RFC's waits swing
    /// around it, by about an interval. The threshold compares it with the wait of the oldest
    /// request, which at twice the capacity is half of what one that arrives now will wait.
    #[serde(with = "duration::option")]
    pub target: Option<Duration>,
    /// How long the delay must stay at the target before the first refusal, and the time between
    /// the first two (RFC 8289 §4.3). Default: a quarter of the SLO.
    ///
    /// The RFC's rule is the longest round trip, so that senders can react. Those of requests do
    /// not react: what counts is that refusals become frequent enough before the queue has cost
    /// the SLO. Raise it when bursts shorter than the SLO are refused in vain.
    #[serde(with = "duration::option")]
    pub interval: Option<Duration>,
}

/// What `CoDel` stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The RFC's: judges the time in the run queue, when a request leaves it.
    #[default]
    Rfc8289,
    /// A fixed threshold on the queueing delay at entry: what the code released with Breakwater and
    /// Protego has instead.
    Threshold,
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (field, value) in [("codel.target", self.target), ("codel.interval", self.interval)] {
            if value.is_some_and(|value| value.is_zero()) {
                return Err(ConfigError::new(field, "0 is out of range; give more than 0ns"));
            }
        }
        Ok(())
    }

    /// The tolerated queueing delay, for this SLO.
    pub fn target(&self, slo: Duration) -> Duration {
        self.target.unwrap_or(slo / 4)
    }

    /// The interval, for this SLO.
    pub fn interval(&self, slo: Duration) -> Duration {
        self.interval.unwrap_or(slo / 4)
    }
}

impl Algorithm for Config {
    fn name(&self) -> &'static str {
        "codel"
    }

    fn bounds_waits(&self) -> bool {
        false
    }

    fn server(self: Arc<Self>, init: Init) -> Box<dyn ServerController> {
        let target = self.target(init.slo);
        match self.variant {
            Variant::Rfc8289 => Box::new(Server::new(CoDel::new(target, self.interval(init.slo)))),
            Variant::Threshold => Box::new(Server::new(Threshold::new(target))),
        }
    }

    fn client(self: Arc<Self>, _init: Init) -> Box<dyn ClientController> {
        Box::new(client::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::{Arrival, Dequeue, SessionId, Verdict};
    use crate::time::Instant;

    #[test]
    fn each_variant_judges_at_its_place() {
        let late = Duration::from_secs(1);
        let session = SessionId { slot: 0, generation: 0 };
        let mut arrival = Arrival::new(session);
        arrival.queue_delay = late;
        for (variant, at_entry) in [(Variant::Rfc8289, false), (Variant::Threshold, true)] {
            let config = Arc::new(Config { variant, ..Config::default() });
            let mut server = config.server(Init::new(Instant::ORIGIN, 0));
            let refused = server.on_arrival(Instant::ORIGIN, &arrival) != Verdict::Admit;
            assert_eq!((refused, server.judges_dequeues()), (at_entry, !at_entry));
            let dequeue = Dequeue::new(session, late);
            let mut refuse =
                |at| server.on_dequeue(Instant::from_micros(at), &dequeue) != Verdict::Admit;
            assert_eq!((refuse(0), refuse(500)), (false, !at_entry)); // a quarter of 2 ms
        }
    }

    #[test]
    fn refuses_nonsense_by_name() {
        let config = Config { interval: Some(Duration::ZERO), ..Config::default() };
        assert_eq!(config.validate().unwrap_err().field, "codel.interval");
    }
}
