//! `seawall load`: offers a load on schedule, whatever the server answers, and measures.

pub(crate) mod engine;
mod issue;
pub(crate) mod probe;
mod sessions;
pub(crate) mod workload;

use std::io::{IsTerminal, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use comfy_table::Table;
use indicatif::{ProgressBar, ProgressStyle};
use seawall_control::admission;
use seawall_control::config::duration;
use seawall_measure::{KeyValueMix, Process, Schedule, Summary};
use seawall_rpc::{ClientConfig, ClientTls};

use crate::options::{Sources, text};
use crate::pin;
use crate::report::format;
use engine::{Offer, Run};
use workload::Workload;

/// Options of `seawall load`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The server's address; several replicas share the sessions in turns
    #[arg(required = true, value_name = "HOST:PORT")]
    servers: Vec<String>,

    /// What to call
    #[arg(long, value_enum, default_value = "synthetic")]
    workload: Kind,

    /// Requests of a kv workload: `usr`, or GETS/KEYS/VALUES such as
    /// 0.9/zipf:100000:0.99/uniform:5:1000
    #[arg(long, value_name = "MIX", default_value = "usr")]
    mix: KeyValueMix,

    /// Requests per second, or a schedule of rates such as 0s:5k,2s:20k; with --capacity also 0.5x
    #[arg(long, value_name = "SCHEDULE", default_value = "1000")]
    rate: Schedule,

    /// What 1x of the rate means, in requests per second
    #[arg(long, value_name = "RATE")]
    capacity: Option<f64>,

    /// How requests are spread in time: poisson, constant, bursts:FACTOR:PERIOD:LENGTH
    #[arg(long, value_name = "PROCESS", default_value = "poisson")]
    arrivals: Process,

    /// Client sessions, each a connection of its own (1 to 60000)
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    sessions: u32,

    /// How long to measure
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    time: Duration,

    /// How long to offer the load before measuring
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    warm_up: Duration,

    /// Latency that counts as good [default: what the server says]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    slo: Option<Duration>,

    /// Tell the server that a reply is worthless this long after its scheduled time
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    deadline: Option<Duration>,

    /// Fail unless the server runs this algorithm; clients always use the server's
    #[arg(long, value_name = "NAME")]
    algorithm: Option<String>,

    /// Threads that offer the load, each with its share of the sessions
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,

    /// Keep the load on this core (with one thread)
    #[arg(long, value_name = "CORE")]
    pin: Option<usize>,

    /// Seed of arrivals and keys
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// A token that proves who the clients are
    #[arg(long, env = "SEAWALL_TOKEN", hide_env_values = true)]
    token: Option<String>,

    /// Speak TLS; server certificates must come from these authorities (PEM file)
    #[arg(long, value_name = "FILE")]
    tls_authorities: Option<PathBuf>,

    /// The name in the server's certificate
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    tls_name: String,

    /// The clients' own certificate chain, for mutual TLS (PEM file)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,

    /// The key that goes with it (PEM file)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,

    #[command(flatten)]
    sources: Sources,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// `seawall serve synthetic`
    Synthetic,
    /// `seawall serve kv`; all keys are written before the measurement
    Kv,
}

/// Runs `seawall load`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let offer = offer(options)?;
    if let Some(core) = options.pin {
        pin::to_core(core)?;
    }
    if let Workload::Kv(mix) = &offer.workload {
        for address in &offer.servers {
            probe::fill(*address, &offer.client, mix)?;
        }
    }
    let bar = progress(options.warm_up + options.time);
    let run = engine::run(&offer, |elapsed| bar.set_position(elapsed.as_millis() as u64))?;
    bar.finish_and_clear();
    if options.algorithm.as_ref().is_some_and(|wanted| *wanted != run.algorithm) {
        bail!("the server runs the algorithm {}, not the one of --algorithm", run.algorithm);
    }
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&run.summary)?)?;
    } else {
        writeln!(out, "{}", table(&run))?;
    }
    if !run.summary.valid {
        let reason = run.summary.invalid_reason.as_deref().unwrap_or("no reason is known");
        eprintln!("this point is not valid: {reason}");
    }
    Ok(())
}

fn offer(options: &Options) -> Result<Offer> {
    let servers: Result<Vec<SocketAddr>> =
        options.servers.iter().map(|name| resolve(name)).collect();
    let workload = match options.workload {
        Kind::Synthetic => Workload::Synthetic,
        Kind::Kv => Workload::Kv(options.mix),
    };
    Ok(Offer {
        servers: servers?,
        client: client(options)?,
        workload,
        sessions: options.sessions,
        threads: options.threads,
        process: options.arrivals,
        rates: options.rate.rates(options.capacity)?,
        warm_up: options.warm_up,
        time: options.time,
        slo: options.slo,
        deadline: options.deadline,
        seed: options.seed,
    })
}

fn resolve(name: &str) -> Result<SocketAddr> {
    let mut addresses =
        name.to_socket_addrs().with_context(|| format!("{name} is no HOST:PORT that resolves"))?;
    addresses.next().with_context(|| format!("{name} resolves to no address"))
}

fn client(options: &Options) -> Result<ClientConfig> {
    let admission: admission::Config =
        options.sources.read(&[("algorithm", text(options.algorithm.as_ref()))])?;
    admission.build()?;
    let tls = options.tls_authorities.as_ref().map(|authorities| ClientTls {
        authorities: authorities.clone(),
        identity: options.tls_certificate.clone().zip(options.tls_key.clone()),
        server_name: options.tls_name.clone(),
    });
    Ok(ClientConfig {
        name: "seawall load".into(),
        token: options.token.as_ref().map(|token| token.clone().into_bytes()),
        tls,
        admission,
        ..ClientConfig::default()
    })
}

/// A bar on standard error, if somebody looks at it.
fn progress(length: Duration) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{elapsed:>4} [{bar:40}] {msg}");
    ProgressBar::new(length.as_millis() as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message("offering the load")
}

/// The result for people.
fn table(run: &Run) -> String {
    let summary = &run.summary;
    let mut table = Table::new();
    table.load_style(crate::report::table::STYLE);
    table.set_header([
        "class",
        "offered/s",
        "goodput/s",
        "served/s",
        "p50",
        "p99",
        "p99.9",
        "client drops",
        "server drops",
    ]);
    let classes = summary.classes.iter().map(|class| (class.name.as_str(), &class.figures));
    let many = summary.classes.len() > 1;
    for (name, figures) in classes.filter(|_| many).chain([("all", &summary.total)]) {
        let time = format::delay_or_nothing;
        table.add_row([
            name.to_owned(),
            format::rate(figures.offered),
            format::rate(figures.goodput),
            format::rate(figures.throughput),
            time(figures.p50_us),
            time(figures.p99_us),
            time(figures.p999_us),
            format!("{:.1} %", figures.client_drop_rate * 100.0),
            format!("{:.1} %", figures.server_drop_rate * 100.0),
        ]);
    }
    format!("{table}\n{}", footnote(run, summary))
}

fn footnote(run: &Run, summary: &Summary) -> String {
    let lateness = format::delay_or_nothing(summary.lateness_p99_us);
    let Run { algorithm, sessions, .. } = run;
    format!(
        "{algorithm}, {sessions} sessions, SLO {}; generator late by {lateness} (p99); {} unanswered, {} failed",
        format::delay(summary.slo_us),
        summary.total.unanswered,
        summary.total.failed,
    )
}
