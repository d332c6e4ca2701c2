//! The runs of a plan: first at low load, then each contender with fresh services.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use seawall_abi::page::Counters;
use seawall_measure::duration::{micros, scaled};
use seawall_measure::{Graph, Window};

use super::agent::{Agent, InProcess, Nobody, Task};
use super::calibration::Usual;
use super::folder::Folder;
use super::node::Process;
use super::plan::{Contender, Plan, Who};
use super::point::{Expectation, Point, Results, Service};
use super::services::{Services, is_quota};
use super::timeline::{Allocation, Timeline};
use crate::cores::Cores;
use crate::groups::Groups;
use crate::host::Host;
use crate::load::engine::{self, Offer};
use crate::load::workload::Workload;
use crate::pin;
use crate::progress::Progress;

/// Before the calibration counts: connections are made, and caches filled.
const SETTLE: Duration = Duration::from_secs(1);

/// Time since the begin of the load, what services have counted, and what CPU time they have used.
type Seen = (Duration, Vec<Counters>, Option<Duration>);

/// Where and with what all runs of a plan take place.
struct Bench<'a> {
    plan: &'a Plan,
    graph: Graph,
    folder: Folder,
    groups: Option<Arc<Groups>>,
    /// Processors of services and agent.
    cores: Vec<usize>,
    /// That of the load.
    load: usize,
}

/// Measures all contenders, round by round, in turns.
///
/// # Errors
///
/// If a service does not start, or the load cannot be offered.
pub(super) fn all(plan: &Plan) -> Result<Results> {
    let available = pin::available();
    let cores = Cores::keep()?;
    let others: Vec<usize> = available.iter().copied().filter(|&core| core != cores.load).collect();
    let graph = plan.graph()?;
    let groups =
        is_quota(plan).then(|| Groups::without_realtime(graph.services.len())).transpose()?;
    let bench = Bench {
        plan,
        graph,
        folder: Folder::new()?,
        groups: groups.map(Arc::new),
        cores: if others.is_empty() { vec![cores.server] } else { others },
        load: cores.load,
    };
    let rounds = plan.rounds as usize;
    let progress = Progress::of_steps((1 + rounds * plan.contenders.len()) as u64);
    progress.step("low load, to see what is usual".into());
    let (usual, calm) = bench.calibrate()?;
    let qos = plan.qos.unwrap_or_else(|| scaled(calm, plan.calibration.factor));
    let mut points = Vec::new();
    for round in 1..=plan.rounds {
        for turn in 0..plan.contenders.len() {
            // Nobody is always the first.
            let index = (turn + round as usize - 1) % plan.contenders.len();
            let contender = &plan.contenders[index];
            progress.step(format!("round {round}: {}", contender.name));
            let point = bench
                .measure(contender, round, &usual, qos)
                .with_context(|| format!("contender {}", contender.name))?;
            points.push(((index, round), point));
        }
    }
    points.sort_by_key(|(at, _)| *at);
    let expectation = |(service, usual): (&seawall_measure::graph::Service, &Usual)| Expectation {
        service: service.name.clone(),
        exec_ms: micros(usual.expected_exec) / 1e3,
        time_from_start_ms: micros(usual.expected_time_from_start) / 1e3,
    };
    let units = bench.graph.units();
    Ok(Results {
        title: String::new(),
        host: Host::default(),
        notes: cores.note().map(str::to_owned).into_iter().collect(),
        services: bench.graph.services.iter().map(|service| service.name.clone()).collect(),
        usual: bench.graph.services.iter().zip(&usual).map(expectation).collect(),
        calm_ms: micros(calm) / 1e3,
        qos_ms: micros(qos) / 1e3,
        units: (units, units + plan.units_spare),
        points: points.into_iter().map(|(_, point)| point).collect(),
    })
}

impl Bench<'_> {
    /// Services on their own processors: what a process is kept to, it inherits.
    fn services(&self, seed: u64) -> Result<Services> {
        pin::to_cores(&self.cores)?;
        let groups = self.groups.as_deref();
        let started = Services::start(self.plan, &self.graph, self.folder.path(), groups, seed);
        pin::to_core(self.load)?;
        started
    }

    /// What services and jobs take at low load, with the units that they have at first.
    fn calibrate(&self) -> Result<(Vec<Usual>, Duration)> {
        let plan = self.plan;
        let services = self.services(plan.load.seed)?;
        let (process, rates) = plan.arrivals(Some(plan.calibration.load))?;
        let offer = Offer {
            process,
            rates,
            warm_up: SETTLE,
            time: plan.calibration.time,
            ..self.offer(&services, plan.load.seed, Duration::from_secs(1))
        };
        let mut before = None;
        let run = engine::run(&offer, |passed| {
            if passed >= SETTLE && before.is_none() {
                before = services.counters().ok();
            }
        })?;
        let calm = run.summary.total.mean_us.context("no job was answered at low load")?;
        let counted = grown(&before.unwrap_or_default(), &services.counters()?);
        let usual = services
            .iter()
            .zip(&counted)
            .map(|(service, counted)| Usual::of(&service.name, counted, plan.calibration.factor));
        Ok((usual.collect::<Result<_>>()?, Duration::from_secs_f64(calm / 1e6)))
    }

    fn measure(
        &self,
        contender: &Contender,
        round: u32,
        usual: &[Usual],
        qos: Duration,
    ) -> Result<Point> {
        let plan = self.plan;
        let seed = plan.load.seed.wrapping_add(u64::from(round) - 1);
        let services = self.services(seed)?;
        let agent: Box<dyn Agent> = match plan.agent_of(contender) {
            // Its processors are those of the services.
            Who::Process => {
                pin::to_cores(&self.cores)?;
                let (of, place) = ((&services, usual), (seed, self.folder.path()));
                let started = Process::start(plan, contender, of, place, self.groups.as_deref());
                pin::to_core(self.load)?;
                Box::new(started?)
            }
            Who::Thread => {
                let place = (seed, &self.cores[..]);
                let groups = self.groups.clone();
                let scaling = plan.scaling(contender)?;
                Box::new(InProcess::start(Task::new(
                    plan, scaling, &services, usual, place, groups,
                ))?)
            }
            Who::Nobody => Box::new(Nobody),
        };
        let timeline = Timeline::start(&services, plan.unit_milli)?;
        let offer = self.offer(&services, seed, qos);
        let mut seen: [Option<Seen>; 2] = [None, None];
        let run = engine::run(&offer, |passed| {
            if passed >= offer.warm_up {
                let now = services.counters().ok();
                let now = now.map(|counters| (passed, counters, services.cpu_time()));
                seen[1] = now.clone();
                seen[0] = seen[0].take().or(now);
            }
        })?;
        let done = agent.finish()?;
        let start = run.start;
        let window = Window::after_warm_up(start, offer.warm_up, offer.time);
        let (allocations, units_used) = timeline.finish(start, window)?;
        let [first, last] = seen;
        let ((begin, before, cpu_before), (end, after, cpu_after)) =
            first.zip(last).context("the run was too short to look at the services")?;
        let cpus = cpu_before
            .zip(cpu_after)
            .filter(|_| end > begin)
            .map(|(before, after)| after.saturating_sub(before).div_duration_f64(end - begin));
        let violated = run.violated.context("a run with a target has a violation volume")?;
        let from = offer.warm_up.as_secs_f64();
        let counted = grown(&before, &after).into_iter().enumerate();
        Ok(Point {
            contender: contender.name.clone(),
            round,
            valid: run.summary.valid,
            invalid_reason: run.summary.invalid_reason,
            figures: run.summary.total,
            p98_ms: run.latencies.quantile_us(0.98).map(|us| us / 1e3),
            volume: violated.volume,
            units_used,
            cpus,
            agent: done,
            services: counted
                .map(|(index, one)| service(index, &one, &allocations, from))
                .collect(),
            curve: violated.curve,
            allocations,
            measured_from_s: from,
            failure: run.first_failure,
        })
    }

    fn offer(&self, services: &Services, seed: u64, qos: Duration) -> Offer {
        let load = &self.plan.load;
        let (process, rates) = self.plan.arrivals(None).expect("the plan has been checked");
        Offer {
            servers: vec![services.entry],
            client: seawall_rpc::ClientConfig::default(),
            web: None,
            workload: Workload::Method { name: "job", method: seawall_graph::JOB },
            sessions: load.sessions,
            retries: false,
            threads: 1,
            sleep: false,
            process,
            rates,
            warm_up: load.warm_up,
            time: load.time,
            slo: Some(qos),
            deadline: None,
            budget: None,
            algorithm: None,
            seed,
            linger: Some(load.drain),
            violation: Some(self.plan.statistic),
        }
    }
}

/// What counters grew by.
fn grown(before: &[Counters], after: &[Counters]) -> Vec<Counters> {
    let nothing = Counters::default();
    let of = |(index, after): (usize, &Counters)| {
        let before = before.get(index).unwrap_or(&nothing);
        Counters {
            requests: after.requests - before.requests,
            exec_ns: after.exec_ns - before.exec_ns,
            pool_wait_ns: after.pool_wait_ns - before.pool_wait_ns,
            started: after.started - before.started,
            time_from_start_ns: after.time_from_start_ns - before.time_from_start_ns,
            ..*after
        }
    };
    after.iter().enumerate().map(of).collect()
}

fn service(index: usize, counted: &Counters, allocations: &[Allocation], from: f64) -> Service {
    let metric = counted.exec_ns.saturating_sub(counted.pool_wait_ns);
    // What it had when the measured time began counts, too.
    let begin = allocations.iter().rposition(|one| one.at_s <= from).unwrap_or(0);
    let units = allocations[begin..].iter().map(|one| one.units[index]);
    Service {
        requests: counted.requests,
        exec_metric_ms: metric as f64 / counted.requests.max(1) as f64 / 1e6,
        queue_buildup: counted.exec_ns as f64 / metric.max(1) as f64,
        units_max: units.max().unwrap_or(0),
    }
}
