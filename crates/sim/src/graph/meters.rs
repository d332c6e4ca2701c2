//! What a run of a graph is measured by.

use std::time::Duration;

use seawall_control::Instant;
use seawall_control::scaling::Change;
use seawall_measure::{
    Outcome as Ending, Process, Recorder, RecorderConfig, Series, SeriesConfig, Violation,
    ViolationConfig,
};

use super::container::Used;
use super::machine::Machine;
use super::outcome::Sample;
use crate::scenario::Scenario;

/// All meters of a run.
#[derive(Debug)]
pub(super) struct Meters {
    pub(super) recorder: Recorder,
    pub(super) series: Option<Series>,
    pub(super) violation: Violation,
    pub(super) surges: Surges,
    pub(super) samples: Vec<Sample>,
    pub(super) changes: Changes,
    /// The most units that the containers had together.
    pub(super) units_peak: u32,
    /// What each container had used when the measured time began, and when it ended.
    begun: Vec<Used>,
    pub(super) used: Vec<Used>,
    process: Process,
    latency_at_low_load: Duration,
    sum_ns: u128,
    count: u64,
}

/// What happened in surges of the measured time.
#[derive(Debug, Default)]
pub(super) struct Surges {
    begun: Option<(Instant, Vec<Used>)>,
    seconds: f64,
    /// What each container used in them.
    pub(super) used: Vec<Used>,
    /// Jobs that were due in them.
    pub(super) jobs: u64,
    sum_ns: u128,
    pub(super) longest: Duration,
}

/// Decisions that were carried out in the measured time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changes {
    pub(super) units: u64,
    pub(super) levels: u64,
    pub(super) hints: u64,
    pub(super) boosts: u64,
}

impl Meters {
    pub(super) fn new(scenario: &Scenario, slo: Duration, low: Duration) -> Self {
        let window = scenario.window();
        let slo = slo.max(Duration::from_nanos(1));
        let start = Instant::ORIGIN;
        let series = scenario.run.bin.map(|bin| {
            let config = SeriesConfig { bin, ..SeriesConfig::new(start, window.end, slo) };
            Series::new(config).expect("the scenario's bins were checked")
        });
        let mut violation = ViolationConfig::new(slo, window);
        if let Some(config) = &scenario.graph {
            violation.bin = config.violation_bin;
        }
        let recorder = RecorderConfig::new(slo, window);
        Self {
            recorder: Recorder::new(recorder).expect("the scenario was checked"),
            series,
            violation: Violation::new(violation).expect("the scenario was checked"),
            surges: Surges::default(),
            samples: Vec::new(),
            changes: Changes::default(),
            units_peak: 0,
            begun: Vec::new(),
            used: Vec::new(),
            process: scenario.workload.arrivals,
            latency_at_low_load: low,
            sum_ns: 0,
            count: 0,
        }
    }

    /// A job is done.
    pub(super) fn answered(&mut self, due: Instant, now: Instant) {
        self.recorder.record(0, due, now, Ending::Success);
        if let Some(series) = &mut self.series {
            series.record(due, now, Ending::Success);
        }
        self.violation.record(due, now);
        self.count(due, now);
    }

    /// A job was not done when nobody waited any more.
    pub(super) fn unanswered(&mut self, due: Instant, now: Instant) {
        self.recorder.record(0, due, now, Ending::Unanswered);
        self.violation.record_unanswered(due);
        self.count(due, now);
    }

    fn count(&mut self, due: Instant, now: Instant) {
        let latency = now.since(due);
        self.sum_ns += latency.as_nanos();
        self.count += 1;
        let is_measured = self.recorder.config().window.contains(due);
        if let Process::Bursts(bursts) = self.process
            && is_measured
            && bursts.contains(due.since(Instant::ORIGIN))
        {
            self.surges.jobs += 1;
            self.surges.sum_ns += latency.as_nanos();
            self.surges.longest = self.surges.longest.max(latency);
        }
    }

    /// The measured time begins.
    pub(super) fn begin(&mut self, machine: &Machine) {
        self.begun = used(machine);
        self.changes = Changes::default();
        self.units_peak = machine.units();
    }

    /// It ends.
    pub(super) fn end(&mut self, machine: &Machine) {
        let begun = std::mem::take(&mut self.begun);
        self.used = used(machine).iter().zip(begun).map(|(now, then)| now.since(then)).collect();
    }

    /// A surge begins, or ends.
    pub(super) fn surge(&mut self, now: Instant, on: bool, machine: &Machine) {
        let window = self.recorder.config().window;
        let surges = &mut self.surges;
        if on {
            surges.begun = (now >= window.start).then(|| (now, used(machine)));
        } else if let Some((since, begun)) = surges.begun.take() {
            surges.seconds += now.since(since).as_secs_f64();
            surges.used.resize(begun.len(), Used::default());
            for ((sum, now), then) in surges.used.iter_mut().zip(used(machine)).zip(begun) {
                sum.add(now.since(then));
            }
        }
    }

    /// A decision is carried out.
    pub(super) fn decided(&mut self, change: &Change) {
        match change {
            Change::Units { .. } => self.changes.units += 1,
            Change::Level { .. } => self.changes.levels += 1,
            Change::Hint { .. } => self.changes.hints += 1,
        }
    }

    /// FirstResponder raised a frequency.
    pub(super) fn boosted(&mut self) {
        self.changes.boosts += 1;
    }

    /// Containers may have other units now.
    pub(super) fn units_changed(&mut self, now: Instant, machine: &Machine) {
        if self.recorder.config().window.contains(now) {
            self.units_peak = self.units_peak.max(machine.units());
        }
    }

    /// A bin of the time series is over.
    pub(super) fn sample(&mut self, now: Instant, machine: &Machine) {
        let containers = &machine.containers;
        self.samples.push(Sample {
            at_s: now.since(Instant::ORIGIN).as_secs_f64(),
            units: containers.iter().map(|container| container.cpu.units()).collect(),
            levels: (0..containers.len() as u16).map(|at| machine.level(at)).collect(),
        });
    }

    pub(super) fn latency_at_low_load(&self) -> Duration {
        self.latency_at_low_load
    }

    /// The mean of all jobs.
    pub(super) fn mean_latency(&self) -> Duration {
        mean(self.sum_ns, self.count)
    }
}

impl Surges {
    /// The mean latency of jobs that were due in a surge.
    pub(super) fn mean_latency(&self) -> Duration {
        mean(self.sum_ns, self.jobs)
    }

    /// Units that the containers had, on average; `None` when there was no surge.
    pub(super) fn cores(&self) -> Option<f64> {
        let granted: f64 = self.used.iter().map(|used| used.granted).sum();
        (self.seconds > 0.0).then(|| granted / 1e9 / self.seconds)
    }
}

fn mean(sum_ns: u128, count: u64) -> Duration {
    Duration::from_nanos((sum_ns / u128::from(count.max(1))) as u64)
}

fn used(machine: &Machine) -> Vec<Used> {
    machine.containers.iter().map(|container| container.cpu.used()).collect()
}
