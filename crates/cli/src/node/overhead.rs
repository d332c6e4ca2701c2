//! `seawall node overhead`: what looking at containers costs, by their number and the interval.
//!
//! ```text
//!   this process                    a helper
//!     agent ── reads, writes ──► groups ◄── a process in each, that sleeps
//!           ── reads, orders ──► pages  ◄── counts and beats, for all of them
//! ```

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use seawall_abi::clock::monotonic_ns;
use seawall_abi::page::{Description, Publisher, Sample};
use seawall_abi::process::Process;
use seawall_control::config::duration;
use seawall_control::scaling;
use seawall_node::agent::Agent;
use seawall_node::agent::config::{Config, CpuActuator, Rule, Way};
use seawall_node::agent::hierarchy::{Hierarchies, Hierarchy, Version};
use seawall_node::agent::pace::{self, Signals};
use seawall_node::agent::state::State;
use seawall_node::agent::status::{Status, quantile};
use serde::Serialize;

use crate::report::grid;
use crate::{descriptors, host, output};

const EXAMPLES: &str = "\
Examples:
  seawall node overhead                                     two minutes
  seawall node overhead --containers 10 --time 2s           a short one
  seawall node overhead --algorithms escalator --intervals 1ms,10ms --json

Each container is a control group with a process that sleeps and a page of metrics that is counted
in; a tenth of them are in a surge in every other second. Where groups cannot be written, services
model their cores, and the agent writes pages only. What else runs disturbs it.

Counted is the agent's thread: looking, deciding, writing quotas and orders, the log, and the look
for containers once a second (the longest passes). Left out are the first half second, in which it
takes the containers over, putting them back, the services, and what packets cost, which
`seawall node responder` measures.";

const HELPER_EXAMPLES: &str = "\
Examples:
  seawall node overhead-services --pages /tmp/pages --containers 10   as the measurement starts it";

/// More containers are of no node.
const CONTAINERS_MAX: u32 = 5_000;

/// What is left out at the beginning: containers are found and taken over.
const WARM_UP: Duration = Duration::from_millis(500);

/// Thousandths of a CPU that a container has at first, and at most.
const MILLI: [u32; 2] = [200, 800];

/// How often services beat and count.
const BEAT: Duration = Duration::from_millis(100);

/// Requests of a service in each beat.
const REQUESTS: u32 = 5;

/// Execution of a request when all is well, and in a surge.
const EXEC: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(6)];

/// One container in so many has a surge.
const SURGE_EVERY: usize = 10;

/// Options of `seawall node overhead`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Numbers of containers
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "10,100,1000")]
    containers: Vec<u32>,

    /// Who decides
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',',
        default_value = "escalator,parties",
        value_parser = PossibleValuesParser::new(scaling::NAMES))]
    algorithms: Vec<String>,

    /// Times between passes
    #[arg(long, value_name = "DURATION,DURATION", value_delimiter = ',',
        default_value = "200us,1ms,10ms,100ms", value_parser = duration::parse)]
    intervals: Vec<Duration>,

    /// How long each is measured
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    time: Duration,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// Options of the helper.
#[derive(Debug, Args)]
#[command(after_help = HELPER_EXAMPLES)]
pub(crate) struct HelperOptions {
    /// The folder of the pages
    #[arg(long)]
    pages: PathBuf,

    /// How many services
    #[arg(long)]
    containers: u32,

    /// Folders in which each service has a group
    #[arg(long)]
    groups: Vec<PathBuf>,

    /// Seconds after which services end by themselves
    #[arg(long, default_value_t = 3_600)]
    seconds: u64,
}

/// What was measured with one number of containers, one policy and one interval.
#[derive(Debug, Serialize)]
struct Point {
    containers: u32,
    algorithm: String,
    interval_us: u128,
    passes: u64,
    /// Passes whose time had gone.
    missed: u64,
    /// CPU time of the agent, as a share of one CPU.
    cpu: f64,
    pass_us_median: u128,
    pass_us_p99: u128,
    pass_us_max: u128,
    late_us_median: u128,
    late_us_p99: u128,
    decisions: u64,
    errors: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    host: String,
    actuator: &'static str,
    seconds: f64,
    points: Vec<Point>,
}

/// Runs `seawall node overhead`.
pub(crate) fn run(options: &Options) -> Result<()> {
    for count in &options.containers {
        let is_allowed = (1..=CONTAINERS_MAX).contains(count);
        ensure!(is_allowed, "--containers {count}: allowed is 1 to {CONTAINERS_MAX}");
    }
    let is_long = options.time >= 2 * WARM_UP;
    ensure!(is_long, "--time: at least {}", duration::format(2 * WARM_UP));
    for interval in &options.intervals {
        let config = Config { interval: Some(*interval), ..Config::default() };
        config.validate().map_err(|error| anyhow!("--intervals: {error}"))?;
    }
    descriptors::raise();
    let signals = Signals::listen().context("cannot handle signals")?;
    let mut report = Report {
        host: host::describe().kernel,
        actuator: "",
        seconds: options.time.as_secs_f64(),
        points: Vec::new(),
    };
    let rounds = (options.algorithms.len() * options.intervals.len()) as u32;
    for count in &options.containers {
        let bench = Bench::start(*count, options.time * rounds)?;
        report.actuator = bench.actuator();
        for algorithm in &options.algorithms {
            for interval in &options.intervals {
                report.points.push(bench.measure(algorithm, *interval, options.time, &signals)?);
            }
        }
    }
    if options.json {
        return output::print(&(serde_json::to_string_pretty(&report)? + "\n"));
    }
    output::print(&table(&report))
}

/// Containers, and services in them.
struct Bench {
    count: u32,
    folder: Folder,
    groups: Option<Groups>,
    helper: Child,
}

/// A folder that is removed again.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Control groups that are removed again.
struct Groups {
    hierarchy: Hierarchy,
    name: String,
    /// In the hierarchies of the controllers that give CPU time and count it.
    outer: Vec<PathBuf>,
    count: u32,
}

impl Groups {
    fn make(count: u32) -> Result<Self> {
        let found = Hierarchies::detect(Path::new("/"))?;
        let name = format!("seawall-overhead-{}", std::process::id());
        let mut mounts = vec![found.cpu.mount.clone()];
        // In version 1 the controllers may be apart.
        mounts.extend(found.usage.map(|usage| usage.mount).filter(|mount| *mount != mounts[0]));
        let outer = mounts.iter().map(|mount| mount.join(&name)).collect();
        let groups = Self { hierarchy: found.cpu, name, outer, count };
        for outer in &groups.outer {
            fs::create_dir(outer).with_context(|| format!("cannot make {}", outer.display()))?;
        }
        let outer = &groups.outer[0];
        if groups.hierarchy.version == Version::V2 {
            fs::write(outer.join("cgroup.subtree_control"), "+cpu")?;
        }
        for number in 0..count {
            for outer in &groups.outer {
                fs::create_dir(outer.join(inner(number)))?;
            }
            let folder = outer.join(inner(number));
            let quota_us = u64::from(MILLI[0]) * 100;
            match groups.hierarchy.version {
                Version::V1 => fs::write(folder.join("cpu.cfs_quota_us"), quota_us.to_string()),
                Version::V2 => fs::write(folder.join("cpu.max"), format!("{quota_us} 100000")),
            }
            .with_context(|| format!("cannot bound {}", folder.display()))?;
        }
        Ok(groups)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for outer in &self.outer {
            for number in 0..self.count {
                let _ = fs::remove_dir(outer.join(inner(number)));
            }
            let _ = fs::remove_dir(outer);
        }
    }
}

fn inner(number: u32) -> String {
    format!("c{number}")
}

impl Bench {
    fn start(count: u32, time: Duration) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("seawall-overhead-{}", std::process::id()));
        fs::create_dir_all(folder.join("pages")).context("cannot make a folder for pages")?;
        let folder = Folder(folder);
        let groups = match Groups::make(count) {
            Ok(groups) => Some(groups),
            Err(error) => {
                eprintln!("services model their cores, for groups cannot be had: {error:#}");
                None
            }
        };
        let program = std::env::current_exe().context("cannot find this program's file")?;
        let mut command = Command::new(program);
        command.args(["node", "overhead-services", "--containers", &count.to_string()]);
        // Longer than it all takes, should nobody be left to end them.
        command.args(["--seconds", &(2 * time.as_secs() + 600).to_string()]);
        command.arg("--pages").arg(folder.0.join("pages"));
        for outer in groups.iter().flat_map(|groups| &groups.outer) {
            command.arg("--groups").arg(outer);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let helper = command.spawn().context("cannot start services")?;
        let mut bench = Self { count, folder, groups, helper };
        let output = bench.helper.stdout.take().context("the services' output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line == "ready\n", "services did not start; what they said is above");
        Ok(bench)
    }

    fn actuator(&self) -> &'static str {
        if self.groups.is_some() { "quota" } else { "virtual" }
    }

    fn config(&self, algorithm: &str, interval: Duration) -> Result<Config> {
        let mut config = Config {
            interval: Some(interval),
            units: Some(self.count.saturating_mul(MILLI[0] / 50)),
            scaling: scaling::Config::named(algorithm)?,
            pages: self.folder.0.join("pages"),
            state: self.folder.0.join("state"),
            ..Config::default()
        };
        // What watching packets costs is another measurement: `seawall node responder`.
        config.responder.way = Way::Off;
        config.defaults.floor_milli = Some(MILLI[0] / 2);
        config.defaults.limit_milli = Some(MILLI[1]);
        config.defaults.initial_milli = Some(MILLI[0]);
        let mut rule =
            Rule { name: "c".to_owned(), expected_exec: Some(2 * EXEC[0]), ..Rule::default() };
        match &self.groups {
            Some(groups) => {
                let root = groups.hierarchy.root.trim_end_matches('/');
                rule.cgroup = Some(format!("{root}/{}/*", groups.name));
            }
            None => {
                config.actuator.cpu = CpuActuator::Virtual;
                rule.service = Some("*".to_owned());
            }
        }
        config.containers.push(rule);
        config.validate().map_err(|error| anyhow!("{error}"))?;
        Ok(config)
    }

    fn measure(
        &self,
        algorithm: &str,
        interval: Duration,
        time: Duration,
        signals: &Signals,
    ) -> Result<Point> {
        let config = self.config(algorithm, interval)?;
        let scaler = config.scaling.build(config.seed)?;
        let state = State::open(&config.state)?;
        let mut agent = Agent::new(config, Box::new(scaler), interval, Some(state))?;
        let begun = Instant::now();
        let mut from = None;
        let (mut late, mut took) = (Vec::new(), Vec::new());
        let mut is_over = false;
        let driven = pace::drive(&mut agent, interval, signals, None, |status| {
            let now = Instant::now();
            if from.is_some() {
                // All of them: once a second one looks for containers, and takes longer.
                late.extend(status.lateness.last().map(|(late, _)| late));
                took.extend(status.lateness.last().map(|(_, took)| took));
            } else if now - begun >= WARM_UP {
                from = Some((now, cpu_time(), status.clone()));
            }
            is_over = now - begun >= time;
            is_over
        });
        let (ended, used) = (Instant::now(), cpu_time());
        let restored = agent.close();
        driven.context("the agent stopped")?;
        ensure!(is_over, "stopped by a signal");
        if let Some((container, error)) = restored.failed.first() {
            bail!("{container} could not be put back: {error}");
        }
        let status = agent.status();
        let found = status.containers.len() as u32;
        ensure!(found == self.count, "the agent found {found} of {} containers", self.count);
        let heard = status.containers.values().filter(|one| one.is_heard).count() as u32;
        ensure!(heard == self.count, "the agent heard {heard} of {} services", self.count);
        let Some((begun, used_before, before)) = from.filter(|_| !took.is_empty()) else {
            bail!("one pass takes longer than --time; give it more");
        };
        let us = |of: &[Duration], share| quantile(of.to_vec(), share).as_micros();
        let count = |of: &Status| of.decisions.values().sum::<u64>();
        Ok(Point {
            containers: self.count,
            algorithm: algorithm.to_owned(),
            interval_us: interval.as_micros(),
            passes: status.passes - before.passes,
            missed: status.passes_missed - before.passes_missed,
            cpu: (used - used_before).as_secs_f64() / (ended - begun).as_secs_f64(),
            pass_us_median: us(&took, 0.5),
            pass_us_p99: us(&took, 0.99),
            pass_us_max: us(&took, 1.0),
            late_us_median: us(&late, 0.5),
            late_us_p99: us(&late, 0.99),
            decisions: count(status) - count(&before),
            errors: status.errors.values().sum(),
        })
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // It ends with its input, and its services with it; then their groups are empty.
        drop(self.helper.stdin.take());
        let _ = self.helper.wait();
    }
}

/// CPU time of this thread, which is the agent's.
fn cpu_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else { return Duration::ZERO };
    let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(us.unsigned_abs())
}

fn table(report: &Report) -> String {
    let us = |us: u128| us.to_string();
    let row = |point: &Point| {
        [
            point.containers.to_string(),
            point.algorithm.clone(),
            us(point.interval_us),
            format!("{:.1}", point.cpu * 100.0),
            us(point.pass_us_median),
            us(point.pass_us_p99),
            us(point.pass_us_max),
            us(point.late_us_median),
            us(point.late_us_p99),
            format!("{} of {}", point.missed, point.missed + point.passes),
        ]
    };
    let rows: Vec<_> = report.points.iter().map(row).collect();
    let head = [
        "containers",
        "algorithm",
        "interval",
        "CPU %",
        "pass",
        "p99",
        "max",
        "late",
        "p99",
        "missed",
    ];
    let mut text = grid::render(&head, 2, &[rows]);
    let _ = writeln!(
        text,
        "\n\nCPU time of the agent alone, in hundredths of one CPU; times in microseconds. {} for \
         {} s each, of which the first {} is left out, on {}.",
        report.actuator,
        report.seconds,
        duration::format(WARM_UP),
        report.host,
    );
    text
}

/// Processes that sleep, and end with this.
struct Sleepers(Vec<Child>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        for sleeper in &mut self.0 {
            let _ = sleeper.kill();
        }
        for sleeper in &mut self.0 {
            let _ = sleeper.wait();
        }
    }
}

/// Runs the helper: services that live until its input ends.
pub(crate) fn services(options: &HelperOptions) -> Result<()> {
    descriptors::raise();
    let mut sleepers = Sleepers(Vec::new());
    let mut publishers = Vec::new();
    for number in 0..options.containers {
        let sleeper = Command::new("sleep")
            .arg(options.seconds.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start `sleep`")?;
        let pid = sleeper.id();
        sleepers.0.push(sleeper);
        for groups in &options.groups {
            let group = groups.join(inner(number)).join("cgroup.procs");
            fs::write(&group, pid.to_string())
                .with_context(|| format!("cannot put a process into {}", group.display()))?;
        }
        let process = Process::of(pid).context("cannot look at a process")?;
        let description = Description { name: format!("service-{number}"), port: 0, process };
        let publisher = Publisher::create(&options.pages, &description)?;
        publisher.beat(monotonic_ns());
        publishers.push(publisher);
    }
    output::print("ready\n")?;
    let is_over = Arc::new(AtomicBool::new(false));
    let on_thread = is_over.clone();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        on_thread.store(true, Relaxed);
    });
    while !is_over.load(Relaxed) {
        let is_surge = (monotonic_ns() / 1_000_000_000) % 2 == 1;
        for (number, publisher) in publishers.iter().enumerate() {
            let is_slow = is_surge && number % SURGE_EVERY == 0;
            count(publisher, EXEC[usize::from(is_slow)]);
        }
        thread::sleep(BEAT);
    }
    for publisher in &publishers {
        // Their processes are others than this one, so that they do not do it themselves.
        let _ = fs::remove_file(publisher.path());
    }
    Ok(())
}

fn count(publisher: &Publisher, exec: Duration) {
    let sample = Sample { exec_ns: exec.as_nanos() as u64, ..Sample::default() };
    for _ in 0..REQUESTS {
        publisher.shard(0).on_arrival();
        publisher.shard(0).on_completion(&sample);
    }
    publisher.beat(monotonic_ns());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_what_was_measured() {
        let point = Point {
            containers: 100,
            algorithm: "parties".to_owned(),
            interval_us: 10_000,
            passes: 90,
            missed: 10,
            cpu: 0.125,
            pass_us_median: 700,
            pass_us_p99: 800,
            pass_us_max: 9_000,
            late_us_median: 60,
            late_us_p99: 70,
            decisions: 3,
            errors: 0,
        };
        let report =
            Report { host: String::new(), actuator: "quota", seconds: 5.0, points: vec![point] };
        let text = table(&report);
        let line = text.lines().find(|line| line.contains("parties")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let expected = "100 parties 10000 12.5 700 800 9000 60 70 10 of 100";
        assert_eq!(words.join(" "), expected);
    }
}
