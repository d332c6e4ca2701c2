//! One service of a graph.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use seawall_abi::page::{Description, Publisher, Unpublished};
use seawall_control::config::ConfigError;
use seawall_control::time::nanos;
use seawall_control::{Instant, Rng, admission};
use seawall_measure::Graph;
use seawall_measure::graph::Store;
use seawall_rpc::{
    Budget, ClientConfig, Connections, Downstream, GuardianWay, Router, Server, ServerConfig,
};
use thiserror::Error;

use crate::cpu::{Cpu, CpuConfig, Grant};
use crate::steps::Steps;
use crate::store::{StoreClient, StoreError, StoreProcess};

/// The method of all services: a job, or the part of one. Its payload is empty, and so is the
/// reply's.
pub const JOB: u16 = 200;

/// What one unit of CPU is in thousandths: what orders count in.
const UNIT_MILLI: u32 = 1_000;

/// How often a service says how busy its virtual cores were.
const REPORT: Duration = Duration::from_millis(100);

/// One service of a graph.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// The graph.
    pub graph: Graph,
    /// Which of its services.
    pub service: String,
    /// Where the services listen that it calls.
    pub peers: BTreeMap<String, SocketAddr>,
    /// With what it works.
    pub cpu: CpuConfig,
    /// What one unit is in thousandths of a CPU, as the node agent's orders count. Default 1000.
    pub unit_milli: u32,
    /// The folder of its page of metrics. Default: as the server's; without one it has none, and
    /// nobody can order it anything.
    pub pages: Option<PathBuf>,
    /// Start the real store that the table names. Default false: the table's work stands for it.
    pub real_store: bool,
    /// Listener and limits. Default: loopback at any port, no admission control, no budget, and
    /// everybody's start times and hints believed.
    pub server: ServerConfig,
    /// Seed of what is drawn. Services of one seed draw differently.
    pub seed: u64,
}

impl ServiceConfig {
    /// A service that works in virtual cores and has no peers yet.
    pub fn new(graph: Graph, service: impl Into<String>) -> Self {
        let mut server = ServerConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            // Nothing is refused: what waits is what is to be seen.
            admission: admission::Config::named("none"),
            budget: Budget::Off,
            slo: Duration::from_secs(1),
            ..ServerConfig::default()
        };
        server.threads.workers = 1;
        // Nobody is refused, so nobody has to be told in time; and threads of real-time priority
        // are let into no group without a share for them.
        server.guardian.way = GuardianWay::Off;
        server.trust.everybody = true;
        server.limits.outstanding = 1 << 20;
        Self {
            graph,
            service: service.into(),
            peers: BTreeMap::new(),
            cpu: CpuConfig::default(),
            unit_milli: UNIT_MILLI,
            pages: None,
            real_store: false,
            server,
            seed: 1,
        }
    }
}

/// Why a service did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The graph has no such service.
    #[error("graph {graph} has no service {service}; it has {}", .known.join(", "))]
    Unknown {
        /// The graph.
        graph: String,
        /// What was asked for.
        service: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Nobody said where a service is that it calls.
    #[error("{service} calls {callee}, and nobody said where that listens")]
    Peer {
        /// Who calls.
        service: String,
        /// Whom.
        callee: String,
    },
    /// The system gives no more threads, or the store does not start.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It has no page.
    #[error(transparent)]
    Page(#[from] Unpublished),
    /// The server did not start.
    #[error(transparent)]
    Server(#[from] seawall_rpc::StartError),
}

/// A running service. It ends when this is dropped.
#[derive(Debug)]
pub struct Service {
    server: Server,
    _store: Option<StoreProcess>,
}

impl Service {
    /// Starts a service on threads of its own.
    ///
    /// # Errors
    ///
    /// Names what is wrong with the configuration, or what the system says.
    pub fn start(config: &ServiceConfig) -> Result<Self, StartError> {
        config.cpu.validate()?;
        ConfigError::check_range("unit_milli", config.unit_milli, 1..=1_000_000)?;
        let table = config.graph.service(&config.service).ok_or_else(|| StartError::Unknown {
            graph: config.graph.name.clone(),
            service: config.service.clone(),
            known: config.graph.services.iter().map(|service| service.name.clone()).collect(),
        })?;
        // The thread of virtual cores may end somewhat later than the server, whose page it is.
        let page: Arc<OnceLock<Weak<Publisher>>> = Arc::default();
        let (orders, units, unit_milli) = (page.clone(), table.units, config.unit_milli);
        let granted = move |now: Instant| {
            grant(orders.get().and_then(Weak::upgrade).as_deref(), now, units, unit_milli)
        };
        let link = |callee: &str| {
            let address = config.peers.get(callee).ok_or_else(|| StartError::Peer {
                service: config.service.clone(),
                callee: callee.into(),
            })?;
            let connections = match table.pools.get(callee) {
                Some(size) => Connections::Pool(*size),
                None => Connections::Shared,
            };
            let client = ClientConfig { name: config.service.clone(), ..ClientConfig::default() };
            let link = Downstream::new(callee, [*address], connections, client);
            Ok::<_, StartError>((callee.to_owned(), link))
        };
        let (process, store) = match table.store.filter(|_| config.real_store) {
            None => (None, None),
            Some(store) => {
                let (process, client) = start_store(store)?;
                (Some(process), Some(client))
            }
        };
        let index = config.graph.services.iter().position(|other| other.name == table.name);
        let seed = config.seed.wrapping_add((index.unwrap_or(0) as u64) << 32);
        let steps = Arc::new(Steps {
            steps: table.steps.clone(),
            cpu: Cpu::start(config.cpu, Arc::new(granted))?,
            links: table.callees().into_iter().map(link).collect::<Result<_, _>>()?,
            store,
            rng: Mutex::new(Rng::new(seed)),
        });
        let at_work = Arc::downgrade(&steps);
        let router = Router::new().method(JOB, "job", move |ctx, _| {
            let steps = steps.clone();
            async move { steps.serve(&ctx).await.map(|()| Bytes::new()) }
        });
        let mut server = config.server.clone();
        server.page.service = Some(config.service.clone());
        if let Some(folder) = &config.pages {
            // A server does without a page that cannot be made. A graph is nothing without them.
            Publisher::create(folder, &Description::of_this_process(&config.service, 0)?)?;
            server.page.folder = Some(folder.clone());
        }
        let server = Server::start(server, router)?;
        if let Some(publisher) = server.page() {
            _ = page.set(Arc::downgrade(publisher));
            report_occupied(Arc::downgrade(publisher), at_work)?;
        }
        Ok(Self { server, _store: process })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The file of its page, if it has one.
    pub fn page(&self) -> Option<&std::path::Path> {
        self.server.page().map(|page| page.path())
    }
}

/// What virtual cores are worth: as ordered, or as the table says.
fn grant(page: Option<&Publisher>, now: Instant, units: u32, unit_milli: u32) -> Grant {
    let Some(page) = page else { return Grant::slots(units) };
    let now = now.as_nanos();
    let slots = match page.orders().standing(now).granted_milli {
        0 => units,
        granted => (granted / unit_milli).max(1),
    };
    Grant { slots, speed_permille: page.speed(now) }
}

/// Says how busy virtual cores were, for as long as the service has its page.
fn report_occupied(page: Weak<Publisher>, steps: Weak<Steps>) -> io::Result<()> {
    thread::Builder::new().name("seawall-busy".into()).spawn(move || {
        while let (Some(page), Some(steps)) = (page.upgrade(), steps.upgrade()) {
            let Some(occupied) = steps.cpu.occupied() else { return };
            page.set_cpu_time(nanos(occupied));
            drop((page, steps));
            thread::sleep(REPORT);
        }
    })?;
    Ok(())
}

/// Starts a store with something in it.
fn start_store(store: Store) -> Result<(StoreProcess, StoreClient), StartError> {
    let process = StoreProcess::start(store)?;
    // Its connections live in a runtime of their own, and end with it. The thread's own may be one
    // that must not be blocked on.
    let address = process.address();
    thread::scope(|scope| {
        let fill = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(StoreClient::new(store, address).fill()).map_err(StartError::from)
        });
        fill.join().map_err(|_| io::Error::other("filling the store panicked"))?
    })?;
    Ok((process, StoreClient::new(store, address)))
}
