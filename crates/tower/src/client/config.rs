//! What can be set about a client.

use std::time::Duration;

use seawall_control::admission;
use seawall_control::client::{Polling, Unknown};
use seawall_control::config::{ConfigError, duration};
use seawall_control::controller::{ClientController, Init};
use seawall_control::retry::{self, Hedge};
use serde::{Deserialize, Serialize};

use super::outgoing::Custom;

/// A client of one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What metrics call the service that is called. Default `default`.
    pub name: String,
    /// The algorithm that the server admits by, whose client half is to be used. Default none: the
    /// client learns from responses whether there are credits, and keeps to them if there are.
    pub algorithm: Option<String>,
    /// Parameters of the algorithms' client halves, how requests wait for leave to be sent
    /// (`client.pending_max`, `client.expiry`), and how one of several replicas is chosen
    /// (`client.replicas`). The algorithm's name and `client.retry` in here are not looked at.
    pub admission: admission::Config,
    /// When a request goes to another replica. Default: what is refused once.
    pub retry: retry::Config,
    /// Latency that a response must meet to be good. Default 100 ms. A request waits for a fifth
    /// of it for leave to be sent, unless `admission.client.expiry` says otherwise.
    #[serde(with = "duration")]
    pub slo: Duration,
    /// Network round trip to the server. Default 1 ms.
    #[serde(with = "duration")]
    pub rtt: Duration,
    /// Deadline of requests that have none of their own. Default none.
    #[serde(with = "duration::option")]
    pub deadline: Option<Duration>,
    /// Whether deadlines are also told in `x-envoy-expected-rq-timeout-ms`, to servers that know
    /// that header. Default false: only where the request has it already.
    pub tells_envoy: bool,
    /// What the caller gets for a request that was given up before it was sent. Default an error.
    pub dropped: Dropped,
    /// Whether a request may go once more to the replica that refused it, after the time that it
    /// said, if there is no other. Right where one address stands for several servers. Default
    /// false.
    pub in_place: bool,
    /// The longest time to wait for that; who says longer is not asked again. Default 1 s.
    #[serde(with = "duration")]
    pub pause_max: Duration,
    /// Bytes of a request's body that are kept to send it again; a longer one is sent once only.
    /// Default 64 KiB.
    pub replay_max: usize,
    /// After so long without a request outstanding the server may have forgotten its session, and
    /// a new one begins. Default 50 s. It has to be shorter than the server's own time for that,
    /// which is 60 s by default.
    #[serde(with = "duration")]
    pub idle: Duration,
}

/// What the caller gets for a request that was given up before it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dropped {
    /// [`Error::Refused`](super::Error::Refused). The default.
    #[default]
    Error,
    /// A response as from a server that refuses it, at the stage `client`: 503, or `UNAVAILABLE` if
    /// it is a gRPC call.
    Response,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "default".into(),
            algorithm: None,
            admission: admission::Config::default(),
            retry: retry::Config::default(),
            slo: Duration::from_millis(100),
            rtt: Duration::from_millis(1),
            deadline: None,
            tells_envoy: false,
            dropped: Dropped::default(),
            in_place: false,
            pause_max: Duration::from_secs(1),
            replay_max: 64 << 10,
            idle: Duration::from_secs(50),
        }
    }
}

impl Config {
    /// The defaults for the service called `name` in metrics.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let named = |algorithm| admission::Config { algorithm, ..self.admission.clone() };
        let algorithm = self.algorithm.clone().unwrap_or_else(|| "none".into());
        named(algorithm).build_with(seawall_measure::utility::read)?;
        for (field, value) in [
            ("slo", Some(self.slo)),
            ("rtt", Some(self.rtt)),
            ("deadline", self.deadline),
            ("idle", Some(self.idle)),
        ] {
            if value.is_some_and(|value| value.is_zero()) {
                let problem = "0ns is out of range; allowed is 1ns or more";
                return Err(ConfigError::new(field, problem));
            }
        }
        self.retry.validate()?;
        if self.retry.hedge != Hedge::Never {
            let problem = "copies of HTTP requests are not sent; allowed is \"never\"";
            return Err(ConfigError::new("client.retry.hedge", problem));
        }
        ConfigError::check_range("replay_max", self.replay_max, 0..=64 << 20)
    }

    /// What is put on all requests.
    pub(super) fn custom(&self) -> Custom {
        Custom { deadline: self.deadline, tells_envoy: self.tells_envoy }
    }

    /// The client half for one server.
    pub(super) fn controller(&self, init: Init) -> Result<Box<dyn ClientController>, ConfigError> {
        self.validate()?;
        let polling = |inner| {
            let patience = self.admission.client.expiry(init.slo) / 2;
            Box::new(Polling::new(inner, init, patience, self.idle))
        };
        let Some(algorithm) = self.algorithm.clone() else {
            return Ok(polling(Box::<Unknown>::default()));
        };
        let admission = admission::Config { algorithm, ..self.admission.clone() };
        let client = admission.build_with(seawall_measure::utility::read)?.client(init);
        Ok(if admission.has_credits() { polling(client) } else { client })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_by_name() {
        let field = |config: Config| config.validate().unwrap_err().field;
        Config::default().validate().unwrap();
        assert_eq!(field(Config { slo: Duration::ZERO, ..Config::default() }), "slo");
        assert_eq!(field(Config { replay_max: 1 << 30, ..Config::default() }), "replay_max");
        let algorithm = Some("tcp".into());
        assert_eq!(field(Config { algorithm, ..Config::default() }), "algorithm");
        let retry = retry::Config { hedge: Hedge::Percentile(0.9), ..retry::Config::default() };
        assert_eq!(field(Config { retry, ..Config::default() }), "client.retry.hedge");
    }

    #[test]
    fn reads_the_documented_form() {
        let text = "name = 'billing'\nslo = '50ms'\ndropped = 'response'\n\
                    [retry]\nattempts = 3";
        let config: Config = toml::from_str(text).unwrap();
        assert_eq!((config.name.as_str(), config.dropped), ("billing", Dropped::Response));
        assert_eq!(config.retry.attempts, 3);
        assert!(toml::from_str::<Config>("slow = '1s'").is_err());
    }

    #[test]
    fn every_algorithm_has_a_client_half() {
        for name in admission::NAMES {
            let config = Config { algorithm: Some(name.into()), ..Config::default() };
            config.controller(Init::new(seawall_control::Instant::ORIGIN, 1)).unwrap();
        }
    }
}
