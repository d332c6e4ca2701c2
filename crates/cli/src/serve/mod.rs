//! `seawall serve`: a server in this process, until it is told to stop.

mod config;
mod machine;
pub(crate) mod metrics;
mod print;
mod requests;
mod running;
mod stages;
mod stop;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use seawall_control::admission;
use seawall_control::config::duration;
use seawall_control::predict::lock::LockKind;
use seawall_control::predict::memory::MemoryPolicy;
use seawall_lab::child::Ready;
use seawall_lab::synthetic;
use seawall_measure::{Paths, ServiceTime};
use seawall_sync::contention;
use toml::Value;

use self::metrics::{Forgets, Published, Recording};
use crate::descriptors;
use crate::live::{self, About, Hosts, Live, View};
use crate::options::{Settings, Sources, text, texts};
use crate::{output, pin};
use machine::Machine;
use running::Running;
pub(crate) use stop::{Stop, stdin_end};

pub(crate) use config::Config;
pub(crate) use stages::{Forecast, Stages};

/// How long a server that is told to stop may take to answer what it has accepted.
const GRACE: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  seawall serve synthetic --service exp:100us --slo 2ms
  seawall serve kv --memcached 127.0.0.1:11211 --metrics 127.0.0.1:9117
  seawall serve kv --print-config > seawall.toml    every option, as a file ...
  seawall serve kv --config seawall.toml            ... to edit and to use

Once it is ready, the server prints its addresses as one line of JSON. Ctrl-C or SIGTERM stops it: \
what it has accepted is answered first. What became of the requests of each class is listed then, \
and locks and other stages at which they had to wait, the most contended first.";

const SYNTHETIC_EXAMPLES: &str = "\
Examples:
  seawall serve synthetic --service bimodal:10us --slo 500us
  seawall serve synthetic --algorithm none --listen 127.0.0.1:7118
  seawall serve synthetic --spill 127.0.0.1:7118    hand what is refused to that server
  seawall serve synthetic --paths two:0.2           a fifth needs one lock, the rest another
  seawall serve synthetic --service const:0us --wait const:2ms --paths hot:0.5 --locks plain
  seawall serve synthetic --service const:0us --block const:2ms --slo 20ms    as in the demo
  seawall serve synthetic --set server.admission.breakwater.beta=0.04
  seawall load 127.0.0.1:7117 --rate 20k            then offer it a load";

const KV_EXAMPLES: &str = "\
Examples:
  seawall serve kv --memcached 127.0.0.1:11211      also for memcached's clients
  seawall serve kv --set kv.store.memory_limit_mib=1024
  seawall serve kv --locks plain --set kv.store.hash_power=17
  seawall serve kv --semaphore try --set kv.store.item_bytes_max=1300000    for --mix svalinn
  seawall load 127.0.0.1:7117 --workload kv         then offer it a load";

#[cfg(feature = "rocks")]
const ROCKS_EXAMPLES: &str = "\
Examples:
  seawall serve rocks store --slo 10ms              what `seawall-rocks build store` built
  seawall serve rocks store --semaphore try --set rocks.store.send_values=false
  seawall load 127.0.0.1:7117 --workload rocks --large-share 0.2    then offer it a load";

#[cfg(feature = "columns")]
const COLUMNS_EXAMPLES: &str = "\
Examples:
  seawall serve columns series.arrow --slo 10ms     what `seawall-columns build` made
  seawall serve columns series.arrow --semaphore try
  seawall load 127.0.0.1:7117 --workload columns --large-share 0.01    then offer it a load";

#[cfg(feature = "search")]
const SEARCH_EXAMPLES: &str = "\
Examples:
  seawall serve search corpus --slo 20ms            what `seawall-search build corpus` built
  seawall serve search corpus --set search.engine.locks=plain
  seawall load 127.0.0.1:7117 --workload search --words corpus/words.tsv    then offer it a load";

/// Options of `seawall serve`.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    subcommand_value_name = "SERVICE",
    subcommand_help_heading = "Services",
)]
pub(crate) struct Options {
    #[command(subcommand)]
    service: Service,

    #[command(flatten)]
    sources: Sources,

    /// Where to listen for the native protocol; port 0 lets the system choose [default:
    /// 127.0.0.1:7117]
    #[arg(long, global = true, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// How requests are admitted [default: breakwater]
    #[arg(long, global = true, value_name = "NAME",
        value_parser = PossibleValuesParser::new(admission::NAMES))]
    algorithm: Option<String>,

    /// Latency that counts as good, client to client [default: 2ms]
    #[arg(long, global = true, value_name = "DURATION")]
    slo: Option<duration::Text>,

    /// How often clients may send a request until it is served; the target delay follows from it
    /// [default: 1]
    #[arg(long, global = true, value_name = "NUMBER")]
    attempts: Option<u8>,

    /// Within how long this server alone serves or refuses [default: the SLO over the attempts]
    #[arg(long, global = true, value_name = "DURATION")]
    target_delay: Option<duration::Text>,

    /// Hand what is refused to this replica of the service, if that has room; may be given again
    /// [default: nobody]
    #[arg(long, global = true, value_name = "ADDRESS")]
    spill: Vec<SocketAddr>,

    /// Serve Prometheus metrics here, and a page that draws them, such as 127.0.0.1:9117 [default:
    /// nowhere]
    #[arg(long, global = true, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,

    /// Answer there also to this host name, or to all (*); may be given again [default: loopback
    /// names, and addresses in digits]
    #[arg(long, global = true, value_name = "NAME")]
    allow_host: Vec<String>,

    /// Send metrics to this OpenTelemetry collector, too, such as http://127.0.0.1:4318 [default:
    /// $OTEL_EXPORTER_OTLP_ENDPOINT, or nowhere]
    #[cfg(feature = "otel")]
    #[arg(long, global = true, value_name = "URL")]
    otlp_endpoint: Option<String>,

    /// Share a page of metrics with the node agent in this folder [default: $SEAWALL_PAGES, or
    /// none]
    #[arg(long, global = true, value_name = "DIR")]
    pages: Option<PathBuf>,

    /// Keep the server on this core (they count from 0), with one worker
    #[arg(long, global = true, value_name = "CORE")]
    pin: Option<usize>,

    /// Print the configuration that results from file and flags, with what is not set as comments,
    /// and do not serve
    #[arg(long, global = true)]
    print_config: bool,

    /// Print the requests of each class and the contended stages as one line of JSON at the end
    #[arg(long, global = true)]
    json: bool,

    /// Stop when standard input ends, too: for a parent process that must not leave servers behind
    #[arg(long, global = true)]
    until_stdin_ends: bool,
}

#[derive(Debug, Subcommand)]
enum Service {
    /// Requests that each spend CPU time of a random amount
    #[command(after_help = SYNTHETIC_EXAMPLES)]
    Synthetic {
        /// Service time, such as exp:100us, const:10us, bimodal:10us, lognormal:10us:1.5 [default:
        /// exp:100us]
        #[arg(long, value_name = "DISTRIBUTION")]
        service: Option<ServiceTime>,

        /// What a request waits for then, off the CPU, in the same form [default: nothing]
        #[arg(long, value_name = "DISTRIBUTION")]
        wait: Option<ServiceTime>,

        /// How long a request then blocks its worker off the CPU, in the same form; it waits for
        /// its lock on its worker, too [default: not at all]
        #[arg(long, value_name = "DISTRIBUTION")]
        block: Option<ServiceTime>,

        /// Locks that requests hold all the while: none, two:SHARE (that part needs one lock, the
        /// rest another), hot:SHARE (that part needs a lock) [default: none]
        #[arg(long, value_name = "PATHS")]
        paths: Option<Paths>,

        /// What a request does that comes to a lock: it waits (plain), is refused (try), or is
        /// refused if it cannot wait for as long as is predicted by the oldest-waiter, the
        /// queued-work, or the larger of both [default: larger]
        #[arg(long, value_name = "KIND", value_parser = lock_kinds())]
        locks: Option<String>,

        #[command(flatten)]
        settings: Settings,
    },
    /// RocksDB with small and large values
    #[cfg(feature = "rocks")]
    #[command(after_help = ROCKS_EXAMPLES)]
    Rocks {
        /// The folder with the store [default: the current folder]
        folder: Option<String>,

        /// What a request does that is about to copy a large value: it does so (none), is refused
        /// if too many do (try), or is refused if it cannot wait (wait) [default: none]
        #[arg(long, value_name = "POLICY", value_parser = semaphores())]
        semaphore: Option<String>,

        #[command(flatten)]
        settings: Settings,
    },
    /// A column store of prices
    #[cfg(feature = "columns")]
    #[command(after_help = COLUMNS_EXAMPLES)]
    Columns {
        /// The file with the series [default: series.arrow]
        file: Option<String>,

        /// What a request does that is about to write a column: it does so (none), is refused if
        /// too many do (try), or is refused if it cannot wait (wait) [default: none]
        #[arg(long, value_name = "POLICY", value_parser = semaphores())]
        semaphore: Option<String>,

        #[command(flatten)]
        settings: Settings,
    },
    /// Full-text search
    #[cfg(feature = "search")]
    #[command(after_help = SEARCH_EXAMPLES)]
    Search {
        /// The folder with the index [default: the current folder]
        folder: Option<String>,

        #[command(flatten)]
        settings: Settings,
    },
    /// An in-memory key-value store
    #[command(after_help = KV_EXAMPLES)]
    Kv {
        /// Speak memcached's text protocol here, such as 127.0.0.1:11211 [default: nowhere]
        #[arg(long, value_name = "ADDRESS")]
        memcached: Option<SocketAddr>,

        /// What a request does that comes to an item lock or the slab lock: it waits (plain), is
        /// refused (try), or is refused if it cannot wait for as long as is predicted by the
        /// oldest-waiter, the queued-work, or the larger of both [default: larger]
        #[arg(long, value_name = "KIND", value_parser = lock_kinds())]
        locks: Option<String>,

        /// What a lookup does that is about to copy a large value: it does so (none), is refused
        /// if too many do (try), or is refused if it cannot wait (wait) [default: none]
        #[arg(long, value_name = "POLICY", value_parser = semaphores())]
        semaphore: Option<String>,

        #[command(flatten)]
        settings: Settings,
    },
}

/// Runs `seawall serve`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let config = read(options)?;
    if options.print_config {
        return output::print(&print::file(&config)?);
    }
    if let Some(core) = options.pin {
        pin::to_core(core)?;
    }
    config.check_files()?;
    let (allowed, sessions) = (descriptors::raise(), config.server.limits.sessions);
    if allowed < u64::from(sessions) {
        tracing::info!(allowed, sessions, "fewer open files allowed than server.limits.sessions");
    }
    let mut machine = Machine::start(&config, config.needs(&options.service))?;
    // Before anything is counted.
    let recording = Recording::start(
        config.metrics.listen.is_some(),
        options.otlp_endpoint(),
        Forgets::Nothing,
    )?;
    let is_recorded = recording.handle.is_some();
    let running = Running::start(&options.service, &config).map_err(advised)?;
    let (publisher, asks) = live::asks();
    let about = describe(&options.service, &config, &running.ready(None));
    let recorded = recording.handle.clone();
    let source = recorded.map(|handle| live::Source::recorder(handle, Some(publisher)));
    let shown = source.map(|source| show(&config, source, &about)).transpose()?.flatten();
    let stop = Stop::listen(options.until_stdin_ends)?;
    let ready = running.ready(shown.as_ref().map(Live::address));
    // A parent that waits for the end of our input reads the line of JSON, not this.
    if !options.until_stdin_ends {
        eprintln!("{about}; Ctrl-C stops it");
        shown.iter().for_each(|live| eprintln!("live page: {}", live.url()));
        machine.remarks().iter().for_each(|remark| eprintln!("{remark}"));
    }
    output::print(&(serde_json::to_string(&ready)? + "\n"))?;
    let mut published = Published::default();
    machine.while_told(&running, |gauges| {
        stop.wait_and_publish(metrics::PERIOD, asks, || {
            if is_recorded {
                published.update(running.stats());
                gauges.publish();
            }
        });
    });
    let contended = contention::report(); // stages are known while they live
    let stats = running.stats();
    if is_recorded {
        published.update(stats.clone()); // for the last export
    }
    drop(recording);
    running.shutdown(GRACE);
    if options.json {
        return output::print(&stages::json(&contended, requests::classes(&stats))?);
    }
    if options.until_stdin_ends {
        return Ok(());
    }
    let requests = requests::table(&stats);
    if !requests.is_empty() {
        eprintln!("requests:\n{requests}");
    }
    if !contended.stages.is_empty() {
        eprintln!("contended stages:\n{contended}");
    }
    Ok(())
}

impl Options {
    /// The collector that metrics are sent to, if a flag says which.
    fn otlp_endpoint(&self) -> Option<&str> {
        #[cfg(feature = "otel")]
        return self.otlp_endpoint.as_deref();
        #[cfg(not(feature = "otel"))]
        None
    }
}

/// Serves the metrics where that is wanted.
fn show(config: &Config, source: live::Source, about: &str) -> Result<Option<Live>> {
    let hosts = Hosts::new(&config.metrics.allow_hosts)?;
    let view = View { source, about: About::new(about), hosts };
    config.metrics.listen.map(|address| Live::start(address, view)).transpose()
}

fn lock_kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(LockKind::NAMED.map(|(name, _)| name))
}

fn semaphores() -> PossibleValuesParser {
    PossibleValuesParser::new(MemoryPolicy::NAMES)
}

fn read(options: &Options) -> Result<Config> {
    let (own, settings) = match &options.service {
        Service::Synthetic { service, wait, block, paths, locks, settings } => {
            let own = vec![
                ("synthetic.service", text(service.as_ref())),
                ("synthetic.wait", text(wait.as_ref())),
                ("synthetic.block", text(block.as_ref())),
                ("synthetic.paths", text(paths.as_ref())),
                ("synthetic.locks", text(locks.as_ref())),
            ];
            (own, settings)
        }
        Service::Kv { memcached, locks, semaphore, settings } => {
            let own = vec![
                ("kv.memcached", text(memcached.as_ref())),
                ("kv.store.locks", text(locks.as_ref())),
                ("kv.large.semaphore", text(semaphore.as_ref())),
            ];
            (own, settings)
        }
        #[cfg(feature = "rocks")]
        Service::Rocks { folder, semaphore, settings } => {
            let own = vec![
                ("rocks.folder", text(folder.as_ref())),
                ("rocks.store.semaphore", text(semaphore.as_ref())),
            ];
            (own, settings)
        }
        #[cfg(feature = "columns")]
        Service::Columns { file, semaphore, settings } => {
            let own = vec![
                ("columns.file", text(file.as_ref())),
                ("columns.store.semaphore", text(semaphore.as_ref())),
            ];
            (own, settings)
        }
        #[cfg(feature = "search")]
        Service::Search { settings, .. } => {
            (vec![("search.folder", folder(&options.service))], settings)
        }
    };
    let pages = options.pages.as_ref().map(|pages| Value::String(pages.display().to_string()));
    let one_worker = options.pin.map(|_| Value::Integer(1));
    let common = [
        ("server.listen", text(options.listen.as_ref())),
        ("server.admission.algorithm", text(options.algorithm.as_ref())),
        ("server.slo", text(options.slo.as_ref())),
        ("server.attempts", options.attempts.map(|attempts| Value::Integer(attempts.into()))),
        ("server.target_delay", text(options.target_delay.as_ref())),
        ("server.spill.replicas", texts(&options.spill)),
        ("server.threads.workers", one_worker),
        ("server.page.folder", pages),
        ("metrics.listen", text(options.metrics.as_ref())),
        ("metrics.allow_hosts", texts(&options.allow_host)),
    ];
    let flags: Vec<_> = common.into_iter().chain(own).collect();
    let mut config: Config = options.sources.read(settings, &flags)?;
    // All services are one program, whose name says nothing.
    config.server.page.service.get_or_insert_with(|| options.service.name().into());
    config.validate()?;
    Ok(config)
}

/// The folder that is to be searched, if it was named.
#[cfg(feature = "search")]
fn folder(service: &Service) -> Option<Value> {
    match service {
        Service::Search { folder, .. } => text(folder.as_ref()),
        _ => None,
    }
}

/// The error with what to do about it, where that can be told.
fn advised(error: Error) -> Error {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    match io.map(io::Error::kind) {
        Some(io::ErrorKind::AddrInUse) => {
            anyhow!("{error}; stop who listens there, or choose another address (port 0: any)")
        }
        _ => error,
    }
}

impl Service {
    /// As it is spelt on the command line.
    fn name(&self) -> &'static str {
        match self {
            Self::Synthetic { .. } => "synthetic",
            Self::Kv { .. } => "kv",
            #[cfg(feature = "rocks")]
            Self::Rocks { .. } => "rocks",
            #[cfg(feature = "columns")]
            Self::Columns { .. } => "columns",
            #[cfg(feature = "search")]
            Self::Search { .. } => "search",
        }
    }
}

fn describe(service: &Service, config: &Config, ready: &Ready) -> String {
    let what = match service {
        Service::Synthetic { .. } => config.synthetic.to_string(),
        Service::Kv { .. } => "key-value store".into(),
        #[cfg(feature = "rocks")]
        Service::Rocks { .. } => format!("RocksDB in {}", config.rocks.folder.display()),
        #[cfg(feature = "columns")]
        Service::Columns { .. } => format!("columns of {}", config.columns.file.display()),
        #[cfg(feature = "search")]
        Service::Search { .. } => format!("search in {}", config.search.folder.display()),
    };
    let memcached = match ready.memcached {
        Some(address) => format!(" and {address} (memcached)"),
        None => String::new(),
    };
    let slo = duration::format(config.server.slo);
    let algorithm = &config.server.admission.algorithm;
    format!("{what} at {}{memcached}: algorithm {algorithm}, SLO {slo}", ready.address)
}
