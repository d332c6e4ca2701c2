//! What can be set about a layer.

use std::time::Duration;

use http::StatusCode;
use seawall_control::admission;
use seawall_control::config::{ConfigError, duration};
use seawall_control::request::Budget;
use seawall_control::standing::Queues;
use seawall_control::trust::Trust;
use serde::{Deserialize, Serialize};

/// The longest time that may be set: what the clock holds, 584 years. Sums of such times do not
/// overflow.
const LONGEST: Duration = Duration::from_secs(18_446_744_073);

/// A layer: how it admits, what it says to those who are refused, and what it bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether refusals are carried out. Default `enforce`.
    pub mode: Mode,
    /// Latency, client to client, that a response must meet to count as good, over all attempts to
    /// get it. Default 100ms. Delays that are not set follow from it.
    #[serde(with = "duration")]
    pub slo: Duration,
    /// How often clients may send a request until it is served, here or at another replica, 1 to
    /// 16. Default 1. Where they send what was refused once more, 2 is right (Protego §3.3).
    pub attempts: u8,
    /// Within how long this server alone serves a request or says that it will not, client to
    /// client; at most the SLO. Default: the SLO over `attempts` (Protego §3.3).
    #[serde(with = "duration::option")]
    pub target_delay: Option<Duration>,
    /// Network round trip to the clients. Default 1ms.
    #[serde(with = "duration")]
    pub rtt: Duration,
    /// The round trip that 99 % of requests do not exceed, for the budget. Default: `rtt`, since
    /// requests of HTTP do not say when they were sent.
    #[serde(with = "duration::option")]
    pub network_p99: Option<Duration>,
    /// The time that 99 % of handlers take at most until their response begins, waits at stages
    /// apart, for the budget. Default: measured over the newest requests.
    #[serde(with = "duration::option")]
    pub service_p99: Option<Duration>,
    /// How requests are admitted.
    pub admission: admission::Config,
    /// How long an admitted request may wait, in the run queue and at all other stages together.
    pub budget: Budget,
    /// How long queues at stages may be while more comes than can be served. Default `short`: as
    /// short as keeps the stage busy, since a longer one serves nobody more. `full`: as long as
    /// what requests have left, as published (Protego §3.2).
    pub queues: Queues,
    /// Threads that run handlers. Default 0: one for each core that the process may use.
    pub workers: usize,
    /// How often the runtime is asked how long a task waits to be polled. Default 1ms; 0 never
    /// asks, and then a layer behind a listener without receive timestamps knows of no wait in
    /// front of it.
    #[serde(with = "duration")]
    pub canary: Duration,
    /// Statuses of refusals in HTTP.
    pub status: Statuses,
    /// Who gets reports of load (ORCA). Default `asked`.
    pub orca: Orca,
    /// Bounds on what clients can make the layer hold.
    pub limits: Limits,
    /// What of the senders' claims is believed. Default nothing.
    pub trust: Trust,
    /// Seed of the algorithm's random choices. Default 0: drawn from the clock at the start.
    pub seed: u64,
}

/// What becomes of refusals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Decides and reports, and refuses nothing: to see what it would do.
    Observe,
    /// Refuses.
    #[default]
    Enforce,
}

/// Statuses of refusals, 400 to 599. Calls of gRPC have those of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Statuses {
    /// There is too much to do. Default 503.
    pub overload: u16,
    /// The client sent more than it may: its window, or its privileges. Default 429.
    pub quota: u16,
    /// The client's deadline has passed. Default 504.
    pub expired: u16,
}

impl Default for Statuses {
    fn default() -> Self {
        Self { overload: 503, quota: 429, expired: 504 }
    }
}

impl Statuses {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, below `status`, and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Self { overload, quota, expired } = *self;
        ConfigError::check_range("status.overload", overload, 400..=599)?;
        ConfigError::check_range("status.quota", quota, 400..=599)?;
        ConfigError::check_range("status.expired", expired, 400..=599)
    }

    /// `status`, which [`Config::validate`] has looked at.
    pub(super) fn code(status: u16) -> StatusCode {
        StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
    }
}

/// Which responses carry a report of load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Orca {
    /// None.
    Off,
    /// Those to requests with a header `endpoint-load-metrics-format`.
    #[default]
    Asked,
    /// All.
    Always,
}

/// Bounds: everything that clients can fill has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Credit sessions at once, by the names that clients give themselves. Default 16384. Who comes
    /// beyond that is a guest.
    pub sessions: u32,
    /// A session that nobody has used for so long is closed. Default 60s.
    #[serde(with = "duration")]
    pub session_idle: Duration,
    /// Requests that one credit session may have outstanding, whatever its window. Default 1024.
    pub outstanding: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 16_384, session_idle: Duration::from_secs(60), outstanding: 1024 }
    }
}

impl Limits {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, below `limits`, and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("limits.sessions", self.sessions, 0..=1 << 24)?;
        at_least("limits.session_idle", self.session_idle, Duration::from_millis(1))?;
        ConfigError::check_range("limits.outstanding", self.outstanding, 1..=1 << 24)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            slo: Duration::from_millis(100),
            attempts: 1,
            target_delay: None,
            rtt: Duration::from_millis(1),
            network_p99: None,
            service_p99: None,
            admission: admission::Config::default(),
            budget: Budget::default(),
            queues: Queues::Short,
            workers: 0,
            canary: Duration::from_millis(1),
            status: Statuses::default(),
            orca: Orca::default(),
            limits: Limits::default(),
            trust: Trust::default(),
            seed: 0,
        }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.admission.build_with(seawall_measure::utility::read)?;
        let us = Duration::from_micros(1);
        at_least("slo", self.slo, us)?;
        ConfigError::check_range("attempts", self.attempts, 1..=16)?;
        if let Some(target) = self.target_delay {
            at_least("target_delay", target, us)?;
            if target > self.slo {
                let (target, slo) = (duration::format(target), duration::format(self.slo));
                let problem = format!("{target} is out of range; allowed is up to the SLO, {slo}");
                return Err(ConfigError::new("target_delay", problem));
            }
        }
        at_least("rtt", self.rtt, Duration::from_nanos(1))?;
        at_least("network_p99", self.network_p99.unwrap_or_default(), Duration::ZERO)?;
        at_least("service_p99", self.service_p99.unwrap_or_default(), Duration::ZERO)?;
        if let Budget::Fixed(budget) = self.budget {
            at_least("budget", budget, Duration::from_nanos(1))?;
        }
        ConfigError::check_range("workers", self.workers, 0..=1024)?;
        if !self.canary.is_zero() {
            at_least("canary", self.canary, 100 * us)?;
        }
        self.status.validate()?;
        self.limits.validate()?;
        self.trust.validate()
    }

    /// Within how long this server alone has to answer.
    pub fn target_delay(&self) -> Duration {
        self.target_delay.unwrap_or(self.slo / u32::from(self.attempts.max(1)))
    }

    /// Threads that run handlers.
    pub fn workers(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        }
    }
}

fn at_least(field: &'static str, value: Duration, least: Duration) -> Result<(), ConfigError> {
    let allowed = match value {
        _ if value < least => format!("{} or more", duration::format(least)),
        _ if value > LONGEST => format!("up to {}", duration::format(LONGEST)),
        _ => return Ok(()),
    };
    let problem = format!("{} is out of range; allowed is {allowed}", duration::format(value));
    Err(ConfigError::new(field, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        config.validate().map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn the_documented_form_is_read() {
        let text = "mode = 'observe'\nslo = '50ms'\nattempts = 2\norca = 'always'\n\
                    [admission]\nalgorithm = 'aimd'\n[status]\noverload = 529\n\
                    [limits]\nsessions = 10";
        let config = read(text).unwrap();
        assert_eq!((config.mode, config.orca), (Mode::Observe, Orca::Always));
        assert_eq!(config.target_delay(), Duration::from_millis(25));
        assert_eq!((config.status.overload, config.status.quota), (529, 429));
        assert_eq!(read(&toml::to_string(&config).unwrap()), Ok(config));
        assert_eq!(read(""), Ok(Config::default()));
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        for (text, error) in [
            ("attempts = 0", "attempts: 0 is out of range; allowed is 1 to 16"),
            ("slo = '0us'", "slo: 0s is out of range; allowed is 1us or more"),
            ("canary = '5us'", "canary: 5us is out of range; allowed is 100us or more"),
            (
                "target_delay = '1s'",
                "target_delay: 1s is out of range; allowed is up to the SLO, 100ms",
            ),
            ("[status]\nquota = 200", "status.quota: 200 is out of range; allowed is 400 to 599"),
            (
                "[trust]\nrequire_identity = true",
                "trust.require_identity: nobody could connect; add \
                entries to trust.identities",
            ),
        ] {
            assert_eq!(read(text), Err(error.into()), "{text}");
        }
        assert!(read("colour = 'red'").is_err());
    }
}
