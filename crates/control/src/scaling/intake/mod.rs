//! From what containers report to what policies look at.
//!
//! Running sums become differences, differences become *blocks* of at least [`Config::samples_min`]
//! requests, and blocks become averages over [`Config::window`]. A report that is absurd is counted
//! and does not count otherwise.

mod check;
#[cfg(test)]
mod tests;
mod track;

use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use self::track::Track;
use super::profile::Baseline;
use super::refusals::{Absurd, Refusals};
use super::roster::Roster;
use super::{Container, ContainerId, Expected, Node, Snapshot};
use crate::config::{ConfigError, duration};
use crate::time::Instant;

/// How reports are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Over which averages are taken: older samples have lost 63 % of their weight. A hint, or a
    /// request that was shed, counts for as long. Default 20 ms, the 200 requests that the paper's
    /// services average over at 10,000 requests per second. 10us to 1m. Shorten it where surges are
    /// shorter; but see `samples_min`.
    #[serde(with = "duration")]
    pub window: Duration,
    /// Requests below which a mean means nothing: fewer are kept until there are as many. Default
    /// 10: that the mean of so many exponential times is twice its expectation by chance happens
    /// once in 200 cases. 1 to 10,000.
    pub samples_min: u64,
    /// A container that has no request for so long is idle and holds on to nothing; averages that
    /// are older are forgotten. Default 1s. 1ms to 1h.
    #[serde(with = "duration")]
    pub idle_after: Duration,
    /// No request is believed to take longer, and no job to have begun longer ago. Default 1m. 1ms
    /// to 1h.
    #[serde(with = "duration")]
    pub longest: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: Duration::from_millis(20),
            samples_min: 10,
            idle_after: Duration::from_secs(1),
            longest: Duration::from_mins(1),
        }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let (ms, minute, hour) =
            (Duration::from_millis(1), Duration::from_mins(1), Duration::from_hours(1));
        check_duration("intake.window", self.window, Duration::from_micros(10), minute)?;
        ConfigError::check_range("intake.samples_min", self.samples_min, 1..=10_000)?;
        check_duration("intake.idle_after", self.idle_after, ms, hour)?;
        check_duration("intake.longest", self.longest, ms, hour)
    }
}

/// Passes when a duration lies between two others.
pub(super) fn check_duration(
    field: &'static str,
    value: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), ConfigError> {
    ConfigError::check_range(
        field,
        duration::Text(value),
        duration::Text(least)..=duration::Text(most),
    )
}

/// A container as policies see it.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) id: ContainerId,
    pub(super) units: u32,
    /// At least 1.
    pub(super) floor: u32,
    /// At least `floor`.
    pub(super) limit: u32,
    pub(super) level: u16,
    pub(super) hint: u16,
    pub(super) depth: u16,
    /// What is expected: given, or else learned.
    pub(super) expected: Expected,
    /// What it looks like at low load.
    pub(super) baseline: Baseline,
    /// Averages over the window. Absent until there are any, and when the latest are old.
    pub(super) recent: Option<Means>,
    /// `queueBuildup` over the window, waits that have not ended among it.
    pub(super) queue_buildup: Option<f64>,
    /// The samples that became enough with this snapshot.
    pub(super) block: Option<Block>,
    /// Requests have lately brought an upscale hint.
    pub(super) is_hinted: bool,
    /// Requests have lately been shed for want of CPU.
    pub(super) is_shedding: bool,
    /// It has had no requests for long.
    pub(super) is_idle: bool,
    /// It began anew since the last snapshot.
    pub(super) is_restarted: bool,
    /// CPU that it used since the last snapshot, in units, and since when.
    pub(super) used: Option<Used>,
}

impl Measured {
    /// Execution without waits for connections, as a multiple of what is expected.
    pub(super) fn exec_ratio(&self) -> Option<f64> {
        self.ratio(self.recent?.exec_metric)
    }

    /// Execution with these waits, as a multiple of what is expected.
    pub(super) fn latency_ratio(&self) -> Option<f64> {
        self.ratio(self.recent?.exec_time)
    }

    fn ratio(&self, nanos: f64) -> Option<f64> {
        let expected = self.expected.exec.filter(|exec| !exec.is_zero())?;
        Some(nanos / expected.as_nanos() as f64)
    }

    /// `queueBuildup` as a multiple of what it is at low load.
    pub(super) fn queue_ratio(&self) -> Option<f64> {
        Some(self.queue_buildup? / self.baseline.queue_buildup)
    }
}

/// CPU time that was used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    /// Units, on average.
    pub(super) units: f64,
    /// For how long.
    pub(super) span: Duration,
}

/// Enough requests to say something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// When the first of them may have ended.
    pub(super) began: Instant,
    pub(super) requests: u64,
    pub(super) means: Means,
}

/// Means over requests, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Means {
    /// `execMetric`.
    pub(super) exec_metric: f64,
    /// `execTime`, which contains it.
    pub(super) exec_time: f64,
    /// From the start of the job, where services say when that was.
    pub(super) time_from_start: Option<f64>,
    /// Of that, for each service before, what its execution does not explain: the residual form of
    /// the hint, as the artifact computes it.
    pub(super) residual: Option<f64>,
}

/// Waits for connections count up to so many times the execution: a container that does nothing
/// but wait has no finite ratio.
const QUEUE_BUILDUP_MAX: f64 = 1e6;

impl Means {
    /// `execTime / execMetric` (SurgeGuard equation 3).
    pub(super) fn queue_buildup(&self) -> f64 {
        if self.exec_time <= 0.0 {
            return 1.0;
        }
        (self.exec_time / self.exec_metric).min(QUEUE_BUILDUP_MAX)
    }
}

/// Reads snapshots.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    config: Config,
    tracks: Roster<Track>,
    refusals: Refusals,
}

impl Intake {
    pub(super) fn new(config: Config) -> Self {
        Self { config, tracks: Roster::default(), refusals: Refusals::default() }
    }

    /// The containers of this snapshot in the order of their ids.
    pub(super) fn read(&mut self, now: Instant, snapshot: &Snapshot) -> Vec<Measured> {
        let mut containers: Vec<&Container> = snapshot.containers.iter().collect();
        // Stable, so that the first of two with the same id stays the first.
        containers.sort_by_key(|container| container.id);
        containers.dedup_by(|second, first| {
            let is_double = second.id == first.id;
            if is_double {
                self.refusals.count(Absurd::Duplicate);
            }
            is_double
        });
        self.tracks.align(containers.iter().map(|container| container.id), |_| Track::default());
        let Self { config, tracks, refusals } = self;
        let mut measured = Vec::with_capacity(containers.len());
        for (at, container) in containers.into_iter().enumerate() {
            let mut row = accept(container, &snapshot.node, refusals);
            tracks[at].read(now, config, snapshot.node.unit_milli, container, &mut row, refusals);
            measured.push(row);
        }
        measured
    }

    pub(super) fn refusals(&self) -> &Refusals {
        &self.refusals
    }
}

/// A node whose ladder has a step and whose base is on it.
pub(super) fn sound(node: Node) -> Node {
    let levels = node.levels.max(1);
    Node { levels, level_base: node.level_base.min(levels - 1), ..node }
}

/// What is said of the container itself, made sound.
fn accept(container: &Container, node: &Node, refusals: &mut Refusals) -> Measured {
    let floor = container.floor.max(1);
    let limit = container.limit.max(floor);
    if floor != container.floor || limit != container.limit {
        refusals.count(Absurd::Bounds);
    }
    if container.units < floor || container.units > limit {
        refusals.count(Absurd::UnitsChanged);
    }
    let level_max = sound(*node).levels - 1;
    if container.level > level_max {
        refusals.count(Absurd::Level);
    }
    Measured {
        id: container.id,
        units: container.units,
        floor,
        limit,
        level: container.level.min(level_max),
        hint: container.hint,
        depth: container.depth,
        expected: container.expected,
        baseline: Baseline::default(),
        recent: None,
        queue_buildup: None,
        block: None,
        is_hinted: false,
        is_shedding: false,
        is_idle: false,
        is_restarted: false,
        used: None,
    }
}
