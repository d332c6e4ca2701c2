//! Who asks for what, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use seawall_control::config::{ConfigError, duration};
use seawall_measure::{Keys, Load, Process, Schedule, ServiceTime};
use serde::{Deserialize, Serialize};

use super::Bandwidth;

/// Classes that a workload may have, as controllers tell them apart.
const CLASSES_MAX: usize = 8;

/// The clients and their requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// Clients, each with one connection to every replica; a request comes from each with equal
    /// chance. Default 1,000.
    pub clients: u32,
    /// Offered load of all clients together, which may change over time: `0.9x` (of the capacity),
    /// `850k` (per second), `0s:0.5x,2s:1.4x`. Default `1x`.
    pub load: Schedule,
    /// How arrivals scatter around it. Default `poisson`.
    pub arrivals: Process,
    /// Service time of requests, unless there are classes. Default `exp:10us`.
    pub service: ServiceTime,
    /// Kinds of requests, each with its share. Default: one kind, `all`.
    #[serde(rename = "class", skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
    /// Which part of all requests ends in an error of the service as soon as its handler begins: a
    /// reply as others to admission, and quicker. Default 0.
    pub errors: f64,
    /// Changes of their shares.
    #[serde(rename = "shift", skip_serializing_if = "Vec::is_empty")]
    pub shifts: Vec<MixShift>,
    /// Time after which the client has no use for a reply any more; travels with the request.
    /// Default: none.
    #[serde(with = "duration::option")]
    pub deadline: Option<Duration>,
    /// How long a request may wait in queues at each replica that it is given to, in all: what
    /// LIBROS calls its deadline (§III). Unlike after `deadline`, a reply is then still worth
    /// something. Default: as long as it takes.
    #[serde(with = "duration::option")]
    pub budget: Option<Duration>,
    /// What requests ask for; where that is matters with `replication`. Default: each key as often
    /// as the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// How many replicas have each key, one after the other in a ring. Default: all of them.
    pub replication: Option<u32>,
    /// Clients that fail, and come back.
    #[serde(rename = "crash", skip_serializing_if = "Vec::is_empty")]
    pub crashes: Vec<Crash>,
}

/// A kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name in results.
    pub name: String,
    /// Its part of the offered requests at first, relative to those of the other classes.
    pub share: f64,
    /// False if no stage may refuse its requests, and they pass the others wherever they wait: a
    /// privilege, whose excess is refused at entry. Default true.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub droppable: bool,
    /// What its handler does, one step after the other.
    pub steps: Vec<Step>,
}

/// One step of a handler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// CPU time that it takes.
    pub cpu: ServiceTime,
    /// How long it then waits for something else, such as a disk or another service; it occupies
    /// no core meanwhile. Default: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<ServiceTime>,
    /// The mutex that it holds all the while, if any; who waits for it occupies no core, and they
    /// get it in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// What it draws from the memory while it runs at full speed, whatever the core's. Default:
    /// nothing that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bandwidth>,
    /// True where the request cannot turn back, such as to free what it has reserved: it waits for
    /// the lock, and for the memory semaphore, however long that takes. Default false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub plain: bool,
}

/// From some time on the classes have other shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixShift {
    /// When, from the start of the run.
    #[serde(with = "duration")]
    pub at: Duration,
    /// Shares by the names of classes. One that is not named keeps what it has.
    pub shares: BTreeMap<String, f64>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

/// Some clients disconnect at once, and connect again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crash {
    /// When, from the start of the run.
    #[serde(with = "duration")]
    pub at: Duration,
    /// Which part of the clients, 0 to 1.
    pub share: f64,
    /// How long they are away. What is due meanwhile is dropped at the client.
    #[serde(with = "duration")]
    pub away: Duration,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            clients: 1_000,
            load: Schedule::constant(Load::OfCapacity(1.0)),
            arrivals: Process::default(),
            service: ServiceTime::exponential(Duration::from_micros(10)),
            classes: Vec::new(),
            errors: 0.0,
            shifts: Vec::new(),
            deadline: None,
            budget: None,
            keys: None,
            replication: None,
            crashes: Vec::new(),
        }
    }
}

impl Workload {
    /// The classes, also where only a service time was given.
    pub fn classes(&self) -> Vec<Class> {
        if !self.classes.is_empty() {
            return self.classes.clone();
        }
        let step = Step { cpu: self.service, wait: None, lock: None, memory: None, plain: false };
        vec![Class { name: "all".into(), share: 1.0, droppable: true, steps: vec![step] }]
    }

    /// The shares of all classes over time: from the start, and from each shift on.
    pub(crate) fn mixes(&self) -> Vec<(Duration, Vec<f64>)> {
        let classes = self.classes();
        let mut shares: Vec<f64> = classes.iter().map(|class| class.share).collect();
        let mut mixes = vec![(Duration::ZERO, shares.clone())];
        let mut shifts: Vec<&MixShift> = self.shifts.iter().collect();
        shifts.sort_by_key(|shift| shift.at);
        for shift in shifts {
            for (class, share) in classes.iter().zip(&mut shares) {
                *share = shift.shares.get(&class.name).copied().unwrap_or(*share);
            }
            mixes.push((shift.at, shares.clone()));
        }
        mixes
    }

    /// Whether a step draws from the memory.
    pub fn draws_memory(&self) -> bool {
        self.classes.iter().flat_map(|class| &class.steps).any(|step| step.memory.is_some())
    }

    /// Mean CPU time of a request in its handler, over all classes as they are at first, where the
    /// memory does not slow it.
    pub fn mean_cpu(&self) -> Duration {
        self.mean(|step| step.cpu.mean())
    }

    /// Mean time of a request in its handler, but for waits for cores and locks.
    pub fn mean_service(&self) -> Duration {
        self.mean(|step| step.cpu.mean() + step.wait.map_or(Duration::ZERO, |wait| wait.mean()))
    }

    fn mean(&self, time: impl Fn(&Step) -> Duration) -> Duration {
        let classes = self.classes();
        let shares: f64 = classes.iter().map(|class| class.share).sum();
        let of_class = |class: &Class| class.steps.iter().map(&time).sum::<Duration>();
        let mean = |class: &Class| of_class(class).as_secs_f64() * class.share / shares;
        Duration::from_secs_f64(classes.iter().map(mean).sum())
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("workload.clients", self.clients, 1..=100_000)?;
        ConfigError::check_range("workload.errors", self.errors, 0.0..=1.0)?;
        if self.classes.len() > CLASSES_MAX {
            return Err(ConfigError::new("workload.class", "give at most 8 classes"));
        }
        for class in &self.classes {
            ConfigError::check_range("workload.class.share", class.share, 0.0..=1e6)?;
            if class.steps.iter().any(|step| step.memory == Some(Bandwidth::default())) {
                return Err(ConfigError::new("workload.class.steps.memory", "give more than 0B"));
            }
            if class.steps.is_empty() {
                return Err(ConfigError::new("workload.class.steps", "give at least one step"));
            }
            if self.classes.iter().filter(|other| other.name == class.name).count() > 1 {
                return Err(ConfigError::new("workload.class.name", "give each its own name"));
            }
        }
        self.validate_mixes()?;
        if self.deadline.is_some_and(|deadline| deadline.is_zero()) {
            return Err(ConfigError::new("workload.deadline", "give more than 0s"));
        }
        if self.budget.is_some_and(|budget| budget.is_zero()) {
            return Err(ConfigError::new("workload.budget", "give more than 0s"));
        }
        self.crashes.iter().try_for_each(|crash| {
            ConfigError::check_range("workload.crash.share", crash.share, 0.0..=1.0)
        })
    }

    fn validate_mixes(&self) -> Result<(), ConfigError> {
        let classes = self.classes();
        for (name, &share) in self.shifts.iter().flat_map(|shift| &shift.shares) {
            if !classes.iter().any(|class| class.name == *name) {
                let problem = format!("there is no class {name}");
                return Err(ConfigError::new("workload.shift.shares", problem));
            }
            ConfigError::check_range("workload.shift.shares", share, 0.0..=1e6)?;
        }
        for (index, (_, shares)) in self.mixes().iter().enumerate() {
            let field = if index == 0 { "workload.class.share" } else { "workload.shift.shares" };
            if shares.iter().sum::<f64>() < 1e-6 {
                return Err(ConfigError::new(field, "give one class more than 0"));
            }
        }
        Ok(())
    }
}
