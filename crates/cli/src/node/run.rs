//! `seawall node run`: the agent of a node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use metrics_exporter_prometheus::PrometheusHandle;
use seawall_control::config::duration;
use seawall_control::scaling;
use seawall_node::agent::Agent;
use seawall_node::agent::config::Config;
use seawall_node::agent::crash::{self, Step};
use seawall_node::agent::pace::{self, Signals};
use seawall_node::agent::state::{Restored, State};
use seawall_node::agent::watchdog::{self, Watchdog};
use serde::Serialize;
use toml::Value;

use super::publish;
use crate::descriptors;
use crate::live::{About, Hosts, Live, Source, View};
use crate::options::{Settings, Sources, text, texts};
use crate::output;
use crate::serve::metrics::{self, Forgets, Recording};

const EXAMPLES: &str = "\
Examples:
  seawall node run --systemd 'web-*.service' --dry-run      decide and log, change nothing
  seawall node run --config node.toml --check               what would be managed
  seawall node run --config node.toml --metrics 127.0.0.1:9118
  seawall node run --actuator virtual --pages /run/seawall  services that model their cores
  seawall node run --print-config > node.toml               all that can be set

Containers get back what they had when this ends, whatever ends it. docs/node.md says what each way
of giving CPU needs.";

/// How long an agent that is ending, or its watchdog, may hold the lock before this one gives up.
/// While these put containers back they are given more time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Containers that have gone are shown with nothing for so long, and then no more.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// Options of `seawall node run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    sources: Sources,

    /// Decide and log, and change nothing
    #[arg(long, env = "SEAWALL_NODE_DRY_RUN")]
    dry_run: bool,

    /// Check the configuration, list the containers that there are now, and end
    #[arg(long)]
    check: bool,

    /// Print the configuration as a file, and end
    #[arg(long)]
    print_config: bool,

    /// The folder in which services publish their metrics
    #[arg(long, value_name = "DIR", env = "SEAWALL_PAGES")]
    pages: Option<PathBuf>,

    /// The folder for saved allocations, the lock and the log of decisions
    #[arg(long, value_name = "DIR", env = "SEAWALL_NODE_STATE")]
    state: Option<PathBuf>,

    /// How often to look and decide [default: the algorithm's own]
    #[arg(long, value_name = "DURATION", env = "SEAWALL_NODE_INTERVAL")]
    interval: Option<String>,

    /// Who decides [default: escalator]
    #[arg(long, value_name = "NAME", env = "SEAWALL_NODE_ALGORITHM",
        value_parser = PossibleValuesParser::new(scaling::NAMES))]
    algorithm: Option<String>,

    /// What gives CPU: quota, cpuset, kubernetes, virtual [default: quota]
    #[arg(long, value_name = "NAME", env = "SEAWALL_NODE_ACTUATOR",
        value_parser = PossibleValuesParser::new(["quota", "cpuset", "kubernetes", "virtual"]))]
    actuator: Option<String>,

    /// Thousandths of a CPU that one unit is [default: 100]
    #[arg(long, value_name = "MILLI", env = "SEAWALL_NODE_UNIT")]
    unit: Option<u32>,

    /// Units that all containers together may have [default: all CPUs]
    #[arg(long, value_name = "N", env = "SEAWALL_NODE_UNITS")]
    units: Option<u32>,

    /// Manage the containers of Kubernetes' pods
    #[arg(long)]
    kubernetes: bool,

    /// Manage the containers of Docker
    #[arg(long)]
    docker: bool,

    /// Manage units of systemd that match, such as 'web-*.service'
    #[arg(long, value_name = "PATTERN")]
    systemd: Vec<String>,

    /// Serve Prometheus metrics at this address, and a page that draws them [default: nowhere]
    #[arg(long, value_name = "ADDRESS", env = "SEAWALL_NODE_METRICS")]
    metrics: Option<SocketAddr>,

    /// Answer there also to this host name, or to all (*); may be given again [default: loopback
    /// names, and addresses in digits]
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,

    /// End after this time [default: never]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// Die at this step, as by SIGKILL, to see what is left
    #[arg(long, value_name = "STEP", hide = true)]
    crash_at: Option<Step>,

    /// Print what was counted as JSON at the end
    #[arg(long)]
    json: bool,
}

const WATCHDOG_EXAMPLES: &str = "\
Examples:
  seawall node watchdog --state /var/lib/seawall --agent 4711    as the agent, 4711, starts it";

/// Options of `seawall node watchdog`.
#[derive(Debug, Args)]
#[command(after_help = WATCHDOG_EXAMPLES)]
pub(crate) struct WatchdogOptions {
    /// The folder of the agent's state
    #[arg(long)]
    state: PathBuf,

    /// The agent's process
    #[arg(long)]
    agent: u32,
}

/// What is told when containers are managed.
#[derive(Debug, Serialize)]
struct Ready {
    pid: u32,
    watchdog: Option<u32>,
    containers: usize,
    restored: usize,
    metrics: Option<SocketAddr>,
}

/// Runs `seawall node run`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let config = read(options)?;
    if options.print_config {
        return output::print(&toml::to_string(&config)?);
    }
    if !config.looks_for_something() {
        bail!(
            "nothing to manage: say --systemd PATTERN, --docker, --kubernetes or --actuator \
             virtual, or name containers in a configuration file"
        );
    }
    let hosts = Hosts::new(&config.metrics.allow_hosts)
        .map_err(|error| anyhow!("metrics.allow_hosts: {error}"))?;
    let scaler = config.scaling.build(config.seed)?;
    let interval = config.interval.unwrap_or(scaler.interval());
    if options.check {
        return check(Agent::new(config, Box::new(scaler), interval, None)?);
    }
    options.crash_at.into_iter().for_each(crash::arm);
    // It may have to wait, and does not ignore signals meanwhile: there is nothing to put back yet.
    let open = || State::open_patiently(&config.state, PATIENCE);
    let mut state = (!options.dry_run).then(open).transpose()?;
    let signals = Signals::listen().context("cannot handle signals")?;
    let (mut watchdog, mut restored) = (None, 0);
    if let Some(open) = &mut state {
        if !open.is_empty() {
            let done = open.restore();
            tracing::warn!(containers = done.restored, "put back what a crash had left");
            restored = done.restored;
            told(&done).with_context(|| {
                let saved = config.state.join("allocations.json");
                let saved = saved.display();
                format!("{saved} holds what they had: begin again, or put them back and remove it")
            })?;
        }
        let program = std::env::current_exe().context("cannot find this program's file")?;
        let folder = config.state.display().to_string();
        let (agent, words) = (process::id().to_string(), ["node", "watchdog", "--state"]);
        let words = words.into_iter().chain([folder.as_str(), "--agent", &agent]);
        let started = Watchdog::start(program, words.map(str::to_owned).collect());
        watchdog = Some(started.context("cannot start the watchdog")?);
    }
    let endpoint = config.metrics.clone();
    let about = format!(
        "node agent: {} decides{}",
        config.scaling.policy,
        if options.dry_run { ", and nothing is changed (dry run)" } else { "" },
    );
    // Each page that is read is an open file, or several.
    descriptors::raise();
    let mut agent = Agent::new(config, Box::new(scaler), interval, state)?;
    agent.status_mut().watchdog_starts = u64::from(watchdog.is_some());
    agent.respond()?;
    let recording = Recording::start(endpoint.listen.is_some(), None, Forgets::All(FORGOTTEN))?;
    let recorded = recording.handle.clone();
    let shown = endpoint.listen.zip(recorded);
    let shown = shown.map(|(address, handle)| show(address, handle, hosts, about)).transpose()?;
    let begun = Instant::now();
    let (mut published, mut known) = (None, Vec::new());
    let (mut ready, id) = (None, watchdog.as_ref().and_then(Watchdog::id));
    let driven = pace::drive(&mut agent, interval, &signals, watchdog.as_mut(), |status| {
        if ready.is_none() {
            let containers = status.containers.len();
            let metrics = shown.as_ref().map(Live::address);
            let line = Ready { pid: process::id(), watchdog: id, containers, restored, metrics };
            ready = Some(output::print(&(serde_json::to_string(&line).unwrap_or_default() + "\n")));
        }
        let now = Instant::now();
        if recording.handle.is_some() && published.is_none_or(|last| now - last >= metrics::PERIOD)
        {
            published = Some(now);
            publish::publish(status, &mut known);
        }
        options.duration.is_some_and(|duration| now - begun >= duration)
    });
    // Whatever happened: first everything is put back.
    let done = agent.close();
    let summary = serde_json::to_string_pretty(agent.status())?;
    let log = agent.audit_path().to_owned();
    // The watchdog finds nothing left to do, once the agent's lock is free.
    drop(agent);
    drop(watchdog);
    driven.context("the agent stopped")?;
    if options.json {
        output::print(&(summary + "\n"))?;
    } else {
        let decisions = match log.exists() {
            true => format!("decisions are in {}", log.display()),
            false => "nothing was decided".to_owned(),
        };
        eprintln!("{} containers put back; {decisions}", done.restored);
    }
    told(&done)
}

/// Serves the metrics.
fn show(
    address: SocketAddr,
    handle: PrometheusHandle,
    hosts: Hosts,
    about: String,
) -> Result<Live> {
    // Its passes publish; nobody has to ask for it.
    let source = Source::recorder(handle, None);
    let live = Live::start(address, View { source, about: About::new(about), hosts })?;
    tracing::info!(page = %live.url(), "live");
    Ok(live)
}

/// Runs `seawall node watchdog`.
pub(crate) fn watchdog(options: &WatchdogOptions) -> Result<()> {
    let done = watchdog::watch(&options.state, options.agent)?;
    if done.restored > 0 {
        tracing::warn!(containers = done.restored, "the agent has died: put back what they had");
    }
    told(&done)
}

/// What could not be put back is an error.
fn told(done: &Restored) -> Result<()> {
    let Some((container, error)) = done.failed.first() else { return Ok(()) };
    let others = done.failed.len() - 1;
    bail!("{container} and {others} others could not be put back: {error}")
}

/// Lists what would be managed.
fn check(mut agent: Agent) -> Result<()> {
    agent.pass(pace::now_ns(), 0.0);
    let mut lines = String::new();
    for (name, one) in &agent.status().containers {
        let page = if one.is_heard { "" } else { ", publishes nothing" };
        let (units, floor, limit) = (one.units, one.floor, one.limit);
        lines += &format!("{name}: {units} units, {floor} to {limit}{page}\n");
    }
    for (name, why) in agent.left_alone() {
        lines += &format!("{name}: left alone: {why}\n");
    }
    if lines.is_empty() {
        lines = "the configuration is right; there are no containers that it means\n".to_owned();
    }
    lines += &format!("FirstResponder: {}\n", agent.outlook());
    output::print(&lines)
}

fn read(options: &Options) -> Result<Config> {
    let path = |path: Option<&PathBuf>| path.map(|path| Value::String(path.display().to_string()));
    let number = |number: Option<u32>| number.map(|number| Value::Integer(number.into()));
    let yes = |is: bool| is.then_some(Value::Boolean(true));
    let units: Vec<Value> = options.systemd.iter().cloned().map(Value::String).collect();
    let flags = [
        ("pages", path(options.pages.as_ref())),
        ("state", path(options.state.as_ref())),
        ("interval", text(options.interval.as_ref())),
        ("scaling.policy", text(options.algorithm.as_ref())),
        ("actuator.cpu", text(options.actuator.as_ref())),
        ("unit_milli", number(options.unit)),
        ("units", number(options.units)),
        ("discovery.kubernetes", yes(options.kubernetes)),
        ("discovery.docker", yes(options.docker)),
        ("discovery.systemd", (!units.is_empty()).then_some(Value::Array(units))),
        ("metrics.listen", text(options.metrics.as_ref())),
        ("metrics.allow_hosts", texts(&options.allow_host)),
    ];
    let config: Config = options.sources.read(&Settings::default(), &flags)?;
    config.validate().map_err(|error| anyhow!("{error}"))?;
    Ok(config)
}
