//! What is said of a graph in a plan: `[scenario.graph]`.

use std::time::Duration;

use seawall_control::Instant;
use seawall_control::config::{ConfigError, duration};
use seawall_control::time::nanos;
use seawall_measure::graph::GraphError;
use seawall_measure::{Graph, Shape};
use serde::{Deserialize, Serialize};

/// A graph of services in containers on nodes, instead of clients and replicas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The graph: the name of one of Seawall's tables, or a table.
    pub table: Source,
    /// Factor of all work of the table. Default 1.
    pub work: f64,
    /// Factor of the size of all pools of the table; `inf` makes a connection for each request.
    /// Default 1.
    pub pools: f64,
    /// Units of CPU that the containers have at first, shared out for the highest throughput
    /// (SurgeGuard §V). Default: as the table says.
    pub units: Option<u32>,
    /// Units of CPU that each node has for containers. Default 52: the logical cores of the
    /// paper's nodes (§V).
    pub node_units: u32,
    /// What a core does with both of its hyperthreads at work, over what it does with one. A unit
    /// is a hyperthread, and a container has whole cores as far as its units come in pairs. 1 to
    /// 2. Default 2: as if each unit were a core.
    pub smt_gain: f64,
    /// Units that are given, or taken, at a time: 2 where both hyperthreads of a core belong
    /// together (§V). The policy counts them as one. Default 1.
    pub step: u32,
    /// Standard deviation of all work over its mean, log-normal, in place of the table's shapes;
    /// constant work stays so. 0 to 10. Default: as the table says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variation: Option<f64>,
    /// Nodes; the containers are dealt out to them in the table's order, one after the other.
    /// Default 1.
    pub nodes: u32,
    /// What the frequency of a container may be.
    pub frequency: Frequency,
    /// From a decision of the policy until it is carried out. Default 50 µs: some writes to control
    /// groups, each of which takes 13 µs at the median and 80 µs at the 99th percentile on a
    /// machine of 2026.
    #[serde(with = "duration")]
    pub actuation: Duration,
    /// Whether the containers get what they had at first when the measured time begins; what the
    /// policy has learned stays. Default true, as in the authors' experiments.
    pub reset: bool,
    /// Instead of a policy: one that knows each surge, some time after it began, and what it needs
    /// (SurgeGuard Fig. 4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ideal: Option<Ideal>,
    /// FirstResponder beside the policy. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responder: Option<Responder>,
    /// Times when the network is slower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Slowdown>,
    /// Jobs of the profile at low load, from which the expected times are taken. Default 2,000.
    pub profile_jobs: u32,
    /// Width of the bins of the latency curve whose area above the SLO is the violation volume;
    /// each has the mean of its jobs. Default 100 ms.
    #[serde(with = "duration")]
    pub violation_bin: Duration,
    /// Load of that profile, as a part of the capacity. Default 0.1.
    pub profile_load: f64,
}

/// Where a graph is described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Source {
    /// One of Seawall's own.
    Named(String),
    /// Here.
    Table(Graph),
}

/// A ladder of frequencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Frequency {
    /// The lowest, at which work takes as long as the table says; GHz. Default 1.6.
    pub base: f64,
    /// The highest; GHz. Default 3.1.
    pub top: f64,
    /// One step; GHz. Default 0.1.
    pub step: f64,
    /// The part of all work at the base frequency that goes with the clock; the rest waits for
    /// memory, and takes as long at any. 0 to 1. Default 1.
    pub part: f64,
    /// Power of a unit at work goes with this power of the frequency. Default 2: over this part of
    /// a Xeon's range the voltage grows with about the square root of the frequency, and power with
    /// frequency times the square of the voltage.
    pub power_exponent: f64,
}

/// Times when messages take longer, at the end of each period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slowdown {
    /// How much longer each message takes.
    #[serde(with = "duration")]
    pub extra: Duration,
    /// From the end of one to the end of the next.
    #[serde(with = "duration")]
    pub period: Duration,
    /// How long it lasts.
    #[serde(with = "duration")]
    pub length: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            table: Source::Named("chain".into()),
            work: 1.0,
            pools: 1.0,
            units: None,
            node_units: 52,
            smt_gain: 2.0,
            step: 1,
            variation: None,
            nodes: 1,
            frequency: Frequency::default(),
            actuation: Duration::from_micros(50),
            reset: true,
            ideal: None,
            responder: None,
            slowdown: None,
            profile_jobs: 2_000,
            profile_load: 0.1,
            violation_bin: Duration::from_millis(100),
        }
    }
}

impl Default for Frequency {
    fn default() -> Self {
        Self { base: 1.6, top: 3.1, step: 0.1, part: 1.0, power_exponent: 2.0 }
    }
}

/// The ideal controller of SurgeGuard's Fig. 4.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ideal {
    /// From the begin of a surge until it is seen, and from its end.
    #[serde(with = "duration")]
    pub delay: Duration,
    /// Within how long what has queued up is to be done, beside the surge itself.
    #[serde(with = "duration")]
    pub drain: Duration,
}

/// FirstResponder, and what it costs (SurgeGuard §VI-D).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Responder {
    /// What each packet takes longer. Default 260 ns.
    #[serde(with = "duration")]
    pub packet: Duration,
    /// From a late packet until the frequency is raised: handing it over, and the register.
    /// Default 2540 ns, of which 440 ns for the work queue.
    #[serde(with = "duration")]
    pub actuation: Duration,
    /// After a decision for a path there is none for so long. Default: twice the latency of a job
    /// at low load (§IV-A).
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub freeze: Option<Duration>,
    /// After so long a raised frequency is again what the policy has set. Default 100 ms, as in a
    /// live node.
    #[serde(with = "duration")]
    pub boost: Duration,
    /// Whether it stays raised instead until the policy lowers it, which is as the paper leaves it.
    /// Default false.
    pub until_lowered: bool,
}

impl Default for Responder {
    fn default() -> Self {
        Self {
            packet: Duration::from_nanos(260),
            actuation: Duration::from_nanos(2_540),
            freeze: None,
            boost: Duration::from_millis(100),
            until_lowered: false,
        }
    }
}

impl Slowdown {
    /// Whether messages take longer at `now`.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        let into = now.as_nanos() % nanos(self.period).max(1);
        into >= nanos(self.period.saturating_sub(self.length))
    }
}

impl Config {
    /// The table, with its work as the plan has it.
    ///
    /// # Errors
    ///
    /// Names the tables that there are.
    pub fn graph(&self) -> Result<Graph, ConfigError> {
        let graph = match &self.table {
            Source::Named(name) => Graph::named(name),
            Source::Table(graph) => graph.check().map(|()| graph.clone()),
        };
        let refused = |error: GraphError| ConfigError::new("graph.table", error.to_string());
        let mut graph = graph.map_err(refused)?.stretched(self.work);
        if let Some(variation) = self.variation {
            let sigma = variation.powi(2).ln_1p().sqrt();
            let shaped = graph.shaped(Shape::LogNormal { sigma });
            graph =
                shaped.map_err(|error| ConfigError::new("graph.variation", error.to_string()))?;
        }
        Ok(graph)
    }

    /// Units that the containers have at first, in the table's order.
    pub fn first_units(&self, graph: &Graph) -> Vec<u32> {
        match self.units {
            Some(units) => graph.best_units(units),
            None => graph.services.iter().map(|service| service.units).collect(),
        }
    }

    /// Jobs per second that these suffice for.
    pub fn capacity(&self) -> Result<f64, ConfigError> {
        let graph = self.graph()?;
        let cores = graph.capacity_with(&self.first_units(&graph)).jobs_per_second;
        Ok(cores * self.smt_gain / 2.0)
    }

    /// How many connections a pool of this size in the table has.
    pub(super) fn pool_size(&self, size: u32) -> u32 {
        // Casts of floats saturate: infinite pools have more connections than there are jobs.
        ((f64::from(size) * self.pools).round() as u32).max(1)
    }

    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = ConfigError::check_range;
        check("graph.smt_gain", self.smt_gain, 1.0..=2.0)?;
        check("graph.variation", self.variation.unwrap_or(0.0), 0.0..=10.0)?;
        ConfigError::check_range("graph.step", self.step, 1..=1_000)?;
        check("graph.work", self.work, 1e-3..=1e6)?;
        if self.pools.is_nan() || self.pools <= 0.0 {
            let problem = format!("{} is out of range; give more than 0, or inf", self.pools);
            return Err(ConfigError::new("graph.pools", problem));
        }
        ConfigError::check_range("graph.nodes", self.nodes, 1..=64)?;
        ConfigError::check_range("graph.node_units", self.node_units, 1..=100_000)?;
        ConfigError::check_range("graph.profile_jobs", self.profile_jobs, 100..=1_000_000)?;
        check("graph.profile_load", self.profile_load, 1e-3..=1.0)?;
        let graph = self.graph()?;
        let services = graph.services.len() as u32;
        if let Some(units) = self.units {
            ConfigError::check_range("graph.units", units, services..=100_000)?;
        }
        let units = self.first_units(&graph);
        for node in 0..self.nodes as usize {
            let of_node: u32 = units.iter().skip(node).step_by(self.nodes as usize).sum();
            if of_node > self.node_units {
                let problem = format!(
                    "node {node} has {}, and its containers {of_node} at first; give at least \
                     that, or more nodes",
                    self.node_units
                );
                return Err(ConfigError::new("graph.node_units", problem));
            }
        }
        self.validate_frequency()?;
        if let Some(slowdown) = self.slowdown
            && (slowdown.length.is_zero() || slowdown.length >= slowdown.period)
        {
            let problem = "give more than 0s and less than the period";
            return Err(ConfigError::new("graph.slowdown.length", problem));
        }
        if let Some(ideal) = self.ideal {
            if ideal.drain.is_zero() {
                let problem = "0s is out of range; give more than 0s";
                return Err(ConfigError::new("graph.ideal.drain", problem));
            }
            if self.responder.is_some() {
                let problem = "is not there where the ideal controller is; leave one of them out";
                return Err(ConfigError::new("graph.responder", problem));
            }
        }
        if self.actuation > Duration::from_mins(1) {
            return Err(ConfigError::new("graph.actuation", "give at most 1m"));
        }
        Ok(())
    }

    fn validate_frequency(&self) -> Result<(), ConfigError> {
        let Frequency { base, top, step, part, power_exponent } = self.frequency;
        let check = ConfigError::check_range;
        check("graph.frequency.base", base, 1e-3..=1e3)?;
        check("graph.frequency.top", top, base..=1e3)?;
        check("graph.frequency.step", step, 1e-4..=1e3)?;
        if (top - base) / step > 1e3 {
            let problem = "gives more than 1000 steps; allowed is up to 1000";
            return Err(ConfigError::new("graph.frequency.step", problem));
        }
        check("graph.frequency.part", part, 0.0..=1.0)?;
        check("graph.frequency.power_exponent", power_exponent, 0.0..=10.0)
    }
}
