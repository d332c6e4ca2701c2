//! SEDA: each client limits the rate at which it sends, so that its replies come in time.
//!
//! ```text
//!   100 replies, or `timeout` passed: p99 of their latencies ─► smoothed;
//!                                      error = smoothed/target - 1
//!                                      error < -0.5: rate += increase × -(error + 0.1)
//!                                      error >  0:   rate /= decrease
//! ```
//!
//! The controller of Welsh and Culler (USITS '03, §4.2) as Breakwater's evaluation uses it (§5.1):
//! on the 99th percentile, and at the clients. The server admits everything.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::aqm::{Aqm, Server};
use crate::config::{ConfigError, duration};
use crate::controller::{
    Algorithm, ClientController, Demand, Departure, Dequeue, Init, Response, ServerController,
    Verdict,
};
use crate::estimate::WindowedQuantile;
use crate::metrics::Metrics;
use crate::open::Open;
use crate::random::Rng;
use crate::request::{Rejected, Stage};
use crate::time::{Instant, nanos};
use crate::token_bucket::TokenBucket;

/// Replies that are enough for an update.
const SAMPLES: usize = 100;

/// Weight of what was known before in the smoothed percentile.
const SMOOTHING: f64 = 0.7;

/// The rate grows while the relative error is below this.
const ERROR_INCREASE: f64 = -0.5;

/// The rate shrinks while the relative error is above this.
const ERROR_DECREASE: f64 = 0.0;

/// Added to the error when the rate grows, so that growth gets small as the target comes near.
const ERROR_OFFSET: f64 = 0.1;

/// Requests that a client may send at once after it sent none.
const BURST: u32 = 4;

/// Requests that a new client may send at once.
///
/// Deviation: the released code begins with none, which at the lowest rate holds the first request
/// back for half a second. A full bucket would let a thousand clients that start together overwhelm
/// the server before any of them has learned a thing.
const START: u32 = 1;

/// Parameters of SEDA.
///
/// Rates are those of one client, and every client changes its own; what reaches the server is
/// their sum. So `increase` has to be **scaled with the number of clients** (Breakwater §5.1 does
/// so too): `increase` × clients should be some per cent of what the server can serve in a second.
/// The paper's 40 for 1000 clients and 850 000 requests/s are 5 %. A few times more costs little;
/// but with a hundred times more, all clients overshoot together, and need seconds to come back
/// from the lowest rate. Much less, and a client takes as long to find what it could send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Latency, from sending to reply, that the percentile is steered for. Default: 60 % of the
    /// SLO; Breakwater's evaluation has 40 to 65 %, the more of it service time is the more. The
    /// rate grows only while the percentile stays below half of the target: raise it when service
    /// times vary so much that an idle server does not come below that.
    #[serde(with = "duration::option")]
    pub target: Option<Duration>,
    /// Which percentile of the latencies, as a fraction. Default 0.99; SEDA's own is 0.9.
    pub quantile: f64,
    /// A client that has had no 100 replies since its last update makes do with fewer after this
    /// long. Default 1ms.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Growth of the rate for each update, in requests per second, before it is multiplied by the
    /// error. Default 40; see above for when to scale it.
    pub increase: f64,
    /// Divisor of the rate when replies are late. Default 1.04.
    pub decrease: f64,
    /// The rate never falls below this, in requests per second; it starts at random between this
    /// and its double. Default 2.
    pub rate_min: f64,
    /// The rate never exceeds this, in requests per second. Default 100 000. A client that sent
    /// less than it might for long is held back by nothing else when the overload begins.
    pub rate_max: f64,
    /// Variant: refuse at the server what waited longer than this when it is about to run.
    /// Default: nothing is refused, as the papers say; the code released with Protego and
    /// Svalinn has 200 µs to 2.2 ms.
    #[serde(with = "duration::option")]
    pub server_drop_delay: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            target: None,
            quantile: 0.99,
            timeout: Duration::from_millis(1),
            increase: 40.0,
            decrease: 1.04,
            rate_min: 2.0,
            rate_max: 100_000.0,
            server_drop_delay: None,
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
        if self.target.is_some_and(|target| target.is_zero()) {
            let problem = "0 is out of range; give more than 0ns";
            return Err(ConfigError::new("seda.target", problem));
        }
        ConfigError::check_range("seda.quantile", self.quantile, 0.0..=1.0)?;
        ConfigError::check_range("seda.increase", self.increase, 0.001..=1e9)?;
        ConfigError::check_range("seda.decrease", self.decrease, 1.001..=100.0)?;
        ConfigError::check_range("seda.rate_max", self.rate_max, 0.001..=1e9)?;
        ConfigError::check_range("seda.rate_min", self.rate_min, 0.001..=self.rate_max)
    }

    /// The latency that is steered for, for this SLO.
    pub fn target(&self, slo: Duration) -> Duration {
        self.target.unwrap_or(slo * 3 / 5).max(Duration::from_nanos(1))
    }
}

impl Algorithm for Config {
    fn name(&self) -> &'static str {
        "seda"
    }

    fn bounds_waits(&self) -> bool {
        false
    }

    fn server(self: Arc<Self>, _init: Init) -> Box<dyn ServerController> {
        match self.server_drop_delay {
            None => Box::new(Open),
            Some(delay) => Box::new(Server::new(Late(delay))),
        }
    }

    fn client(self: Arc<Self>, init: Init) -> Box<dyn ClientController> {
        Box::new(Client::new(&self, init))
    }
}

/// Refuses what waited longer than this when it is about to run.
#[derive(Clone, Copy, Debug)]
struct Late(Duration);

impl Aqm for Late {
    const JUDGES_DEQUEUES: bool = true;

    fn on_dequeue(&mut self, _now: Instant, dequeue: &Dequeue) -> Verdict {
        if !dequeue.droppable || dequeue.sojourn <= self.0 {
            return Verdict::Admit;
        }
        Verdict::Refuse(Rejected::overload(Stage::RUN_QUEUE, dequeue.sojourn))
    }

    fn target_delay(&self) -> Duration {
        self.0
    }
}

/// Client half: one rate.
#[derive(Clone, Debug)]
pub struct Client {
    config: Config,
    /// In nanoseconds, as are all latencies here.
    target: f64,
    bucket: TokenBucket,
    samples: WindowedQuantile<SAMPLES>,
    smoothed: f64,
    updated_at: Instant,
}

impl Client {
    /// A client that has not sent anything, for the SLO of `init`.
    pub fn new(config: &Config, init: Init) -> Self {
        let rate = config.rate_min * (1.0 + Rng::new(init.seed).uniform());
        Self {
            config: config.clone(),
            target: nanos(config.target(init.slo)) as f64,
            bucket: TokenBucket::new(init.now, rate.min(config.rate_max), BURST).holding(START),
            samples: WindowedQuantile::default(),
            smoothed: 0.0,
            updated_at: init.now,
        }
    }

    fn update(&mut self, now: Instant) {
        let Some(latency) = self.samples.value(self.config.quantile) else { return };
        self.samples.clear();
        self.updated_at = now;
        self.smoothed = SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * latency as f64;
        let error = (self.smoothed - self.target) / self.target;
        let rate = match self.bucket.rate() {
            rate if error > ERROR_DECREASE => rate / self.config.decrease,
            rate if error < ERROR_INCREASE => rate - (error + ERROR_OFFSET) * self.config.increase,
            rate => rate,
        };
        self.bucket.set_rate(now, rate.clamp(self.config.rate_min, self.config.rate_max));
    }
}

impl ClientController for Client {
    fn on_demand(&mut self, now: Instant, _demand: &Demand) -> Departure {
        match self.bucket.take(now) {
            Ok(()) => Departure::Now,
            Err(at) => Departure::At(at),
        }
    }

    fn on_response(&mut self, now: Instant, response: &Response) {
        if !response.served {
            return; // how quickly a server refuses says nothing about its queue
        }
        self.samples.observe(nanos(response.latency));
        let timed_out = now.since(self.updated_at) > self.config.timeout;
        if timed_out || self.samples.len() == SAMPLES {
            self.update(now);
        }
    }

    fn metrics(&self) -> Metrics {
        Metrics::new().with("client_rate", self.bucket.rate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::{Feedback, SessionId};

    /// Breakwater's for exponential service times of 10 µs and 1000 clients.
    fn client() -> Client {
        let target = Some(Duration::from_micros(80));
        Client::new(&Config { target, ..Config::default() }, Init::new(Instant::ORIGIN, 3))
    }

    fn reply(client: &mut Client, at_us: u64, latency_us: u64, served: bool) -> f64 {
        let mut response = Response::new(Duration::from_micros(latency_us), Feedback::None);
        response.served = served;
        client.on_response(Instant::from_micros(at_us), &response);
        client.bucket.rate()
    }

    #[test]
    fn the_worked_example() {
        let client = &mut client();
        let first = client.bucket.rate();
        assert!((2.0..4.0).contains(&first), "{first}");
        // Smoothed 15 µs: the error is -0.8125.
        let rate = reply(client, 2_000, 50, true);
        assert!((rate - first - 28.5).abs() < 1e-9, "{rate}");
        // Smoothed 0.7 × 15 + 0.3 × 100 = 40.5 µs: between the thresholds, so nothing changes.
        assert_eq!(reply(client, 4_000, 100, true), rate);
        // Smoothed 0.7 × 40.5 + 0.3 × 400 = 148.35 µs: late.
        assert_eq!(reply(client, 6_000, 400, true), rate / 1.04);
    }

    #[test]
    fn a_hundred_replies_are_enough_and_refusals_are_none() {
        let client = &mut client();
        let first = client.bucket.rate();
        for _ in 0..99 {
            assert_eq!(reply(client, 10, 50, true), first);
            assert_eq!(reply(client, 10_000, 1, false), first);
        }
        assert!(reply(client, 10, 50, true) > first);
        assert!(client.samples.is_empty());
    }

    #[test]
    fn the_rate_keeps_its_bounds() {
        let client = &mut client();
        for i in 1..1_000 {
            reply(client, i * 2_000, 1_000_000, true);
        }
        assert_eq!(client.bucket.rate(), 2.0);
        client.config.rate_max = 50.0;
        for i in 1_000..2_000 {
            reply(client, i * 2_000, 1, true);
        }
        assert_eq!(client.bucket.rate(), 50.0);
    }

    #[test]
    fn a_burst_leaves_and_the_next_waits_for_its_token() {
        let client = &mut client();
        let now = Instant::ORIGIN;
        let later = now + Duration::from_secs(5);
        assert_eq!(client.on_demand(now, &Demand::new(0)), Departure::Now);
        assert!((0..4).all(|_| client.on_demand(later, &Demand::new(0)) == Departure::Now));
        let Departure::At(at) = client.on_demand(later, &Demand::new(4)) else { panic!("it left") };
        assert!(
            at > later + Duration::from_millis(250)
                && at.since(later) <= Duration::from_micros(500_001)
        );
        assert_eq!(client.on_demand(at, &Demand::new(4)), Departure::Now);
    }

    #[test]
    fn clients_do_not_start_in_step() {
        let rate = |seed| {
            let init = Init::new(Instant::ORIGIN, seed);
            Client::new(&Config::default(), init).bucket.rate()
        };
        assert_ne!(rate(1), rate(2));
    }

    #[test]
    fn the_server_refuses_nothing_unless_it_is_told_to() {
        let session = SessionId { slot: 0, generation: 0 };
        let late = Dequeue::new(session, Duration::from_micros(201));
        let server = |server_drop_delay| {
            let config = Config { server_drop_delay, ..Config::default() };
            Arc::new(config).server(Init::new(Instant::ORIGIN, 0))
        };
        assert!(!server(None).judges_dequeues());
        let mut released = server(Some(Duration::from_micros(200)));
        assert!(released.judges_dequeues());
        assert_ne!(released.on_dequeue(Instant::ORIGIN, &late), Verdict::Admit);
        let in_time = Dequeue { sojourn: Duration::from_micros(200), ..late };
        assert_eq!(released.on_dequeue(Instant::ORIGIN, &in_time), Verdict::Admit);
    }

    #[test]
    fn refuses_nonsense_by_name() {
        let field = |config: Config| config.validate().unwrap_err().field;
        assert_eq!(field(Config { quantile: 1.1, ..Config::default() }), "seda.quantile");
        assert_eq!(field(Config { decrease: 1.0, ..Config::default() }), "seda.decrease");
        assert_eq!(field(Config { rate_min: 2e5, ..Config::default() }), "seda.rate_min");
        let target = Some(Duration::ZERO);
        assert_eq!(field(Config { target, ..Config::default() }), "seda.target");
    }
}
