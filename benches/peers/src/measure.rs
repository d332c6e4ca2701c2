//! Points, measured in turns: round by round, load by load, and at each load all rows one after the
//! other, so that what changes on the machine meanwhile hits all of them.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cases::{Experiment, experiment};
use crate::children::{Cores, Programs, Running, on_core};
use crate::record::{Key, Measured, Point, Run};
use crate::rows::{ROWS, Row, Stack};
use crate::serve::{Kind, Protocol};

/// The SLO, and the time after which clients give up: fifty service times.
pub const SLO: Duration = Duration::from_millis(100);

/// How long the lock is held.
const HOLD: Duration = Duration::from_millis(2);

/// How a capacity is measured: three times as much as can be served, and nobody gives up.
const CALIBRATION: Length = Length { warm_up_s: 1, time_s: 3 };
const CALIBRATION_RATE: &str = "3x";

/// How much the capacities of both stacks may differ before that is told.
const UNLIKE: f64 = 0.05;

/// How long a load may take beyond its time.
const SLACK: Duration = Duration::from_secs(20);

/// How long a point takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Seconds before the measured ones, in which algorithms learn.
    pub warm_up_s: u32,
    /// Seconds that are measured.
    pub time_s: u32,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Experiments, by their names.
    pub experiments: Vec<&'static Experiment>,
    /// Rows.
    pub rows: Vec<&'static Row>,
    /// Loads of quick runs only.
    pub quick: bool,
    /// How often.
    pub rounds: u32,
    /// How long each time.
    pub length: Length,
}

/// What it takes to measure.
#[derive(Clone, Debug)]
pub struct Bench {
    /// What runs.
    pub programs: Programs,
    /// Where.
    pub cores: Cores,
    /// Where results and configurations are written.
    pub folder: PathBuf,
}

impl Plan {
    /// The loads of an experiment.
    pub fn loads(&self, experiment: &Experiment) -> &'static [&'static str] {
        if self.quick { experiment.quick } else { experiment.loads }
    }

    /// The rows of an experiment.
    pub fn rows(&self, experiment: &Experiment) -> Vec<&'static Row> {
        let takes_part = |row: &&&Row| !experiment.is_overhead || row.has_overhead;
        self.rows.iter().filter(takes_part).copied().collect()
    }

    /// All points, in the order in which they are measured.
    pub fn points(&self) -> Vec<(&'static Experiment, &'static Row, Key)> {
        let mut points = Vec::new();
        for round in 1..=self.rounds {
            for experiment in &self.experiments {
                let rows = self.rows(experiment);
                for (step, rate) in self.loads(experiment).iter().enumerate() {
                    for turn in 0..rows.len() {
                        // Nobody is always the first.
                        let row = rows[(turn + step + round as usize) % rows.len()];
                        points.push((*experiment, row, self.key(experiment, row, rate, round)));
                    }
                }
            }
        }
        points
    }

    fn key(&self, experiment: &Experiment, row: &Row, rate: &str, round: u32) -> Key {
        Key {
            experiment: experiment.name.into(),
            row: row.name.into(),
            rate: rate.into(),
            round,
            warm_up_s: self.length.warm_up_s,
            time_s: if experiment.over_time {
                // Up to four seconds after the load has gone back.
                18_u32.saturating_sub(self.length.warm_up_s).max(1)
            } else {
                self.length.time_s
            },
        }
    }
}

impl Bench {
    /// Measures what is missing, and writes the run after each point. `tell` is told which point is
    /// next. Gives how many could not be measured, because a program did not start or failed; why
    /// is told on standard error.
    ///
    /// # Errors
    ///
    /// If capacities cannot be measured, or the run cannot be written.
    pub fn all(
        &self,
        plan: &Plan,
        run: &mut Run,
        mut tell: impl FnMut(usize, usize, &Key),
    ) -> Result<usize> {
        let file = self.file();
        self.calibrate(run)?;
        run.save(&file)?;
        let mut missing = 0;
        let points = plan.points();
        for (index, (experiment, row, key)) in points.iter().enumerate() {
            tell(index, points.len(), key);
            if run.has(key) {
                continue;
            }
            // One row that does not start is not to cost the night of all others.
            match self.point(run, experiment, row, key.clone()) {
                Ok(point) => run.points.push(point),
                Err(error) => {
                    eprintln!("{} {}, {}: {error:#}", experiment.name, key.rate, row.name);
                    missing += 1;
                }
            }
            run.save(&file)?;
        }
        Ok(missing)
    }

    /// Where the run is kept.
    pub fn file(&self) -> PathBuf {
        self.folder.join("run.json")
    }

    /// Measures what the servers can do, as far as that is not known; and for how long the lock is
    /// to be held in Rust so that both can do the same. Timers of Go come later than those of Rust.
    ///
    /// It is measured over HTTP/1.1, whose connections bound how many requests a server without a
    /// limiter has at once.
    fn calibrate(&self, run: &mut Run) -> Result<()> {
        for name in ["cpu", "lock"] {
            let experiment = experiment(name).context("the list of experiments has it")?;
            for stack in [Stack::Go, Stack::Rust] {
                let name = capacity_name(stack, experiment);
                if run.capacities.contains_key(&name) {
                    continue;
                }
                let mut capacity = self.capacity(run, experiment, stack)?;
                if stack == Stack::Rust && experiment.work == Kind::Lock {
                    let go = run.capacities[&capacity_name(Stack::Go, experiment)];
                    let longer = Duration::from_secs_f64((1.0 / go - 1.0 / capacity).max(0.0));
                    run.hold_us = Some((HOLD + longer).as_micros() as u64);
                    capacity = self.capacity(run, experiment, stack)?;
                    if (capacity / go - 1.0).abs() > UNLIKE {
                        eprintln!(
                            "warning: {go:.0}/s in Go and {capacity:.0}/s in Rust should be one \
                             capacity; is the machine busy with something else?"
                        );
                    }
                }
                eprintln!("capacity of {name}: {capacity:.0}/s");
                run.capacities.insert(name, capacity);
            }
        }
        Ok(())
    }

    fn capacity(&self, run: &Run, experiment: &Experiment, stack: Stack) -> Result<f64> {
        let plain = ROWS.iter().find(|row| row.stack == stack && row.peer == "none");
        let plain = plain.context("each stack has a row without a limiter")?;
        let server = self.programs.serve(plain, experiment, hold(run, stack), self.cores)?;
        let key = Key {
            experiment: experiment.name.into(),
            row: plain.name.into(),
            rate: CALIBRATION_RATE.into(),
            round: 1,
            warm_up_s: CALIBRATION.warm_up_s,
            time_s: CALIBRATION.time_s,
        };
        let load = self.load(experiment, &server, &key, None, |_| {})?;
        Ok(load.summary.total.throughput)
    }

    fn point(&self, run: &Run, experiment: &Experiment, row: &Row, key: Key) -> Result<Point> {
        let Self { programs, cores, folder, .. } = self;
        let server = programs.serve(row, experiment, hold(run, row.stack), *cores)?;
        let front = programs.front(row, experiment, server.address, folder, *cores)?;
        let entry = front.as_ref().unwrap_or(&server);
        let mut times = Vec::new();
        let load = self.load(experiment, entry, &key, Some(SLO), |at| {
            times.push((at, server.cpu_time(), front.as_ref().and_then(Running::cpu_time)));
        })?;
        let [(begin, server_0, front_0), (end, server_1, front_1)] = times[..] else {
            bail!("the load began and ended once");
        };
        let used = |before: Option<Duration>, after: Option<Duration>| {
            Some(after?.saturating_sub(before?).as_secs_f64())
        };
        let offered = load.summary.total.offered_count.max(1) as f64;
        let each = |seconds: f64| seconds * 1e6 / offered;
        let server_used = used(server_0, server_1);
        Ok(Point {
            key,
            server_cpu_us: server_used.map(each),
            front_cpu_us: used(front_0, front_1).map(each),
            busy: server_used.map(|used| used / (end - begin).as_secs_f64()),
            load,
        })
    }

    /// Offers a load, as `seawall load` does; `around` is called when the measured time begins and
    /// when it ends.
    fn load(
        &self,
        experiment: &Experiment,
        entry: &Running,
        key: &Key,
        deadline: Option<Duration>,
        mut around: impl FnMut(Instant),
    ) -> Result<Measured> {
        let scheme = match experiment.protocol {
            Protocol::Http => "http",
            Protocol::Grpc => "grpc",
        };
        let mut command = Command::new(&self.programs.seawall);
        command.args(["load", "--json", "--sleep"]);
        let mut set = |name: &str, value: &str| {
            command.arg(format!("--{name}={value}"));
        };
        set("requests", experiment.requests);
        set("rate", &key.rate);
        set("capacity", &experiment.capacity.to_string());
        set("slo", &format!("{}ms", SLO.as_millis()));
        set("sessions", &experiment.connections().to_string());
        set("warm-up", &format!("{}s", key.warm_up_s));
        set("time", &format!("{}s", key.time_s));
        set("seed", &key.round.to_string());
        if let Some(deadline) = deadline {
            set("deadline", &format!("{}ms", deadline.as_millis()));
        }
        if experiment.protocol == Protocol::Grpc {
            // failsafe-go's refusals reach clients as 7 or 2, which no workload answers otherwise.
            set("refusals", "2,7,8,14");
        }
        if experiment.over_time {
            command.arg("--bins");
        }
        command.arg(format!("{scheme}://{}", entry.address));
        // A file, since what is said may be longer than a pipe holds.
        let said = self.folder.join("load.json");
        let output = File::create(&said).with_context(|| format!("cannot write {said:?}"))?;
        command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
        let child = on_core(self.cores.load, || command.spawn())?;
        let child = child.with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let begin = Instant::now() + Duration::from_secs(key.warm_up_s.into());
        let end = begin + Duration::from_secs(key.time_s.into());
        for at in [begin, end] {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            around(Instant::now());
        }
        wait(child, end + SLACK)?;
        let text = std::fs::read_to_string(&said)?;
        serde_json::from_str(&text).context("what `seawall load` says is not understood")
    }
}

/// Waits for a load that is to end before `until`.
fn wait(mut child: Child, until: Instant) -> Result<()> {
    while child.try_wait()?.is_none() {
        if Instant::now() > until {
            _ = child.kill();
            _ = child.wait();
            bail!("`seawall load` does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("`seawall load` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The name of a capacity in [`Run::capacities`].
pub fn capacity_name(stack: Stack, experiment: &Experiment) -> String {
    let work = match experiment.work {
        // A mix is limited by its lock.
        Kind::Mix => "lock",
        _ => experiment.work(),
    };
    format!("{}/{work}", stack.name())
}

/// For how long a lock is held.
fn hold(run: &Run, stack: Stack) -> Duration {
    match (stack, run.hold_us) {
        (Stack::Rust, Some(us)) => Duration::from_micros(us),
        _ => HOLD,
    }
}
