//! Who decides during a run: a policy that reads the services' pages and writes its orders there.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use seawall_abi::clock::monotonic_ns;
use seawall_abi::page::{self, Orders, Reader};
use seawall_control::scaling::{
    self, Change, Container, ContainerId, Counters, Expected, Node, Report, Snapshot,
};
use seawall_measure::duration::scaled;
use seawall_rpc::clock;
use serde::{Deserialize, Serialize};

use super::calibration::Usual;
use super::plan::Plan;
use super::services::{self, Services};
use crate::groups::Groups;
use crate::{child, pin};

/// How long services obey an agent that says nothing more.
const LEASE: Duration = Duration::from_secs(2);

/// What an agent did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    /// Decisions that were carried out.
    pub(super) decisions: u64,
    /// Times at which it looked.
    pub(super) looks: u64,
    /// Mean time from one look to the next, in milliseconds.
    pub(super) interval_ms: f64,
}

/// Who decides. It stops when this is dropped.
pub(super) trait Agent {
    /// Stops it, and gives what it did.
    ///
    /// # Errors
    ///
    /// Why it could not go on.
    fn finish(self: Box<Self>) -> Result<Done>;
}

/// No agent at all.
pub(super) struct Nobody;

impl Agent for Nobody {
    fn finish(self: Box<Self>) -> Result<Done> {
        Ok(Done::default())
    }
}

/// A policy on a thread of this process.
pub(super) struct InProcess {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Result<Done>>>,
}

/// What the thread needs of a run.
pub(super) struct Task {
    config: scaling::Config,
    node: Node,
    speeds: Vec<u32>,
    seed: u64,
    cores: Vec<usize>,
    containers: Vec<Contained>,
    groups: Option<Arc<Groups>>,
}

struct Contained {
    page: PathBuf,
    /// Process whose CPU time counts; with virtual cores, the work that a request is.
    usage: Usage,
    units: u32,
    limit: u32,
    depth: u16,
    usual: Usual,
}

impl Task {
    /// The task of a contender; it runs on these cores.
    pub(super) fn new(
        plan: &Plan,
        config: scaling::Config,
        services: &Services,
        usual: &[Usual],
        (seed, cores): (u64, &[usize]),
        groups: Option<Arc<Groups>>,
    ) -> Self {
        let initial: u32 = services.iter().map(|service| service.units).sum();
        let total = initial + plan.units_spare;
        let containers = services.iter().zip(usual).map(|(service, usual)| Contained {
            page: service.page.clone(),
            usage: if services::is_quota(plan) {
                Usage::Process(service.id())
            } else {
                Usage::Work(service.work)
            },
            units: service.units,
            limit: total,
            depth: service.depth,
            usual: *usual,
        });
        let node = Node {
            units: total,
            unit_milli: plan.unit_milli,
            levels: u16::try_from(plan.speeds_permille.len()).unwrap_or(u16::MAX),
            level_base: 0,
        };
        let (speeds, cores) = (plan.speeds_permille.clone(), cores.to_vec());
        Self { config, node, speeds, seed, cores, containers: containers.collect(), groups }
    }
}

/// What stands for the CPU time of a container.
enum Usage {
    /// That of a process.
    Process(u32),
    /// With virtual cores nobody uses any: requests, each with the mean work of the table.
    Work(Duration),
}

impl Usage {
    fn cpu_time(&self, requests: u64) -> Option<Duration> {
        match self {
            Self::Process(id) => child::cpu_time(*id),
            Self::Work(work) => Some(scaled(*work, requests as f64)),
        }
    }
}

impl InProcess {
    /// Starts to decide.
    ///
    /// # Errors
    ///
    /// If the system has no more threads.
    pub(super) fn start(task: Task) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let thread = thread::Builder::new()
            .name("seawall-agent".into())
            .spawn(move || Loop::open(task)?.run(&until))
            .context("cannot start a thread")?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Agent for InProcess {
    fn finish(mut self: Box<Self>) -> Result<Done> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take().context("an agent ends once")?;
        thread.join().map_err(|_| anyhow!("the agent panicked"))?
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Loop {
    task: Task,
    scaler: scaling::Scaler,
    pages: Vec<Reader>,
    orders: Vec<Orders>,
    /// Of each container, what it has now.
    units: Vec<u32>,
    levels: Vec<u16>,
}

impl Loop {
    fn open(task: Task) -> Result<Self> {
        if !task.cores.is_empty() {
            pin::to_cores(&task.cores)?; // this thread alone
        }
        let scaler = task.config.build(task.seed)?;
        let open = |one: &Contained| {
            Reader::open(&one.page).with_context(|| format!("the page {}", one.page.display()))
        };
        let pages = task.containers.iter().map(open).collect::<Result<_>>()?;
        let units: Vec<u32> = task.containers.iter().map(|one| one.units).collect();
        let order = |one: &Contained| Orders {
            lease_ns: LEASE.as_nanos() as u64,
            granted_milli: one.units * task.node.unit_milli,
            speed_permille: task.speeds[0],
            expected_time_from_start_ns: one.usual.expected_time_from_start.as_nanos() as u64,
            ..Orders::default()
        };
        let orders = task.containers.iter().map(order).collect();
        let levels = vec![0; task.containers.len()];
        Ok(Self { task, scaler, pages, orders, units, levels })
    }

    fn run(mut self, stop: &AtomicBool) -> Result<Done> {
        let mut done = Done::default();
        let begun = clock::now();
        let interval = self.scaler.interval();
        let mut next = begun;
        for index in 0..self.pages.len() {
            self.order(index)?;
        }
        while !stop.load(Relaxed) {
            let snapshot = self.snapshot()?;
            let outcome = self.scaler.on_snapshot(clock::now(), &snapshot);
            done.looks += 1;
            for decision in outcome.decisions {
                let index = decision.container.0 as usize;
                match decision.change {
                    Change::Units { to, .. } => {
                        self.units[index] = to;
                        self.orders[index].granted_milli = to * self.task.node.unit_milli;
                        if let Some(groups) = &self.task.groups {
                            services::give(groups.of(index), to, self.task.node.unit_milli)?;
                        }
                    }
                    Change::Level { to, .. } => {
                        self.levels[index] = to;
                        self.orders[index].speed_permille = self.task.speeds[usize::from(to)];
                    }
                    Change::Hint { to, .. } => self.orders[index].hint = to,
                }
                self.order(index)?;
                done.decisions += 1;
            }
            let now = monotonic_ns();
            for page in &self.pages {
                page.beat(now)?;
            }
            next = (next + interval).max(clock::now());
            thread::sleep(next.since(clock::now()));
        }
        let ran = clock::now().since(begun).as_secs_f64();
        done.interval_ms = ran * 1e3 / done.looks.max(1) as f64;
        Ok(done)
    }

    fn snapshot(&self) -> Result<Snapshot> {
        let container = |(index, one): (usize, &Contained)| {
            let counted = self.pages[index].counters()?;
            Ok(Container {
                id: ContainerId(index as u64),
                units: self.units[index],
                floor: one.units,
                limit: one.limit,
                level: self.levels[index],
                hint: self.orders[index].hint,
                depth: one.depth,
                cpu_time: one.usage.cpu_time(counted.requests),
                expected: Expected {
                    exec: Some(one.usual.expected_exec),
                    time_from_start: Some(one.usual.expected_time_from_start),
                },
                report: Report::Counters(counters(counted, monotonic_ns())),
            })
        };
        let containers = self.task.containers.iter().enumerate().map(container);
        Ok(Snapshot { node: self.task.node, containers: containers.collect::<Result<_>>()? })
    }

    fn order(&mut self, index: usize) -> Result<()> {
        self.orders[index].heartbeat_ns = monotonic_ns();
        Ok(self.pages[index].set_orders(&self.orders[index])?)
    }
}

/// The page's counters, as policies know them.
fn counters(of: page::Counters, now_ns: u64) -> Counters {
    Counters {
        requests: of.requests,
        in_flight: of.in_flight,
        exec_ns: of.exec_ns,
        pool_wait_ns: of.pool_wait_ns,
        started: of.started,
        time_from_start_ns: of.time_from_start_ns,
        upstream_exec_ns: of.upstream_exec_ns,
        hinted: of.hinted,
        shed: of.shed,
        waiting: of.waiting,
        waiting_ns: of.waiting_ns(now_ns),
    }
}
