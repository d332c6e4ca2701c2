//! Measures how soon a client learns that its call was refused while the server's process does not
//! get the CPU, with each kind of guardian and without one.
//!
//! ```text
//!   one core                                     the other core
//!   ┌─────────────────────────────┐              ┌──────────────────────────────────────┐
//!   │ client: sends by the clock, │ ◄──────────► │ server, a process of its own         │
//!   │ and notes when answers come │              │ rivals: threads that never rest      │
//!   └─────────────────────────────┘              └──────────────────────────────────────┘
//! ```

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use clap::{Parser, ValueEnum};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use core_affinity::CoreId;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use seawall_bench_rpc::paced::{Paced, Tally};
use seawall_control::admission;
use seawall_control::request::Stage;
#[cfg(feature = "node")]
use seawall_rpc::CpuPredictor;
use seawall_rpc::{Budget, GuardianWay, Router, Server, ServerConfig};
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

const METHOD: u16 = 1;

/// A rival of real-time priority has the core for half of each of these.
const EPISODE: Duration = Duration::from_millis(100);

/// Measures how soon a client learns of a refusal while the server does not get the CPU.
#[derive(Debug, Parser)]
struct Arguments {
    /// Turns of each kind of server in each situation.
    #[arg(long, default_value_t = 2)]
    rounds: u32,
    /// Seconds of each turn.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Calls in a second.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// What each call has left when it is sent, in microseconds.
    #[arg(long, default_value_t = 5_000)]
    deadline_us: u64,
    /// Time that each call's handler takes, in microseconds.
    #[arg(long, default_value_t = 20)]
    service_us: u64,
    /// Threads that only read and write, beside the worker, which does so if there are none.
    #[arg(long, default_value_t = 0)]
    dispatchers: usize,
    /// Situations.
    #[arg(long, value_delimiter = ',')]
    situations: Vec<Situation>,
    /// Measures instead what the server costs that nobody keeps from the CPU: its CPU time at each
    /// of these rates.
    #[arg(long, value_delimiter = ',')]
    cost_at: Vec<u32>,
    /// Guardians; `foresight` and `kernel` need the feature `node`.
    #[arg(long, value_delimiter = ',')]
    guardians: Vec<GuardianArgument>,
    /// Runs the server, for the command itself.
    #[arg(long, hide = true)]
    serve: Option<GuardianArgument>,
    /// The server's core, for the command itself.
    #[arg(long, hide = true, default_value_t = 0)]
    core: usize,
    /// The situation of the server, for the command itself.
    #[arg(long, hide = true)]
    situation: Option<Situation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GuardianArgument {
    Off,
    Patrol,
    /// A patrol that predicts by the kernel's run queues.
    #[cfg(feature = "node")]
    Foresight,
    #[cfg(feature = "node")]
    Kernel,
}

/// Who else wants the core, and what the server's threads are worth there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Situation {
    /// Nobody.
    Alone,
    /// Four threads like the server's.
    Four,
    /// Eight.
    Eight,
    /// Two, and the server's threads are at nice 19.
    Nice,
    /// One, and the server's threads are SCHED_IDLE.
    Idle,
    /// A real-time thread, for 50 ms of every 100 ms: nothing else runs.
    Realtime,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match (arguments.serve, arguments.situation) {
        (Some(guardian), Some(situation)) => serve(&arguments, guardian, situation),
        _ if !arguments.cost_at.is_empty() => measure_cost(arguments),
        _ => measure(&arguments),
    }
}

fn measure(arguments: &Arguments) -> Result<()> {
    let server = cores()?;
    let situations = match arguments.situations[..] {
        [] => Situation::value_variants(),
        ref some => some,
    };
    let guardians = arguments.guardians();
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "situation",
        "guardian",
        "calls",
        "in time",
        "late",
        "refused: cpu",
        "otherwise",
        "no answer",
        "refusal at cpu: ms p50",
        "p99",
        "max",
        "any refusal: ms p50",
        "p99",
        "max",
        "result: ms p50",
        "p99",
        "max",
    ]);
    for &situation in situations {
        for &guardian in &guardians {
            let mut tally = Tally::default();
            for _ in 0..arguments.rounds {
                turn(arguments, situation, guardian, server, &mut tally)?;
            }
            let mut row = vec![situation.to_string(), format!("{guardian:?}").to_lowercase()];
            let at_cpu = tally.count_at(Stage::CPU);
            let refusals = [at_cpu, tally.refusals() - at_cpu, tally.unanswered()];
            let counts = [tally.sent, tally.in_time, tally.late].into_iter().chain(refusals);
            row.extend(counts.map(|count| count.to_string()));
            let (_, by_cpu) = tally.refused_at.remove(&Stage::CPU).unwrap_or_default();
            for latencies in [&by_cpu, &tally.refused, &tally.served] {
                row.extend([0.5, 0.99, 1.0].map(|quantile| {
                    let us = latencies.quantile_us(quantile);
                    us.map_or("-".into(), |us| format!("{:.2}", us / 1e3))
                }));
            }
            table.add_row(row);
            eprintln!("{situation}, guardian {guardian:?}: measured");
        }
    }
    println!("{table}");
    Ok(())
}

/// Binds this thread to the client's core, and gives the server's.
fn cores() -> Result<CoreId> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let [server, client, ..] = cores[..] else { return Err(anyhow!("two cores are needed")) };
    ensure!(core_affinity::set_for_current(client), "cannot choose the client's core");
    Ok(server)
}

/// Measures the CPU time of servers that are alone, in turns, and prints medians.
fn measure_cost(mut arguments: Arguments) -> Result<()> {
    let server = cores()?;
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["threads", "calls/s", "guardian", "CPU ms/s: median", "least", "most"]);
    for dispatchers in [0, 1] {
        arguments.dispatchers = dispatchers;
        for rate in arguments.cost_at.clone() {
            arguments.rate = rate;
            let guardians = arguments.guardians();
            let mut costs = vec![Vec::new(); guardians.len()];
            for _ in 0..arguments.rounds {
                for (&guardian, costs) in guardians.iter().zip(&mut costs) {
                    let mut tally = Tally::default();
                    let used = turn(&arguments, Situation::Alone, guardian, server, &mut tally)?;
                    costs.push(used.as_secs_f64() * 1e3 / arguments.seconds as f64);
                }
            }
            for (guardian, mut costs) in guardians.iter().zip(costs) {
                costs.sort_by(f64::total_cmp);
                let of = [costs[costs.len() / 2], costs[0], costs[costs.len() - 1]];
                let threads = if dispatchers == 0 { "one" } else { "dispatcher and worker" };
                let mut row = vec![threads.into(), rate.to_string()];
                row.push(format!("{guardian:?}").to_lowercase());
                row.extend(of.map(|cost| format!("{cost:.2}")));
                table.add_row(row);
            }
            eprintln!("{rate} calls/s: measured");
        }
    }
    println!("{table}");
    Ok(())
}

/// Starts a server and its rivals, calls, and adds what came of it to `tally`. Gives the CPU time
/// that the server took for it.
fn turn(
    arguments: &Arguments,
    situation: Situation,
    guardian: GuardianArgument,
    core: CoreId,
    tally: &mut Tally,
) -> Result<Duration> {
    let (mut child, address) = start_server(arguments, situation, guardian, core)?;
    let stop = Arc::new(AtomicBool::new(false));
    let rivals = situation.rivals(core, &stop);
    let clock = clock_getcpuclockid(Pid::from_raw(child.id() as i32))?;
    let before = Duration::from(clock_gettime(clock)?);
    let paced = Paced {
        method: METHOD,
        payload: b"what is asked".to_vec(),
        rate: arguments.rate,
        time: Duration::from_secs(arguments.seconds),
        deadline: Duration::from_micros(arguments.deadline_us),
    };
    let called = paced.run(address, tally);
    let used = Duration::from(clock_gettime(clock)?) - before;
    stop.store(true, Relaxed);
    for rival in rivals {
        rival.join().map_err(|_| anyhow!("a rival panicked"))??;
    }
    drop(child.stdin.take()); // which ends it
    child.wait()?;
    called.map(|()| used)
}

fn start_server(
    arguments: &Arguments,
    situation: Situation,
    guardian: GuardianArgument,
    core: CoreId,
) -> Result<(Child, SocketAddr)> {
    let name = |value: &dyn fmt::Debug| format!("{value:?}").to_lowercase();
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--serve", &name(&guardian), "--situation", &name(&situation)])
        .args(["--core", &core.id.to_string()])
        .args(["--service-us", &arguments.service_us.to_string()])
        .args(["--dispatchers", &arguments.dispatchers.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("its output is a pipe")?).read_line(&mut line)?;
    let address = line.trim().parse().context("the server did not start")?;
    Ok((child, address))
}

/// Serves until standard input ends.
fn serve(arguments: &Arguments, guardian: GuardianArgument, situation: Situation) -> Result<()> {
    let core = CoreId { id: arguments.core };
    ensure!(core_affinity::set_for_current(core), "cannot choose the server's core");
    situation.degrade()?;
    let mut config = ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        slo: Duration::from_secs(10),
        admission: admission::Config::named("none"),
        budget: Budget::Off,
        ..ServerConfig::default()
    };
    (config.threads.workers, config.threads.dispatchers) = (1, arguments.dispatchers);
    config.guardian.way = match guardian {
        GuardianArgument::Off => GuardianWay::Off,
        GuardianArgument::Patrol => GuardianWay::Patrol,
        #[cfg(feature = "node")]
        GuardianArgument::Foresight => {
            seawall_rpc::install_cpu_delay(seawall_node::Foresight::for_server);
            config.guardian.predictor = CpuPredictor::RunQueues;
            GuardianWay::Patrol
        }
        #[cfg(feature = "node")]
        GuardianArgument::Kernel => {
            seawall_rpc::install_bouncer(seawall_node::Bounce::for_server);
            GuardianWay::Kernel
        }
    };
    let service = Duration::from_micros(arguments.service_us);
    let router = Router::new().method(METHOD, "spin", move |_, payload: Bytes| async move {
        let began = Instant::now();
        while began.elapsed() < service {
            std::hint::spin_loop();
        }
        Ok(payload)
    });
    let server = Server::start(config, router)?;
    println!("{}", server.address());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

impl Arguments {
    fn guardians(&self) -> Vec<GuardianArgument> {
        if self.guardians.is_empty() {
            return GuardianArgument::value_variants().to_vec();
        }
        self.guardians.clone()
    }
}

impl Situation {
    /// Starts the rivals, which run until `stop`.
    fn rivals(self, core: CoreId, stop: &Arc<AtomicBool>) -> Vec<JoinHandle<Result<()>>> {
        let count = match self {
            Self::Alone => 0,
            Self::Idle | Self::Realtime => 1,
            Self::Nice => 2,
            Self::Four => 4,
            Self::Eight => 8,
        };
        let rival = |_| {
            let stop = stop.clone();
            thread::spawn(move || {
                ensure!(core_affinity::set_for_current(core), "cannot choose a rival's core");
                if self == Self::Realtime {
                    let fifo = RealtimeThreadSchedulePolicy::Fifo;
                    set(ThreadPriority::Min, ThreadSchedulePolicy::Realtime(fifo))?;
                }
                let mut began = Instant::now();
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                    if self == Self::Realtime && began.elapsed() > EPISODE / 2 {
                        thread::sleep(EPISODE / 2);
                        began = Instant::now();
                    }
                }
                Ok(())
            })
        };
        (0..count).map(rival).collect()
    }

    /// Makes this thread, and those that it starts, worth what the server's are.
    fn degrade(self) -> Result<()> {
        let normal = match self {
            Self::Nice => NormalThreadSchedulePolicy::Other,
            Self::Idle => NormalThreadSchedulePolicy::Idle,
            _ => return Ok(()),
        };
        set(ThreadPriority::Min, ThreadSchedulePolicy::Normal(normal))
    }
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Alone => "alone",
            Self::Four => "4 rivals",
            Self::Eight => "8 rivals",
            Self::Nice => "nice 19, 2 rivals",
            Self::Idle => "SCHED_IDLE, 1 rival",
            Self::Realtime => "no CPU for 50 of 100 ms",
        })
    }
}

fn set(priority: ThreadPriority, policy: ThreadSchedulePolicy) -> Result<()> {
    set_thread_priority_and_policy(thread_native_id(), priority, policy)
        .map_err(|error| anyhow!("cannot change a thread's priority: {error}"))
}
