//! What can be set about a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use seawall_control::admission;
use seawall_control::config::{ConfigError, duration};
use seawall_control::request::Budget;
use seawall_control::standing::Queues;
use seawall_control::trust::{Known, Trust};
use serde::{Deserialize, Serialize};

use super::guardian::{GuardianConfig, GuardianWay};
use super::page::PageConfig;
use super::spill::SpillConfig;

/// The longest time that may be set: what the clock holds, 584 years. Sums of such times do not
/// overflow.
const LONGEST: Duration = Duration::from_secs(18_446_744_073);

/// A server: where it listens, whom it believes, how it admits, and what it bounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Where to listen. Default `127.0.0.1:7117`: loopback only, until told otherwise.
    pub listen: SocketAddr,
    /// Latency, client to client, that a result must meet to count as good, over all attempts to
    /// get it. Default 2ms. Delays that are not set follow from it.
    #[serde(with = "duration")]
    pub slo: Duration,
    /// How often clients may send a request until it is served, here or at another replica, 1 to
    /// 16. Default 1. Where they send what was refused once more, 2 is right (Protego §3.3).
    pub attempts: u8,
    /// Within how long this server alone serves a request or says that it will not, client to
    /// client; at most the SLO. Default: the SLO over `attempts`, so that a request that is
    /// refused everywhere but at the last replica is still served within the SLO (Protego
    /// §3.3). The delays that algorithms aim at follow from it.
    #[serde(with = "duration::option")]
    pub target_delay: Option<Duration>,
    /// Network round trip to the clients. Default 100us, about loopback's.
    #[serde(with = "duration")]
    pub rtt: Duration,
    /// The round trip that 99 % of requests do not exceed, for the budget. Default: measured of
    /// each session, as `rtt` and what its latest requests come later than its earliest.
    #[serde(with = "duration::option")]
    pub network_p99: Option<Duration>,
    /// The time that 99 % of handlers do not exceed, waits at stages apart, for the budget.
    /// Default: measured over the newest requests.
    #[serde(with = "duration::option")]
    pub service_p99: Option<Duration>,
    /// How requests are admitted.
    pub admission: admission::Config,
    /// How long an admitted request may wait, in the run queue and at all other stages together.
    pub budget: Budget,
    /// How long queues at locks and pools may be while more comes than can be served: `full`, as
    /// long as what requests have left (Protego §3.2), or `short`, as short as keeps the stage
    /// busy. Default: `short` under algorithms whose stages reject what waits too long, `full`
    /// under the others, as published.
    pub queues: Option<Queues>,
    /// Threads, and what they do.
    pub threads: Threads,
    /// Who answers while the process does not get the CPU.
    pub guardian: GuardianConfig,
    /// Bounds on what peers can make the server hold.
    pub limits: Limits,
    /// What of the senders' claims is believed.
    pub trust: Trust,
    /// The page of metrics that it shares with the node agent. Default none.
    pub page: PageConfig,
    /// Replicas that are handed what this server refuses. Default none.
    pub spill: SpillConfig,
    /// TLS, if the listener speaks it.
    pub tls: Option<TlsConfig>,
    /// Ask the kernel when bytes arrived, so that a wait before reading counts as queueing delay.
    /// Default true; costs about 0.1 µs a read. Not available under TLS.
    pub receive_timestamps: bool,
    /// Seed of the algorithm's random choices. Default 0: drawn from the clock at the start.
    pub seed: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7117)),
            slo: Duration::from_millis(2),
            attempts: 1,
            target_delay: None,
            rtt: Duration::from_micros(100),
            network_p99: None,
            service_p99: None,
            admission: admission::Config::default(),
            budget: Budget::default(),
            queues: None,
            threads: Threads::default(),
            guardian: GuardianConfig::default(),
            limits: Limits::default(),
            trust: Trust::default(),
            page: PageConfig::default(),
            spill: SpillConfig::default(),
            tls: None,
            receive_timestamps: true,
            seed: 0,
        }
    }
}

/// Threads of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Threads {
    /// Threads that run handlers. Default 0: one for each core that the process may use.
    pub workers: usize,
    /// Threads that only read and write. Default 0: none of their own with one worker, which then
    /// reads between handlers; else one for every eight workers.
    pub dispatchers: usize,
    /// A worker looks up from its handlers after this long: to read and write if it does that,
    /// too, and whether to stop. Default 50us; a handler that runs longer is not interrupted.
    #[serde(with = "duration")]
    pub slice: Duration,
    /// Handlers run on threads of the application instead: on those that call
    /// [`Worker::run`](super::Worker::run), `workers` of them. Default false.
    pub outside: bool,
}

impl Default for Threads {
    fn default() -> Self {
        Self { workers: 0, dispatchers: 0, slice: Duration::from_micros(50), outside: false }
    }
}

/// Bounds: every queue and wait that a peer can fill has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Open sessions. Default 16384. More are closed at once.
    pub sessions: u32,
    /// Largest body of a frame, in bytes. Default 1 MiB.
    pub body_bytes: u32,
    /// Calls that one session may have outstanding, whatever its window. Default 1024.
    pub outstanding: u32,
    /// Calls beyond its window, or beyond `outstanding`, after which a session is closed. Default
    /// 1000.
    pub violations: u32,
    /// Bytes that may wait for a client that does not read. Default 4 MiB; reading from it stops
    /// at half. The replies to what was read before may be more than that, for a second.
    pub unread_bytes: usize,
    /// How long a new connection may take until its hello is complete. Default 5s.
    #[serde(with = "duration")]
    pub hello_timeout: Duration,
    /// How long a frame may take from its first byte to its last. Default 10s.
    #[serde(with = "duration")]
    pub frame_timeout: Duration,
    /// How long a client may take to read something of what waits for it. Default 10s.
    #[serde(with = "duration")]
    pub write_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 16_384,
            body_bytes: 1 << 20,
            outstanding: 1024,
            violations: 1000,
            unread_bytes: 4 << 20,
            hello_timeout: Duration::from_secs(5),
            frame_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
        }
    }
}

/// Certificate and key of a listener, PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The server's certificate chain.
    pub certificate: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
    /// Authorities of client certificates: with it, clients must show one (mutual TLS).
    #[serde(default)]
    pub client_authorities: Option<PathBuf>,
}

impl ServerConfig {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.admission.build_with(seawall_measure::utility::read)?;
        let at_least = |field, value: Duration, least: Duration| {
            let allowed = match value {
                _ if value < least => format!("{} or more", duration::format(least)),
                _ if value > LONGEST => format!("up to {}", duration::format(LONGEST)),
                _ => return Ok(()),
            };
            let problem =
                format!("{} is out of range; allowed is {allowed}", duration::format(value));
            Err(ConfigError::new(field, problem))
        };
        at_least("slo", self.slo, Duration::from_micros(1))?;
        ConfigError::check_range("attempts", self.attempts, 1..=16)?;
        if let Some(target) = self.target_delay {
            at_least("target_delay", target, Duration::from_micros(1))?;
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
        at_least("threads.slice", self.threads.slice, Duration::from_nanos(1))?;
        let ms = Duration::from_millis(1);
        at_least("limits.hello_timeout", self.limits.hello_timeout, ms)?;
        at_least("limits.frame_timeout", self.limits.frame_timeout, ms)?;
        at_least("limits.write_timeout", self.limits.write_timeout, ms)?;
        ConfigError::check_range("threads.workers", self.threads.workers, 0..=1024)?;
        ConfigError::check_range("threads.dispatchers", self.threads.dispatchers, 0..=1024)?;
        ConfigError::check_range("limits.sessions", self.limits.sessions, 1..=1 << 24)?;
        ConfigError::check_range("limits.body_bytes", self.limits.body_bytes, 1..=1 << 30)?;
        ConfigError::check_range("limits.outstanding", self.limits.outstanding, 1..=1 << 24)?;
        ConfigError::check_range("limits.violations", self.limits.violations, 1..=u32::MAX)?;
        ConfigError::check_range("limits.unread_bytes", self.limits.unread_bytes, 4096..=1 << 32)?;
        self.page.validate()?;
        self.guardian.validate()?;
        if self.guardian.way == GuardianWay::Kernel && self.tls.is_some() {
            let problem = "\"kernel\" reads frames as they come, which TLS hides; allowed is \
                           \"auto\", \"patrol\" or \"off\"";
            return Err(ConfigError::new("guardian.way", problem));
        }
        self.trust.validate()?;
        self.spill.validate(self.listen)?;
        let authorities = self.tls.as_ref().and_then(|tls| tls.client_authorities.as_ref());
        let unprovable = |known: &&Known| known.token.is_none() && authorities.is_none();
        if let Some(known) = self.trust.identities.iter().find(unprovable) {
            let problem = format!(
                "\"{}\" has a certificate only, which nobody can show; set tls.client_authorities",
                known.name
            );
            return Err(ConfigError::new("trust.identities", problem));
        }
        Ok(())
    }

    /// Within how long this server alone has to answer.
    pub fn target_delay(&self) -> Duration {
        self.target_delay.unwrap_or(self.slo / u32::from(self.attempts.max(1)))
    }

    /// Threads that run handlers.
    pub fn workers(&self) -> usize {
        match self.threads.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        }
    }

    /// Threads that only read and write; zero when workers do it between handlers.
    pub fn dispatchers(&self) -> usize {
        match (self.threads.dispatchers, self.workers()) {
            (0, 1) if !self.threads.outside => 0,
            (0, workers) => workers.div_ceil(8),
            (dispatchers, _) => dispatchers,
        }
    }
}
