//! Who serves.

use std::time::Duration;

use seawall_control::config::{ConfigError, duration};
use seawall_control::predict::lock::LockKind;
use seawall_control::request::Budget;
use seawall_control::standing::Queues;
use serde::{Deserialize, Serialize};

use super::noise::check_holds;
use super::{Hold, Memory, Noise};

/// The servers: one or several replicas, each with its own controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Cores of each replica. They handle messages first and run requests then, which are not
    /// preempted unless `preempt` says so. Default 10 (Breakwater §5.1).
    pub cores: u32,
    /// One number for each replica: how fast its cores are. Default `[1.0]`, a single one.
    pub speeds: Vec<f64>,
    /// Within how long each replica alone has to answer, as at a live server. Default: the SLO
    /// over the attempts that `admission.client.retry` lets requests have (Protego §3.3).
    #[serde(with = "duration::option")]
    pub target_delay: Option<Duration>,
    /// Requests per second that a load of `1x` means. Default: what the cores can do with requests
    /// that share no message.
    pub capacity: Option<f64>,
    /// How long an admitted request may wait in the run queue, as at a live server. Default `off`:
    /// the published algorithms know no such rule.
    pub budget: Budget,
    /// How long queues, the run queue and those of locks, may be while more comes than can be
    /// served, as at a live server. Default `full`.
    pub queues: Queues,
    /// What a request does that comes to a lock. Default `plain`: it waits.
    pub locks: LockKind,
    /// The memory that its cores share.
    pub memory: Memory,
    /// How requests are preempted. Default: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempt: Option<Preempt>,
    /// The power that it takes, of which the controller is told. Default: nobody asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// Bursts in which others have the CPU.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub noise: Vec<Noise>,
    /// Whether somebody who still gets the CPU refuses meanwhile what would wait for longer than
    /// it may, as far as the end of a burst is foreseen (LIBROS §IV). Default false.
    pub guardian: bool,
    /// Work of its own that holds locks.
    #[serde(rename = "hold", skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<Hold>,
    /// CPU time that messages take.
    pub costs: Costs,
}

/// Preemption by a timer: whoever has run for a quantum goes behind all others that wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preempt {
    /// Time after which a request is preempted if anything waits for a core.
    #[serde(with = "duration")]
    pub quantum: Duration,
    /// Time of a core that each preemption takes.
    #[serde(with = "duration")]
    pub cost: Duration,
}

/// Power of a replica: linear in its busy cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Watts that it takes when idle.
    pub idle: f64,
    /// Watts more for each core that is busy, also if it stalls.
    pub core: f64,
}

/// CPU time of a server's cores for its messages.
///
/// A message may carry several requests, or several replies, of one connection: those that are
/// ready when it is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// For each message received. Default 400 ns.
    #[serde(with = "duration")]
    pub receive: Duration,
    /// For each request in it, until it is admitted or refused. Default 500 ns.
    #[serde(with = "duration")]
    pub request: Duration,
    /// For each reply, whether it holds a result or a refusal, and for each explicit credit.
    /// Default 500 ns.
    #[serde(with = "duration")]
    pub reply: Duration,
    /// For each message sent. Default 400 ns.
    #[serde(with = "duration")]
    pub send: Duration,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            cores: 10,
            speeds: vec![1.0],
            target_delay: None,
            capacity: None,
            budget: Budget::Off,
            queues: Queues::Full,
            locks: LockKind::Plain,
            memory: Memory::default(),
            preempt: None,
            power: None,
            noise: Vec::new(),
            guardian: false,
            holds: Vec::new(),
            costs: Costs::default(),
        }
    }
}

/// Breakwater's server does 850,000 requests of 10 µs per second on ten hyperthreads (§5.2), so
/// each request costs 1.8 µs beside its service. The paper does not say on what. Half each for
/// receiving and sending, and in each about half for the message and for what it carries, makes no
/// choice between algorithms: a refusal costs what the handling of any request costs, and only its
/// service is saved.
impl Default for Costs {
    fn default() -> Self {
        let ns = Duration::from_nanos;
        Self { receive: ns(400), request: ns(500), reply: ns(500), send: ns(400) }
    }
}

impl Costs {
    /// What a request costs beside its service when it shares no message.
    pub fn of_one_request(&self) -> Duration {
        self.receive + self.request + self.reply + self.send
    }
}

impl Server {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("server.cores", self.cores, 1..=4096)?;
        let speeds = &self.speeds;
        if speeds.is_empty()
            || speeds.len() > 64
            || !speeds.iter().all(|speed| (0.001..=1000.0).contains(speed))
        {
            let problem = "give 1 to 64 numbers, one for each replica, from 0.001 to 1000";
            return Err(ConfigError::new("server.speeds", problem));
        }
        if self.target_delay.is_some_and(|target| target.is_zero()) {
            return Err(ConfigError::new("server.target_delay", "give more than 0s"));
        }
        self.memory.validate()?;
        if self.preempt.as_ref().is_some_and(|preempt| preempt.quantum.is_zero()) {
            return Err(ConfigError::new("server.preempt.quantum", "give more than 0s"));
        }
        let replicas = speeds.len() as u32;
        self.noise.iter().try_for_each(|noise| noise.validate(replicas))?;
        self.holds.iter().try_for_each(|hold| hold.validate(replicas))?;
        check_holds(&self.holds)?;
        if let Some(Power { idle, core }) = self.power {
            ConfigError::check_range("server.power.idle", idle, 0.0..=1e6)?;
            ConfigError::check_range("server.power.core", core, 0.0..=1e6)?;
        }
        match self.capacity {
            Some(capacity) => {
                ConfigError::check_range("server.capacity", capacity, 0.001..=1e9).map(drop)
            }
            None => Ok(()),
        }
    }
}
