//! The server: its parts, its start and its end.

mod accept;
mod admission;
mod books;
mod classes;
mod close;
mod config;
mod connection;
mod context;
mod guardian;
mod guest;
mod halter;
mod job;
mod listener;
mod page;
mod router;
mod run_queue;
mod session;
mod spill;
mod stats;
mod threads;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seawall_abi::page::Publisher;
use seawall_control::bounce::Bouncer;
use seawall_control::config::ConfigError;
use seawall_control::controller::{Algorithm, Signal};
use seawall_control::predict::starvation::CpuDelay;
use seawall_control::request::Stage;
use seawall_control::wire;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

pub use classes::ClassStats;
pub use config::{Limits, ServerConfig, Threads, TlsConfig};
pub use context::{Context, Working};
pub use guardian::{
    CpuPredictor, GuardianConfig, GuardianWay, KernelError, RealtimeError, install_bouncer,
    install_cpu_delay,
};
pub use guest::{Guest, GuestListener, GuestReply, Guests};
pub use halter::Halter;
pub use page::PageConfig;
pub use router::Router;
pub use spill::{SpillAt, SpillConfig, SpillTls};
pub use stats::Stats;
pub use worker::Worker;

use crate::clock;
use crate::tls::{Acceptor, TlsError};
use admission::Admission;
use guardian::{Guardian, kernel};
use page::Page;
use run_queue::RunQueue;
use spill::Spill;
use stats::Counters;
use threads::Stop;

/// How often connections are checked for deadlines that have passed.
const SWEEP: Duration = Duration::from_millis(250);

/// The controller's timer is looked at this often while it has nothing to do, and no more often
/// than [`TICK`] while it has: tokio's timers are no finer, and completions drive it under load.
const IDLE_TICK: Duration = Duration::from_millis(50);
const TICK: Duration = Duration::from_millis(1);

/// A server that runs on threads of its own. Dropping it stops it at once;
/// [`shutdown`](Self::shutdown) answers first what it has accepted.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    threads: Option<threads::Threads>,
    address: SocketAddr,
}

/// Why a server did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Certificates or keys cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The system gives no more threads or descriptors.
    #[error("cannot start threads: {0}")]
    Threads(#[from] io::Error),
    /// The guardian is wanted, and not permitted.
    #[error(transparent)]
    Guardian(#[from] RealtimeError),
    /// The kernel is to be the guardian, or to tell of its run queues, and cannot.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// What all threads and connections of a server share.
#[derive(Debug)]
struct Shared {
    config: ServerConfig,
    algorithm: &'static str,
    admission: Arc<Admission>,
    queue: Arc<RunQueue>,
    router: Router,
    counters: Counters,
    /// Who is handed what is refused, if anybody is.
    spill: Option<Arc<Spill>>,
    /// Who answers while the workers do not get the CPU; nobody without real-time priority.
    guardian: OnceLock<Arc<Guardian>>,
    /// Who answers before calls are read, if that was asked for.
    bouncer: Option<Arc<dyn Bouncer>>,
    /// What the node agent knows of it; nothing if it is not asked for, or cannot be made.
    page: OnceLock<Arc<Page>>,
    stop: Stop,
}

impl Server {
    /// Starts a server for the methods of `router`.
    ///
    /// # Errors
    ///
    /// Names what is wrong with the configuration, the certificates or the address.
    pub fn start(config: ServerConfig, router: Router) -> Result<Self, StartError> {
        let algorithm = config.admission.build_with(seawall_measure::utility::read)?;
        Self::start_with(config, algorithm, router)
    }

    /// Starts a server under an algorithm of the program's own, in place of the one that the
    /// configuration names: such as Svalinn with its own
    /// [`Utility`](seawall_control::utility::Utility).
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with(
        config: ServerConfig,
        algorithm: Arc<dyn Algorithm>,
        router: Router,
    ) -> Result<Self, StartError> {
        config.validate()?;
        let acceptor = config.tls.as_ref().map(Acceptor::new).transpose()?;
        let spill = Spill::new(&config.spill, config.rtt)?;
        let by_kernel = config.guardian.way == GuardianWay::Kernel;
        let bouncer = by_kernel.then(kernel::bouncer).transpose()?;
        let queue = Arc::new(RunQueue::default());
        let shared = Arc::new(Shared {
            algorithm: algorithm.name(),
            admission: Arc::new(Admission::new(&config, algorithm, queue.clone())),
            queue,
            router,
            counters: Counters::default(),
            spill,
            guardian: OnceLock::new(),
            bouncer,
            page: OnceLock::new(),
            stop: Stop::default(),
            config,
        });
        let threads = threads::Threads::start(&shared).inspect_err(|_| {
            shared.stop.stop(); // those that did start
        })?;
        let mut server = Self { address: shared.config.listen, shared, threads: Some(threads) };
        let (listener, address) = server.bind()?;
        server.address = address;
        // A session that opens without a page counts nowhere: there is one before the first.
        if let Some(page) = Page::publish(&server.shared.config, address.port()) {
            _ = server.shared.page.set(page);
        }
        listener::start(server.shared.clone(), listener, server.reactors(), acceptor);
        server.keep_time();
        tracing::info!(address = %server.address, algorithm = server.shared.algorithm, "listening");
        Ok(server)
    }

    /// Where it listens: the configured address, with the port that the system chose if that was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What happened so far.
    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot(&self.shared)
    }

    /// The page of metrics and orders that it shares with the node agent, if it has one.
    pub fn page(&self) -> Option<&Arc<Publisher>> {
        self.shared.page.get().map(|page| page.publisher())
    }

    /// Tells the controller what the program has measured, such as power or memory bandwidth, for
    /// utilities that value them. The server measures queueing delays by itself.
    pub fn signal(&self, signal: Signal) {
        self.shared.admission.signal(signal);
    }

    /// True if a guardian answers while the workers do not get the CPU.
    pub fn is_guarded(&self) -> bool {
        self.shared.guardian.get().is_some() || self.shared.bouncer.is_some()
    }

    /// Has the patrol, if there is one, predict waits for a CPU by `predictor`, in place of what
    /// they were before.
    pub fn predict_cpu_delay_by(&self, predictor: Box<dyn CpuDelay>) {
        if let Some(guardian) = self.shared.guardian.get() {
            guardian.predict_by(predictor);
        }
    }

    /// A way into the same run queue for clients of another protocol, which know nothing of
    /// credits.
    pub fn guests(&self) -> Guests {
        let reactors = self.threads.as_ref().map(|threads| threads.reactors.clone());
        Guests::new(self.shared.clone(), reactors.unwrap_or_default())
    }

    /// What tells the server that its workers stand still.
    pub fn halter(&self) -> Halter {
        Halter::new(&self.shared)
    }

    /// What makes a thread of the application a worker, where the configuration says that
    /// `threads.outside` run the handlers.
    pub fn worker(&self) -> Worker {
        Worker::new(self.shared.clone(), self.reactors()[0].clone())
    }

    /// Stops: lets nothing new in, tells all clients to leave, and waits up to `grace` for what was
    /// accepted to be answered and for the clients to go. What is left then is cancelled.
    pub fn shutdown(self, grace: Duration) {
        let until = clock::now() + grace;
        self.shared.admission.drain();
        while clock::now() < until && self.shared.admission.session_count() > 0 {
            std::thread::sleep(TICK);
        }
        // Dropping the server stops its threads.
    }

    fn bind(&self) -> Result<(TcpListener, SocketAddr), StartError> {
        let address = self.shared.config.listen;
        accept::bind(address, self.reactors())
            .map_err(|source| StartError::Listen { address, source })
    }

    fn reactors(&self) -> &[Handle] {
        &self.threads.as_ref().expect("threads run until the server ends").reactors
    }

    /// Starts what has to happen now and then.
    fn keep_time(&self) {
        let reactor = &self.reactors()[0];
        if let Some(spill) = self.shared.spill.clone() {
            reactor.spawn(async move { spill.connect() });
        }
        let shared = self.shared.clone();
        reactor.spawn(async move {
            let mut bounced = 0;
            loop {
                let now = clock::now();
                if let Some(page) = shared.page.get() {
                    page.beat(now);
                    let all = shared.bouncer.as_ref().map_or(0, |bouncer| bouncer.refused());
                    page.on_bounced(all.saturating_sub(bounced));
                    bounced = all;
                }
                let next = shared.admission.tick().map_or(now + IDLE_TICK, |at| at.max(now + TICK));
                tokio::time::sleep_until(clock::to_tokio(next.min(now + IDLE_TICK))).await;
            }
        });
        let shared = self.shared.clone();
        reactor.spawn(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                shared.admission.sweep();
            }
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.stop();
        if let Some(threads) = self.threads.take() {
            threads.join();
        }
        self.shared.queue.close();
    }
}

impl Shared {
    /// The thread that calls runs handlers.
    fn enlist(&self) {
        let Some(bouncer) = &self.bouncer else { return };
        if let Err(error) = bouncer.enlist() {
            tracing::error!(%error, "the kernel does not watch a worker");
        }
    }

    /// The guardian, if there is one, hears of what comes on this connection.
    fn watch(&self, tcp: &TcpStream) {
        if let Some(guardian) = self.guardian.get() {
            guardian.watch(tcp);
        }
    }

    /// What a client must know.
    fn settings(&self) -> wire::Settings {
        let own = [
            Stage::CLIENT,
            Stage::ADMISSION,
            Stage::SOCKET,
            Stage::RUN_QUEUE,
            Stage::HANDLER,
            Stage::MEMORY,
            Stage::CPU,
            Stage::CONNECTION,
            Stage::PAUSE,
        ];
        let name = |stage: Stage| (stage, stage.name().unwrap_or_default().to_owned());
        wire::Settings {
            algorithm: self.algorithm.to_owned(),
            body_max: self.config.limits.body_bytes,
            outstanding_max: self.config.limits.outstanding,
            slo: self.config.slo,
            stages: own.into_iter().map(name).chain(self.router.stages()).collect(),
        }
    }
}
