//! Plans of `seawall graph run`.

use std::collections::BTreeMap;
use std::time::Duration;

use seawall_control::config::duration;
use seawall_control::scaling;
use seawall_graph::cpu::{CpuConfig, CpuKind};
use seawall_measure::violation::Statistic;
use seawall_measure::{Graph, Process, Rates, Schedule};
use seawall_sim::plan::{self, PlanError, table};
use serde::Deserialize;
use toml::{Table, Value};

use crate::plans::Open;

/// A unit is at least so many thousandths of a CPU where quotas bound it: the kernel knows no quota
/// below a millisecond, and ours count over 50 of them.
const UNIT_MILLI_MIN: u32 = 20;

/// Rounds of a plan at most.
const ROUNDS_MAX: u32 = 1_000;

/// A graph, its load, and who moves CPU between its services.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// Another plan, beside this one, on which it builds.
    #[serde(default)]
    #[expect(dead_code, reason = "it has been followed when the whole is read")]
    include: Option<String>,
    /// What it is about, in a few words.
    #[serde(default)]
    pub(super) title: String,
    /// The same in paragraphs.
    #[serde(default)]
    pub(super) about: String,
    /// One of the graphs that come with Seawall.
    graph: String,
    /// All work takes so many times as long. Default 1.
    #[serde(default = "one")]
    time_scale: f64,
    /// Units that services have at first, over those of the table.
    #[serde(default)]
    units: BTreeMap<String, u32>,
    /// Units that are shared out at first for the highest throughput, over those of the table.
    #[serde(default)]
    units_total: Option<u32>,
    /// Units beside those, for whoever is given them.
    pub(super) units_spare: u32,
    /// The size of all pools, over those of the table: a number, or `none` for one connection with
    /// any number of streams.
    #[serde(default)]
    pool: Option<Pool>,
    /// What services work with.
    #[serde(default)]
    pub(super) cpu: CpuConfig,
    /// What a unit is in thousandths of a CPU. Default 1000; less with `cpu.kind = "quota"`.
    #[serde(default = "thousand")]
    pub(super) unit_milli: u32,
    /// Speeds in thousandths of the base that contenders may set; one alone means that they set
    /// none. Default: 1000 alone.
    #[serde(default = "base_speed")]
    pub(super) speeds_permille: Vec<u32>,
    /// Put real stores behind the services that the table names. Default false.
    #[serde(default)]
    pub(super) real_stores: bool,
    /// Who carries decisions out. Default the node agent, in builds that have it.
    #[serde(default)]
    pub(super) agent: Who,
    /// How often each contender runs. Default 1.
    #[serde(default = "once")]
    pub(super) rounds: u32,
    /// The latency that jobs should not exceed. Default: the mean at low load, times
    /// `calibration.factor`.
    #[serde(default, with = "duration::option")]
    pub(super) qos: Option<Duration>,
    /// What stands for the latencies of a bin of 100 ms. Default their mean.
    #[serde(default)]
    pub(super) statistic: Statistic,
    /// What is offered.
    pub(super) load: Load,
    /// What is expected at low load.
    #[serde(default)]
    pub(super) calibration: Calibration,
    /// Parameters of policies, over their defaults.
    #[serde(default)]
    scaling: Table,
    /// Who moves CPU.
    #[serde(rename = "contender")]
    pub(super) contenders: Vec<Contender>,
}

/// What is offered.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    /// Jobs per second outside of surges.
    rate: Value,
    /// Surges: `{ factor = 1.75, length = "2s", every = "10s" }`. Default none.
    #[serde(default)]
    pub(super) surge: Option<Surge>,
    /// How long to offer it, surges included, before measuring. Default 10s.
    #[serde(default = "ten_seconds", with = "duration")]
    pub(super) warm_up: Duration,
    /// How long to measure. Default 60s.
    #[serde(default = "minute", with = "duration")]
    pub(super) time: Duration,
    /// How long to wait for what was not answered at the end. Default 5s.
    #[serde(default = "five_seconds", with = "duration")]
    pub(super) drain: Duration,
    /// Connections of the load to the first service. Default 16.
    #[serde(default = "sixteen")]
    pub(super) sessions: u32,
    /// Seed of arrivals; each round has the next one. Default 1.
    #[serde(default = "first")]
    pub(super) seed: u64,
}

/// Surges that come again and again.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Surge {
    /// So many times the rate.
    pub(super) factor: f64,
    /// For so long.
    #[serde(with = "duration")]
    pub(super) length: Duration,
    /// From the begin of one to that of the next.
    #[serde(with = "duration")]
    pub(super) every: Duration,
}

/// What is expected at low load.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Calibration {
    /// Part of the rate at which it is measured. Default 0.25.
    pub(super) load: f64,
    /// For how long. Default 5s.
    #[serde(with = "duration")]
    pub(super) time: Duration,
    /// Expected is so many times the mean (SurgeGuard §IV). Default 2.
    pub(super) factor: f64,
}

/// Who moves CPU.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contender {
    /// Its name in results.
    pub(super) name: String,
    /// Its policy and what goes over the plan's parameters.
    scaling: Table,
    /// Who carries them out, over the plan's.
    #[serde(default)]
    agent: Option<Who>,
    /// The agent's FirstResponder beside it, as in the agent's configuration. Default: none.
    #[serde(default)]
    pub(super) responder: Option<Table>,
}

/// Who carries decisions out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Who {
    /// `seawall node run`, the agent of a node.
    Process,
    /// A thread of this process, with the same policies.
    Thread,
    /// Nobody: services keep what the table gives them, and no policy looks at them.
    Nobody,
}

impl Default for Who {
    fn default() -> Self {
        if cfg!(feature = "node") { Self::Process } else { Self::Thread }
    }
}

/// The size of all pools.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Pool {
    Size(u32),
    Word(String),
}

fn one() -> f64 {
    1.0
}
fn thousand() -> u32 {
    1_000
}
fn base_speed() -> Vec<u32> {
    vec![1_000]
}
fn once() -> u32 {
    1
}
fn sixteen() -> u32 {
    16
}
fn first() -> u64 {
    1
}
fn five_seconds() -> Duration {
    Duration::from_secs(5)
}
fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}
fn minute() -> Duration {
    Duration::from_secs(60)
}

impl Default for Calibration {
    fn default() -> Self {
        Self { load: 0.25, time: five_seconds(), factor: 2.0 }
    }
}

impl Plan {
    /// Reads a plan and lays `settings` over it, keys with dots.
    ///
    /// # Errors
    ///
    /// Names line and column, key or field, and what is allowed.
    pub(super) fn read(
        text: &str,
        settings: &[(String, Value)],
        open: Open<'_>,
    ) -> Result<Self, PlanError> {
        let mut whole = plan::with_included(text, parse, open)?;
        for (key, value) in settings {
            table::insert(&mut whole, key, value.clone())
                .map_err(|error| PlanError::field(key, error.to_string()))?;
        }
        let plan = Self::deserialize(whole).map_err(|error| PlanError::syntax(&error))?;
        plan.check()?;
        Ok(plan)
    }

    /// The same with these contenders alone, if any are named.
    ///
    /// # Errors
    ///
    /// Names the one that is not there.
    pub(super) fn only(mut self, names: &[String]) -> Result<Self, PlanError> {
        let known: Vec<String> = self.contenders.iter().map(|one| one.name.clone()).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(name)) {
            let problem = format!("there is no {name}; allowed: {}", known.join(", "));
            return Err(PlanError::field("--only", problem));
        }
        if !names.is_empty() {
            self.contenders.retain(|contender| names.contains(&contender.name));
        }
        Ok(self)
    }

    /// The graph with all that the plan says of it.
    ///
    /// # Errors
    ///
    /// Names the field that makes no sense, and what is allowed.
    pub(super) fn graph(&self) -> Result<Graph, PlanError> {
        let graph = Graph::named(&self.graph);
        let graph = graph.map_err(|error| PlanError::field("graph", error.to_string()))?;
        let mut graph = graph.stretched(self.time_scale);
        if let Some(total) = self.units_total {
            let least = graph.services.len() as u32;
            if !(least..=4_096).contains(&total) {
                let problem = format!("{total}; allowed is {least}, one for each, to 4096");
                return Err(PlanError::field("units_total", problem));
            }
            let best = graph.best_units(total);
            for (service, units) in graph.services.iter_mut().zip(best) {
                service.units = units;
            }
        }
        for (name, units) in &self.units {
            let known: Vec<String> = graph.services.iter().map(|one| one.name.clone()).collect();
            let service = graph.services.iter_mut().find(|service| service.name == *name);
            let Some(service) = service else {
                let problem = format!("there is no {name}; allowed: {}", known.join(", "));
                return Err(PlanError::field("units", problem));
            };
            service.units = *units;
        }
        match &self.pool {
            None => {}
            Some(Pool::Word(word)) if word == "none" => {
                graph.services.iter_mut().for_each(|service| service.pools.clear());
            }
            Some(Pool::Word(word)) => {
                let problem = format!("`{word}`; allowed is a number, or \"none\"");
                return Err(PlanError::field("pool", problem));
            }
            Some(Pool::Size(size)) => {
                for service in &mut graph.services {
                    let callees = service.callees().into_iter().map(str::to_owned);
                    service.pools = callees.map(|callee| (callee, *size)).collect();
                }
            }
        }
        let text = toml::to_string(&graph).expect("a graph is a table");
        Graph::read(&text).map_err(|error| PlanError::field("graph", error.to_string()))
    }

    /// Arrivals, at the rate of the plan or at a part of it without surges.
    ///
    /// # Errors
    ///
    /// Names the field that makes no sense, and what is allowed.
    pub(super) fn arrivals(&self, calm: Option<f64>) -> Result<(Process, Rates), PlanError> {
        let label = plan::label(&self.load.rate);
        let rate: f64 =
            label.parse().ok().filter(|rate| (0.1..=1e6).contains(rate)).ok_or_else(|| {
                PlanError::field(
                    "load.rate",
                    format!("{label}; allowed is 0.1 to 1000000 per second"),
                )
            })?;
        let rate = rate * calm.unwrap_or(1.0);
        let schedule: Schedule = format!("{rate}").parse().expect("a number is a schedule");
        let rates = schedule.rates(None);
        let rates = rates.map_err(|error| PlanError::field("load.rate", error.to_string()))?;
        let process = match self.load.surge.filter(|_| calm.is_none()) {
            None => Process::Poisson,
            Some(Surge { factor, length, every }) => {
                let [every, length] = [every, length].map(duration::format);
                let process = format!("surges:{factor}:{every}:{length}").parse();
                process.map_err(|error: seawall_measure::SpecError| {
                    PlanError::field("load.surge", error.to_string())
                })?
            }
        };
        Ok((process, rates))
    }

    /// Who moves CPU, with all parameters.
    ///
    /// # Errors
    ///
    /// Names the contender and the field that makes no sense, and what is allowed.
    pub(super) fn scaling(&self, contender: &Contender) -> Result<scaling::Config, PlanError> {
        let problem = |problem: String| PlanError::Case {
            case: format!("contender {}", contender.name),
            problem: format!("scaling: {}", problem.trim_end().replace('\n', " ")),
        };
        let mut whole = self.scaling.clone();
        table::lay(&mut whole, &contender.scaling);
        let config =
            scaling::Config::deserialize(whole).map_err(|error| problem(error.to_string()))?;
        config.validate().map_err(|error| problem(error.to_string()))?;
        Ok(config)
    }

    /// Who carries this one's decisions out.
    pub(super) fn agent_of(&self, contender: &Contender) -> Who {
        contender.agent.unwrap_or(self.agent)
    }

    /// That the agent can have the FirstResponder of this contender.
    fn check_responder(&self, contender: &Contender) -> Result<(), PlanError> {
        if contender.responder.is_none() {
            return Ok(());
        }
        let refuse = |problem: String| {
            let case = format!("contender {}", contender.name);
            Err(PlanError::Case { case, problem: format!("responder: {problem}") })
        };
        if !cfg!(feature = "node") {
            return refuse("it is a part of the node agent: a build with `--features node`".into());
        }
        if self.agent_of(contender) != Who::Process {
            return refuse("it is a part of the node agent; set agent = \"process\"".into());
        }
        #[cfg(feature = "node")]
        if let Some(table) = &contender.responder {
            use seawall_node::agent::config::Responder;
            let read = Responder::deserialize(table.clone());
            let read = read.map_err(|error| error.to_string().trim_end().replace('\n', " "));
            match read.map(|responder| responder.validate()) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return refuse(error.to_string()),
                Err(error) => return refuse(error),
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), PlanError> {
        let refuse = |field: &str, problem: String| Err(PlanError::field(field, problem));
        if !(0.001..=1e6).contains(&self.time_scale) {
            return refuse("time_scale", format!("{}; allowed is 0.001 to 1e6", self.time_scale));
        }
        if !(1..=ROUNDS_MAX).contains(&self.rounds) {
            return refuse("rounds", format!("{}; allowed is 1 to {ROUNDS_MAX}", self.rounds));
        }
        let least = if self.cpu.kind == CpuKind::Quota { UNIT_MILLI_MIN } else { 1 };
        if !(least..=100_000).contains(&self.unit_milli) {
            let problem = format!("{}; allowed is {least} to 100000", self.unit_milli);
            return refuse("unit_milli", problem);
        }
        let speeds = &self.speeds_permille;
        if speeds.is_empty() || speeds[0] == 0 || !speeds.is_sorted_by(|a, b| a < b) {
            let problem = format!("{speeds:?}; allowed are one or more above 0, slowest first");
            return refuse("speeds_permille", problem);
        }
        if self.qos.is_some_and(|qos| qos.is_zero()) {
            return refuse("qos", "0s; allowed is above 0s".into());
        }
        let Calibration { load, factor, time } = self.calibration;
        if !(0.01..=1.0).contains(&load) || !(1.0..=100.0).contains(&factor) || time.is_zero() {
            let problem = "allowed are a load of 0.01 to 1, a factor of 1 to 100, a time above 0s";
            return refuse("calibration", problem.into());
        }
        if !(1..=10_000).contains(&self.load.sessions) {
            return refuse(
                "load.sessions",
                format!("{}; allowed is 1 to 10000", self.load.sessions),
            );
        }
        if self.load.time.is_zero() {
            return refuse("load.time", "0s; allowed is above 0s".into());
        }
        if self.contenders.is_empty() {
            return refuse("contender", "there is none; give at least one".into());
        }
        if let Some(twice) = plan::repeated(self.contenders.iter().map(|one| &one.name)) {
            return refuse("contender.name", format!("{twice} is there twice"));
        }
        let agents = self.contenders.iter().map(|contender| self.agent_of(contender));
        if agents.chain([self.agent]).any(|who| who == Who::Process) && !cfg!(feature = "node") {
            let problem =
                "process takes a build with `--features node`; allowed here: thread, nobody";
            return refuse("agent", problem.into());
        }
        self.cpu.validate().or_else(|error| refuse("cpu", error.to_string()))?;
        self.graph()?;
        self.arrivals(None)?;
        self.contenders.iter().try_for_each(|contender| {
            self.scaling(contender)?;
            self.check_responder(contender)
        })
    }
}

fn parse(text: &str) -> Result<Table, PlanError> {
    let table: Table = text.parse().map_err(|error| PlanError::syntax(&error))?;
    // For messages with line and column. What builds on another plan lacks what stands there, and
    // what others build on may have no graph of its own.
    if !table.contains_key("include") && table.contains_key("graph") {
        let _: Plan = toml::from_str(text).map_err(|error| PlanError::syntax(&error))?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A plan of one contender, with these lines before its load and behind it.
    fn text(before: &str, behind: &str) -> String {
        format!(
            "graph = 'chain'
            units_spare = 4
            {before}
            [load]
            rate = 100
            {behind}
            [[contender]]
            name = 'static'
            scaling.policy = 'static'"
        )
    }

    fn read(before: &str, behind: &str) -> Result<Plan, PlanError> {
        Plan::read(&text(before, behind), &[], &|name| Err(format!("{name} is not there")))
    }

    #[test]
    fn every_plan_of_ours_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/live");
        let open = |name: &str| {
            std::fs::read_to_string(folder.join(name)).map_err(|error| error.to_string())
        };
        for (name, contenders, units) in [
            ("graph-chain.toml", 8, 18),
            ("graph-chain-unbounded.toml", 8, 18),
            ("graph-read-user-timeline.toml", 8, 34),
            ("graph-chain-quota.toml", 8, 18),
            ("graph-responder.toml", 5, 16),
            ("graph-steady.toml", 3, 16),
        ] {
            let plan = Plan::read(&open(name).unwrap(), &[], &open);
            let needs_agent = open(name).unwrap().contains("responder =");
            if needs_agent && !cfg!(feature = "node") {
                assert!(plan.unwrap_err().to_string().contains("--features node"), "{name}");
                continue;
            }
            let plan = plan.unwrap();
            let graph = plan.graph().unwrap();
            assert_eq!((plan.contenders.len(), graph.units()), (contenders, units), "{name}");
            // Below the knee outside of surges, and above it in them.
            let rate: f64 = plan::label(&plan.load.rate).parse().unwrap();
            let unit = f64::from(plan.unit_milli) / 1e3;
            let capacity = graph.capacity().jobs_per_second * unit;
            let is_surge_beyond = |surge: Surge| rate * surge.factor > capacity;
            assert!(rate < 0.85 * capacity, "{name}: {capacity}");
            assert!(plan.load.surge.is_none_or(is_surge_beyond), "{name}: {capacity}");
            assert_eq!(plan.load.surge.is_none(), name.contains("steady"), "{name}");
            let is_unbounded = name.contains("unbounded");
            let pools = graph.services.iter().map(|service| service.pools.len()).sum::<usize>();
            assert_eq!(pools == 0, is_unbounded, "{name}");
        }
    }

    #[test]
    fn the_documentation_shows_a_plan_that_can_be_read() {
        let text = include_str!("../../../../docs/graphs.md");
        let block = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
        let plan = Plan::read(block.unwrap(), &[], &|_| Err(String::new())).unwrap();
        assert_eq!(plan.contenders.len(), 2);
    }

    #[test]
    fn a_plan_changes_its_graph() {
        let graph = read("time_scale = 10\nunits_total = 12\nunits = { ping-4 = 9 }\npool = 7", "");
        let graph = graph.unwrap().graph().unwrap();
        let units: Vec<u32> = graph.services.iter().map(|service| service.units).collect();
        assert_eq!(units, [3, 3, 2, 2, 9]);
        assert_eq!(graph.services[0].pools["ping-1"], 7);
        assert_eq!(graph.mean_work("ping-0"), Duration::from_millis(2));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (before, behind, expected) in [
            ("time_scale = 0", "", "time_scale: 0; allowed"),
            ("units_total = 4", "", "units_total: 4; allowed is 5, one for each"),
            ("units = { ping-9 = 4 }", "", "units: there is no ping-9; allowed: ping-0, ping-1"),
            ("units = { ping-0 = 0 }", "", "graph: service ping-0, units: they are 0"),
            ("pool = 'some'", "", "pool: `some`; allowed is a number, or \"none\""),
            ("pool = 0", "", "graph: service ping-0, pool to ping-1: it has 0"),
            ("rounds = 0", "", "rounds: 0; allowed is 1"),
            ("unit_milli = 0", "", "unit_milli: 0; allowed is 1"),
            ("unit_milli = 10\ncpu.kind = 'quota'", "", "unit_milli: 10; allowed is 20"),
            ("speeds_permille = [2000, 1000]", "", "speeds_permille: [2000, 1000]; allowed"),
            ("qos = '0s'", "", "qos: 0s; allowed is above 0s"),
            ("calibration.load = 0", "", "calibration: allowed are a load of 0.01"),
            ("cpu.quantum = '1us'", "", "cpu: "),
            ("", "sessions = 0", "load.sessions: 0; allowed is 1"),
            ("", "time = '0s'", "load.time: 0s; allowed is above 0s"),
            ("", "surge = { factor = 2, length = '9s', every = '3s' }", "load.surge: "),
            ("", "surges = 3", "unknown field `surges`"),
        ] {
            let error = read(before, behind).unwrap_err().to_string();
            assert!(error.contains(expected), "{before}{behind}: {error}");
        }
        let base = text("", "");
        for (from, to, expected) in [
            ("'chain'", "'tree'", "graph: there is no graph tree; allowed: chain"),
            ("rate = 100", "rate = 'fast'", "load.rate: fast; allowed is 0.1"),
            ("policy = 'static'", "policy = 'magic'", "contender static: scaling: "),
            ("policy = 'static'", "interval = 3", "contender static: scaling: "),
            (
                "[[contender]]",
                "[[contender]]\nresponder = { way = 'loud' }",
                "contender static: responder: ",
            ),
        ] {
            let changed = base.replace(from, to);
            let error = Plan::read(&changed, &[], &|_| Err(String::new())).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        let plan = read("", "").unwrap();
        let error = plan.only(&["escalator".into()]).unwrap_err().to_string();
        assert_eq!(error, "--only: there is no escalator; allowed: static");
    }
}
