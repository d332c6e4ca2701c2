//! `seawall serve`: a server in this process, until it is told to stop.

mod burn;
mod metrics;
mod synthetic;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use seawall_control::config::duration;
use seawall_kv::server::{KvConfig, KvServer};
use seawall_rpc::{Server, ServerConfig, Stats};
use serde::{Deserialize, Serialize};
use toml::Value;

use crate::options::{Sources, text};
use crate::pin;

pub(crate) use synthetic::{NULL, WORK};

/// How long a server that is told to stop may take to answer what it has accepted.
const GRACE: Duration = Duration::from_secs(5);

/// Options of `seawall serve`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    service: Service,

    #[command(flatten)]
    sources: Sources,

    /// Where to listen for the native protocol [default: 127.0.0.1:7117]
    #[arg(long, global = true, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// How requests are admitted: none, aimd or breakwater [default: breakwater]
    #[arg(long, global = true, value_name = "NAME")]
    algorithm: Option<String>,

    /// Latency that counts as good, client to client [default: 2ms]
    #[arg(long, global = true, value_name = "DURATION")]
    slo: Option<String>,

    /// Serve Prometheus metrics here, such as 127.0.0.1:9117
    #[arg(long, global = true, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,

    /// Keep the server on this core, with one worker
    #[arg(long, global = true, value_name = "CORE")]
    pin: Option<usize>,

    /// Print the configuration that results from file and flags, and do not serve
    #[arg(long, global = true)]
    print_config: bool,

    /// Stop when standard input ends: for a parent process that must not leave servers behind
    #[arg(long, global = true, hide = true)]
    until_stdin_ends: bool,
}

#[derive(Debug, Subcommand)]
enum Service {
    /// Requests that each spend CPU time of a random amount
    Synthetic {
        /// Service time, such as exp:100us, const:10us, bimodal:10us, lognormal:10us:1.5 [default:
        /// exp:100us]
        #[arg(long, value_name = "DISTRIBUTION")]
        service: Option<String>,
    },
    /// An in-memory key-value store
    Kv {
        /// Speak memcached's text protocol here, such as 127.0.0.1:11211
        #[arg(long, value_name = "ADDRESS")]
        memcached: Option<SocketAddr>,
    },
}

/// The configuration file of `seawall serve`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// The server, whatever it serves.
    server: ServerConfig,
    /// `seawall serve synthetic`.
    synthetic: synthetic::Config,
    /// `seawall serve kv`.
    kv: KvTable,
    /// The metrics endpoint.
    metrics: MetricsTable,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct KvTable {
    /// Memory, hash table and item limits.
    store: seawall_kv::Config,
    /// Where to listen for memcached's text protocol; nowhere by default.
    memcached: Option<SocketAddr>,
    /// Commands that one memcached connection may have unanswered.
    pipeline: u32,
    /// Within how long the memory of an expired item becomes free although nobody looks at it.
    #[serde(with = "duration")]
    sweep_period: Duration,
}

impl Default for KvTable {
    fn default() -> Self {
        let KvConfig { store, memcached, pipeline, sweep_period, .. } = KvConfig::default();
        Self { store, memcached, pipeline, sweep_period }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MetricsTable {
    /// Where to serve Prometheus metrics; nowhere by default.
    listen: Option<SocketAddr>,
}

/// What a server says on standard output once it is ready, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// Where it listens for the native protocol.
    pub(crate) address: SocketAddr,
    /// Where it listens for memcached's protocol.
    pub(crate) memcached: Option<SocketAddr>,
}

/// A running service of either kind.
enum Running {
    Synthetic(Server),
    Kv(KvServer),
}

/// Runs `seawall serve`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let config = read(options)?;
    if options.print_config {
        return Ok(write!(std::io::stdout(), "{}", toml::to_string_pretty(&config)?)?);
    }
    if let Some(core) = options.pin {
        pin::to_core(core)?;
    }
    let running = start(&options.service, &config)?;
    if let Some(address) = config.metrics.listen {
        metrics::serve(address)?;
    }
    let ready = running.ready();
    eprintln!("{}", describe(&options.service, &config, &ready));
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&ready)?)?;
    wait(options.until_stdin_ends, &running)?;
    running.shutdown();
    Ok(())
}

fn read(options: &Options) -> Result<Config> {
    let (service, memcached) = match &options.service {
        Service::Synthetic { service } => (service.as_ref(), None),
        Service::Kv { memcached } => (None, memcached.as_ref()),
    };
    let one_worker = options.pin.map(|_| Value::Integer(1));
    options.sources.read(&[
        ("server.listen", text(options.listen.as_ref())),
        ("server.admission.algorithm", text(options.algorithm.as_ref())),
        ("server.slo", text(options.slo.as_ref())),
        ("server.threads.workers", one_worker),
        ("metrics.listen", text(options.metrics.as_ref())),
        ("synthetic.service", text(service)),
        ("kv.memcached", text(memcached)),
    ])
}

fn start(service: &Service, config: &Config) -> Result<Running> {
    match service {
        Service::Synthetic { .. } => {
            let router = synthetic::router(&config.synthetic);
            Ok(Running::Synthetic(Server::start(config.server.clone(), router)?))
        }
        Service::Kv { .. } => {
            let KvTable { store, memcached, pipeline, sweep_period } = config.kv.clone();
            let server = config.server.clone();
            let config = KvConfig { store, server, memcached, pipeline, sweep_period };
            Ok(Running::Kv(KvServer::start(config)?))
        }
    }
}

fn describe(service: &Service, config: &Config, ready: &Ready) -> String {
    let what = match service {
        Service::Synthetic { .. } => format!("synthetic service ({})", config.synthetic.service),
        Service::Kv { .. } => "key-value store".into(),
    };
    let memcached = match ready.memcached {
        Some(address) => format!(" and {address} (memcached)"),
        None => String::new(),
    };
    let slo = duration::format(config.server.slo);
    let algorithm = &config.server.admission.algorithm;
    format!(
        "{what} at {}{memcached}: algorithm {algorithm}, SLO {slo}; Ctrl-C stops it",
        ready.address
    )
}

/// Waits for a signal, or for the end of standard input.
fn wait(until_stdin_ends: bool, running: &Running) -> Result<()> {
    if until_stdin_ends {
        let mut ignored = Vec::new();
        std::io::stdin().read_to_end(&mut ignored).context("waiting for the parent process")?;
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let mut publish = tokio::time::interval(metrics::PERIOD);
        loop {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
                _ = publish.tick() => running.stats().publish(),
            }
        }
    })
}

impl Running {
    fn ready(&self) -> Ready {
        match self {
            Self::Synthetic(server) => Ready { address: server.address(), memcached: None },
            Self::Kv(server) => {
                Ready { address: server.address(), memcached: server.memcached_address() }
            }
        }
    }

    fn stats(&self) -> Stats {
        match self {
            Self::Synthetic(server) => server.stats(),
            Self::Kv(server) => server.stats(),
        }
    }

    fn shutdown(self) {
        match self {
            Self::Synthetic(server) => server.shutdown(GRACE),
            Self::Kv(server) => server.shutdown(GRACE),
        }
    }
}
