//! What was measured of one contender in one round.

use seawall_measure::recorder::Figures;
use seawall_measure::violation::{CurvePoint, Volume};
use serde::{Deserialize, Serialize};

use super::agent::Done;
use super::timeline::Allocation;
use crate::host::Host;

/// Everything that was measured: what `--json` prints and `--save` keeps.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Results {
    /// What the plan is about.
    pub(super) title: String,
    /// Where it was measured.
    pub(super) host: Host,
    /// What a reader of the numbers should know, as sentences.
    pub(super) notes: Vec<String>,
    /// Names of the services, in the table's order.
    pub(super) services: Vec<String>,
    /// What is usual at low load.
    pub(super) usual: Vec<Expectation>,
    /// Mean latency of a job at low load, in milliseconds.
    pub(super) calm_ms: f64,
    /// The latency that jobs should not exceed, in milliseconds.
    pub(super) qos_ms: f64,
    /// Units of all services at first, and those that there are.
    pub(super) units: (u32, u32),
    /// The points, in order of contenders and rounds.
    pub(super) points: Vec<Point>,
}

/// What is expected of one service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Expectation {
    pub(super) service: String,
    pub(super) exec_ms: f64,
    pub(super) time_from_start_ms: f64,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Point {
    pub(super) contender: String,
    /// The round, from 1; those of one round have equal arrivals.
    pub(super) round: u32,
    /// Whether the load was offered in time.
    pub(super) valid: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) invalid_reason: Option<String>,
    /// All jobs of the measured time.
    pub(super) figures: Figures,
    /// 98th percentile of the latency, in milliseconds.
    pub(super) p98_ms: Option<f64>,
    /// Violation volume by both definitions.
    pub(super) volume: Volume,
    /// Mean units of all services.
    pub(super) units_used: f64,
    /// Mean CPUs that the services' processes really used, if the system tells.
    pub(super) cpus: Option<f64>,
    /// What the agent did.
    pub(super) agent: Done,
    /// Each service over the measured time.
    pub(super) services: Vec<Service>,
    /// Latency over time, from the begin of the measured time.
    pub(super) curve: Vec<CurvePoint>,
    /// Units over time, from the begin of the load.
    pub(super) allocations: Vec<Allocation>,
    /// When the measured time began, in seconds since the begin of the load.
    pub(super) measured_from_s: f64,
    /// What the first job that failed was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
}

/// One service over the measured time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Service {
    pub(super) requests: u64,
    /// Mean execution without waits for connections, in milliseconds.
    pub(super) exec_metric_ms: f64,
    /// Execution over that (SurgeGuard §III-A).
    pub(super) queue_buildup: f64,
    /// Most units that it had.
    pub(super) units_max: u32,
}

impl Results {
    /// The points of a contender.
    pub(super) fn of<'a>(&'a self, contender: &'a str) -> impl Iterator<Item = &'a Point> {
        self.points.iter().filter(move |point| point.contender == contender)
    }
}

impl Point {
    /// What must be known of it before it is believed.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let name = format!("{}, round {}", self.contender, self.round);
        let reason = self.invalid_reason.clone().unwrap_or_else(|| "no reason is known".into());
        let invalid = (!self.valid).then(|| format!("* {name}: {reason}"));
        let failed = self.failure.as_ref().map(|failure| {
            let count = self.figures.failed;
            format!("{name}: {count} jobs failed, the first one with: {failure}")
        });
        invalid.into_iter().chain(failed)
    }
}
