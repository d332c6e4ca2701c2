//! The services of a graph, each in a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use seawall_abi::page::{Counters, Reader};
use seawall_graph::cpu::CpuKind;
use seawall_measure::Graph;

use super::plan::Plan;
use crate::child::Server;
use crate::groups::{Group, Groups};

/// How long a service's page may take to appear, and how often it is looked for.
const PATIENCE: Duration = Duration::from_secs(5);
const TRY: Duration = Duration::from_millis(5);

/// Period over which the quota of a service counts: as short as can be if a unit is to be a
/// fiftieth of a CPU, because the kernel knows no quota below a millisecond.
const PERIOD: Duration = Duration::from_millis(50);

/// Running services. They end when this is dropped, and when this process dies.
pub(super) struct Services {
    services: Vec<Running>,
    /// Where jobs are sent.
    pub(super) entry: SocketAddr,
}

/// One of them.
pub(super) struct Running {
    pub(super) name: String,
    pub(super) page: PathBuf,
    pub(super) units: u32,
    pub(super) depth: u16,
    /// Services that it calls itself.
    pub(super) callees: Vec<String>,
    /// Mean work of a request.
    pub(super) work: Duration,
    server: Server,
}

impl Services {
    /// Starts them all, those that are called before those that call.
    ///
    /// # Errors
    ///
    /// If one does not start; what it has to say stands on standard error.
    pub(super) fn start(
        plan: &Plan,
        graph: &Graph,
        folder: &Path,
        groups: Option<&Groups>,
        seed: u64,
    ) -> Result<Self> {
        let table = folder.join("graph.toml");
        std::fs::write(&table, toml::to_string(graph)?)
            .with_context(|| format!("cannot write {}", table.display()))?;
        let pages = folder.join("pages");
        std::fs::create_dir_all(&pages)?;
        let mut order: Vec<usize> = (0..graph.services.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(graph.depth(&graph.services[index].name)));
        let mut running: Vec<Option<Running>> = graph.services.iter().map(|_| None).collect();
        for index in order {
            let service = &graph.services[index];
            let mut options = vec![
                "graph".to_owned(),
                "serve".into(),
                table.to_string_lossy().into_owned(),
                service.name.clone(),
                format!("--pages={}", pages.display()),
                format!("--unit-milli={}", plan.unit_milli),
                format!("--seed={seed}"),
                format!(
                    "--quantum={}",
                    seawall_control::config::duration::format(plan.cpu.quantum)
                ),
                format!("--cpu={}", if is_quota(plan) { "quota" } else { "virtual" }),
                "--until-stdin-ends".into(),
            ];
            if plan.real_stores && service.store.is_some() {
                options.push("--real-store".into());
            }
            for callee in service.callees() {
                let callee = running.iter().flatten().find(|other| other.name == callee);
                let callee = callee.context("who is called has been started")?;
                options.push(format!("--peer={}={}", callee.name, callee.server.address));
            }
            let server = Server::spawn(options).with_context(|| service.name.clone())?;
            if let Some(groups) = groups {
                groups.of(index).take_in(server.id())?;
                give(groups.of(index), service.units, plan.unit_milli)?;
            }
            let page = pages.join(format!("{}.{}.page", service.name, server.id()));
            running[index] = Some(Running {
                name: service.name.clone(),
                page,
                units: service.units,
                work: service.mean_work(),
                callees: service.callees().into_iter().map(str::to_owned).collect(),
                depth: u16::try_from(graph.depth(&service.name)).unwrap_or(u16::MAX),
                server,
            });
        }
        let services: Vec<Running> = running.into_iter().flatten().collect();
        let entry = services.first().context("a graph has services")?.server.address;
        let all = Self { services, entry };
        all.iter().try_for_each(Running::wait)?;
        Ok(all)
    }

    /// In the table's order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Running> {
        self.services.iter()
    }

    /// What they have counted.
    pub(super) fn counters(&self) -> Result<Vec<Counters>> {
        self.iter().map(|service| Ok(Reader::open(&service.page)?.counters()?)).collect()
    }

    /// CPU time that all of them have used.
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.iter().map(|service| service.server.cpu_time()).sum()
    }
}

impl Running {
    /// The number of its process.
    pub(super) fn id(&self) -> u32 {
        self.server.id()
    }

    fn wait(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while Reader::open(&self.page).is_err() {
            if Instant::now() > until {
                bail!("{} has no page {}", self.name, self.page.display());
            }
            thread::sleep(TRY);
        }
        Ok(())
    }
}

pub(super) fn is_quota(plan: &Plan) -> bool {
    plan.cpu.kind == CpuKind::Quota
}

/// Gives a group so many units.
pub(super) fn give(group: &Group, units: u32, unit_milli: u32) -> Result<()> {
    group.limit(f64::from(units) * f64::from(unit_milli) / 1e3, PERIOD)
}
