//! The client throttle of Google's SRE book: who is refused much, sends less.
//!
//! ```text
//!   over the last two minutes:  requests, and accepts, those of them that were served
//!   drop with probability       max(0, (requests - 2 × accepts) / (requests + 1))
//! ```
//!
//! "Site Reliability Engineering" (Beyer et al., 2016), chapter 21, "Client-Side Throttling",
//! equation 21-1. Dropped requests count as requests. Each client knows what it was answered
//! itself, and nothing else.
//!
//! The throttle needs a server that refuses: the book's refuse what they cannot serve. Here that is
//! the rule of all stages, to refuse what cannot start in time; the server half admits everything,
//! and where that rule is off (`budget = "off"`) this does nothing. At K = 2 a server still gets
//! one request to refuse for each that it serves. A client that has been served nothing for two
//! minutes sends about one request in that time.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, duration};
use crate::controller::{
    Algorithm, ClientController, Demand, Departure, DropReason, Init, Response, ServerController,
};
use crate::estimate::Rolling;
use crate::metrics::Metrics;
use crate::open::Open;
use crate::random::Rng;
use crate::time::Instant;

/// By this part of the window at a time it forgets.
const BUCKETS: u32 = 60;

/// Parameters of the throttle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How many requests there may be for each that is accepted (K). Default 2: lower, and less is
    /// sent in vain, but what changed at the server is learned later.
    pub k: f64,
    /// Over which time they are counted. Default 2m.
    #[serde(with = "duration")]
    pub window: Duration,
    /// Added to the requests that the excess is divided by. Default 1; gRPC's throttle has 8, so
    /// that a client with few requests drops less.
    pub padding: f64,
    /// The probability never exceeds this. Default 1, as in the book; Envoy's admission control,
    /// which is made after it, has 0.8, so that it never sends nothing.
    pub drop_max: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { k: 2.0, window: Duration::from_secs(120), padding: 1.0, drop_max: 1.0 }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("sre.k", self.k, 1.0..=1000.0)?;
        ConfigError::check_range("sre.padding", self.padding, 1.0..=1e6)?;
        ConfigError::check_range("sre.drop_max", self.drop_max, 0.0..=1.0)?;
        if self.window < Duration::from_millis(1) {
            return Err(ConfigError::new("sre.window", "must be 1ms or more"));
        }
        Ok(())
    }
}

impl Algorithm for Config {
    fn name(&self) -> &'static str {
        "sre"
    }

    fn server(self: Arc<Self>, _init: Init) -> Box<dyn ServerController> {
        Box::new(Open)
    }

    fn client(self: Arc<Self>, init: Init) -> Box<dyn ClientController> {
        Box::new(Client::new(&self, init))
    }
}

/// Client half: what it asked for, and what it got.
#[derive(Clone, Debug)]
pub struct Client {
    config: Config,
    rng: Rng,
    counts: Rolling<Counts>,
    /// The probability at the newest request.
    probability: f64,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    requests: u64,
    accepts: u64,
}

impl Client {
    /// A client that has not asked for anything.
    pub fn new(config: &Config, init: Init) -> Self {
        Self {
            config: config.clone(),
            rng: Rng::new(init.seed),
            counts: Rolling::new(init.now, config.window, BUCKETS),
            probability: 0.0,
        }
    }

    /// With which probability a request is dropped now.
    fn probability(&self, now: Instant) -> f64 {
        let Config { k, padding, drop_max, .. } = self.config;
        let sum = |of: fn(&Counts) -> u64| self.counts.all(now).map(of).sum::<u64>() as f64;
        let (requests, accepts) = (sum(|counts| counts.requests), sum(|counts| counts.accepts));
        ((requests - k * accepts) / (requests + padding)).clamp(0.0, drop_max)
    }
}

impl ClientController for Client {
    fn on_demand(&mut self, now: Instant, demand: &Demand) -> Departure {
        self.probability = self.probability(now);
        self.counts.current(now).requests += 1;
        if demand.droppable && self.rng.chance(self.probability) {
            return Departure::Drop(DropReason::Throttled);
        }
        Departure::Now
    }

    fn on_response(&mut self, now: Instant, response: &Response) {
        self.counts.current(now).accepts += u64::from(response.served);
    }

    fn metrics(&self) -> Metrics {
        Metrics::new().with("client_drop_probability", self.probability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Feedback;

    fn client(config: &Config) -> Client {
        Client::new(config, Init::new(Instant::ORIGIN, 7))
    }

    fn at(second: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(second)
    }

    /// Of so many requests, how many left; all of them were answered so.
    fn ask(client: &mut Client, now: Instant, requests: usize, served: bool) -> usize {
        let mut response = Response::new(Duration::ZERO, Feedback::None);
        response.served = served;
        let mut left = 0;
        for _ in 0..requests {
            if client.on_demand(now, &Demand::new(0)) == Departure::Now {
                client.on_response(now, &response);
                left += 1;
            }
        }
        left
    }

    #[test]
    fn the_excess_over_twice_the_accepts_is_dropped() {
        let client = &mut client(&Config::default());
        assert_eq!(ask(client, at(0), 100, true), 100);
        // Half may be refused without a drop.
        assert_eq!(ask(client, at(1), 100, false), 100);
        assert_eq!(client.probability(at(1)), 0.0);
        ask(client, at(2), 200, false);
        assert!((client.probability(at(2)) - 200.0 / 401.0).abs() < 1e-9);
        // Those of the first two seconds are forgotten first, all accepts among them.
        assert!((client.probability(at(120)) - 200.0 / 201.0).abs() < 1e-9);
        assert_eq!(client.probability(at(122)), 0.0);
    }

    #[test]
    fn under_lasting_refusals_nearly_nothing_leaves() {
        let dropper = &mut client(&Config::default());
        let left = ask(dropper, at(0), 10_000, false);
        assert!((1..30).contains(&left), "{left}");
        let capped = &mut client(&Config { drop_max: 0.8, ..Config::default() });
        let left = ask(capped, at(0), 10_000, false);
        assert!((1_900..2_200).contains(&left), "{left}");
        // What must not be dropped is not.
        let privileged = Demand { droppable: false, ..Demand::new(0) };
        assert!((0..99).all(|_| dropper.on_demand(at(0), &privileged) == Departure::Now));
    }

    #[test]
    fn clients_with_a_padding_begin_gently() {
        let client = |padding| client(&Config { padding, ..Config::default() });
        let after_three = |mut client: Client| {
            for _ in 0..3 {
                _ = client.on_demand(at(0), &Demand::new(0));
            }
            client.probability(at(0))
        };
        assert_eq!((after_three(client(1.0)), after_three(client(9.0))), (0.75, 0.25));
    }

    #[test]
    fn refuses_nonsense_by_name() {
        let field = |config: Config| config.validate().unwrap_err().field;
        assert_eq!(field(Config { k: 0.9, ..Config::default() }), "sre.k");
        assert_eq!(field(Config { padding: 0.0, ..Config::default() }), "sre.padding");
        assert_eq!(field(Config { drop_max: 1.1, ..Config::default() }), "sre.drop_max");
        let window = Duration::ZERO;
        assert_eq!(field(Config { window, ..Config::default() }), "sre.window");
    }
}
