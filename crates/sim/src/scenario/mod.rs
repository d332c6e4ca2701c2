//! One situation, complete: everything that a run depends on, but for its seed.
//!
//! All of it is the plan file's schema, too (see the [plans](crate::plan)): each field has a
//! default, and what is out of range is refused by name.

mod bandwidth;
mod memory;
mod network;
mod noise;
mod server;
mod timing;
mod workload;

use std::time::Duration;

use seawall_control::config::{ConfigError, duration};
use seawall_control::{Instant, admission, scaling};
use seawall_measure::{Rates, Window};
use serde::{Deserialize, Serialize};

pub use bandwidth::{Bandwidth, ParseBandwidthError};
pub use memory::Memory;
pub use network::Network;
pub use noise::{Hold, Noise};
pub use server::{Costs, Power, Preempt, Server};
pub use timing::Timing;
pub use workload::{Class, Crash, MixShift, Step, Workload};

use crate::graph;

/// A latency is good up to this many times what a request takes unloaded, unless an SLO is given:
/// Breakwater §5.1.
const SLO_FACTOR: u32 = 10;

/// Everything that one simulated run depends on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Latency up to which a success counts as goodput. Default: ten times the sum of mean service
    /// time and round trip (Breakwater §5.1).
    #[serde(with = "duration::option")]
    pub slo: Option<Duration>,
    /// Who asks for what, and when.
    pub workload: Workload,
    /// Who serves it.
    pub server: Server,
    /// What lies between.
    pub network: Network,
    /// How long it is watched.
    pub run: Timing,
    /// The algorithm and its parameters, as for a live server.
    pub admission: admission::Config,
    /// Instead of clients with connections to replicas: a graph of services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<graph::Config>,
    /// Who moves CPU between the services of a graph, and its parameters, as for a live node.
    pub scaling: scaling::Config,
}

impl Scenario {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.slo.is_some_and(|slo| slo.is_zero()) {
            return Err(ConfigError::new("slo", "0s is out of range; give more than 0s"));
        }
        if self.graph.is_some() {
            return self.validate_graph();
        }
        if self.scaling != scaling::Config::default() {
            let problem = "there is no graph whose CPU could be moved; give graph.table";
            return Err(ConfigError::new("scaling", problem));
        }
        self.workload.validate()?;
        self.server.validate()?;
        self.run.validate()?;
        self.validate_noise()?;
        let replicas = self.server.speeds.len() as u32;
        if let Some(replication) = self.workload.replication {
            ConfigError::check_range("workload.replication", replication, 1..=replicas)?;
        }
        self.rates()?;
        self.admission.build_with(seawall_measure::utility::read).map(drop)
    }

    /// A graph has its own services, and clients that only ask.
    fn validate_graph(&self) -> Result<(), ConfigError> {
        let Some(graph) = &self.graph else { return Ok(()) };
        graph.validate()?;
        self.scaling.validate()?;
        self.run.validate()?;
        let unused = |field| {
            let problem = "has no meaning where there is a graph; allowed of the workload are \
                           load and arrivals, beside network, run, slo, graph and scaling";
            Err(ConfigError::new(field, problem))
        };
        let own = Workload {
            load: self.workload.load.clone(),
            arrivals: self.workload.arrivals,
            ..Workload::default()
        };
        if self.workload != own {
            return unused("workload");
        }
        if self.server != Server::default() {
            return unused("server");
        }
        if self.admission != admission::Config::default() {
            return unused("admission");
        }
        let bins = self.run.time.as_nanos() / graph.violation_bin.as_nanos().max(1);
        if graph.violation_bin.is_zero() || bins >= 100_000 {
            let problem = "give at least a 100,000th of the measured time";
            return Err(ConfigError::new("graph.violation_bin", problem));
        }
        self.rates().map(drop)
    }

    fn validate_noise(&self) -> Result<(), ConfigError> {
        if !self.server.noise.is_empty() && self.workload.draws_memory() {
            let problem = "not where steps draw from the memory: that is not modelled";
            return Err(ConfigError::new("server.noise", problem));
        }
        let classes = self.workload.classes();
        let locks = || classes.iter().flat_map(|class| &class.steps).map(|step| &step.lock);
        for hold in &self.server.holds {
            if !locks().flatten().any(|lock| *lock == hold.lock) {
                let problem = format!("no step needs the lock {}", hold.lock);
                return Err(ConfigError::new("server.hold.lock", problem));
            }
        }
        Ok(())
    }

    /// The numbers of this replica, or of all.
    pub(crate) fn replicas(&self, only: Option<u32>) -> std::ops::Range<u16> {
        match only {
            Some(replica) => replica as u16..replica as u16 + 1,
            None => 0..self.server.speeds.len() as u16,
        }
    }

    /// Latency up to which a success counts as goodput.
    pub fn slo(&self) -> Duration {
        self.slo.unwrap_or((self.workload.mean_service() + self.network.rtt()) * SLO_FACTOR)
    }

    /// Within how long each replica alone has to answer.
    pub fn target_delay(&self) -> Duration {
        let attempts = u32::from(self.admission.client.retry.attempts.max(1));
        self.server.target_delay.unwrap_or(self.slo() / attempts)
    }

    /// Requests per second that the servers can take at most when each request costs what it costs
    /// alone: a load of `1x`.
    pub fn capacity(&self) -> f64 {
        if let Some(capacity) = self.graph.as_ref().and_then(|graph| graph.capacity().ok()) {
            return capacity;
        }
        let request = self.workload.mean_cpu() + self.server.costs.of_one_request();
        let cores: f64 = self.server.speeds.iter().sum::<f64>() * f64::from(self.server.cores);
        self.server.capacity.unwrap_or(cores / request.as_secs_f64().max(1e-9))
    }

    /// What is offered over time, in requests per second.
    ///
    /// # Errors
    ///
    /// When a load is out of range at this capacity.
    pub fn rates(&self) -> Result<Rates, ConfigError> {
        let rates = self.workload.load.rates(Some(self.capacity()));
        rates.map_err(|error| ConfigError::new("workload.load", error.to_string()))
    }

    /// The measured part of a run.
    pub fn window(&self) -> Window {
        Window::after_warm_up(Instant::ORIGIN, self.run.warm_up, self.run.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_breakwaters_testbed_at_its_capacity() {
        let scenario = Scenario::default();
        scenario.validate().unwrap();
        assert_eq!(scenario.slo(), Duration::from_micros(200));
        assert!((scenario.capacity() - 847_457.6).abs() < 0.1, "{}", scenario.capacity());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let field = |text: &str| {
            let scenario: Scenario = toml::from_str(text).unwrap();
            scenario.validate().unwrap_err().field.to_string()
        };
        assert_eq!(field("slo = '0s'"), "slo");
        assert_eq!(field("workload.clients = 0"), "workload.clients");
        assert_eq!(field("workload.errors = 1.5"), "workload.errors");
        assert_eq!(field("workload.load = '1e9x'"), "workload.load");
        assert_eq!(field("server.cores = 0"), "server.cores");
        assert_eq!(field("server.memory.bandwidth = '0B'"), "server.memory.bandwidth");
        let capacity = "server.memory.semaphore_capacity = 0";
        assert_eq!(field(capacity), "server.memory.semaphore_capacity");
        assert_eq!(field("server.memory.bandit.alpha = 2.0"), "bandit.alpha");
        let preempt = "server.preempt = { quantum = '0s', cost = '1us' }";
        assert_eq!(field(preempt), "server.preempt.quantum");
        assert_eq!(field("server.power = { idle = 1.0, core = -1.0 }"), "server.power.core");
        let step = "steps = [{ cpu = 'const:1us', memory = '0B' }]";
        let class = format!("workload.class = [{{ name = 'a', share = 1.0, {step} }}]");
        assert_eq!(field(&class), "workload.class.steps.memory");
        let shift = |shares: &str| format!("workload.shift = [{{ at = '1s', shares = {shares} }}]");
        assert_eq!(field(&shift("{ none = 1.0 }")), "workload.shift.shares");
        assert_eq!(field(&shift("{ all = 0.0 }")), "workload.shift.shares");
        assert_eq!(field("server.speeds = []"), "server.speeds");
        assert_eq!(field("server.speeds = [1.0, -1.0]"), "server.speeds");
        assert_eq!(field("run.time = '0s'"), "run.time");
        assert_eq!(field("admission.algorithm = 'tcp'"), "algorithm");
    }
}
