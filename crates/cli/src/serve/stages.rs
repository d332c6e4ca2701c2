//! The stages of this process at which requests had to wait: for the metrics endpoint, and in order
//! at the end, for whoever looks for the lock to replace (Protego §4).

use std::collections::BTreeMap;

use seawall_measure::names;
use seawall_sync::contention::{self, Report, Snapshot};
use serde::{Deserialize, Serialize};

use super::requests::Class;

/// Stages as a machine reads them, those with the longest total wait first.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stages {
    pub(crate) stages: Vec<Stage>,
}

/// What a server says when it stops.
#[derive(Debug, Serialize)]
struct Words {
    requests: Vec<Class>,
    #[serde(flatten)]
    stages: Stages,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stage {
    stage: u8,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) waited_s: f64,
    pub(crate) waits: u64,
    pub(crate) given_up: u64,
    pub(crate) refusals: u64,
    pub(crate) acquisitions: u64,
    pub(crate) hold_us: f64,
    waiters: u32,
    oldest_us: f64,
    /// Null before anybody waited.
    prediction_error: Option<f64>,
}

/// A line of JSON with a line break: the requests of each class, and the stages.
///
/// # Errors
///
/// Never for a report; serde wants it.
pub(super) fn json(report: &Report, requests: Vec<Class>) -> serde_json::Result<String> {
    let stages = Stages { stages: report.stages.iter().map(stage).collect() };
    Ok(serde_json::to_string(&Words { requests, stages })? + "\n")
}

fn stage(measured: &Snapshot) -> Stage {
    Stage {
        stage: measured.stage.0,
        name: measured.name.to_string(),
        kind: measured.kind.to_string(),
        waited_s: measured.waited.as_secs_f64(),
        waits: measured.waits,
        given_up: measured.given_up,
        refusals: measured.refusals,
        acquisitions: measured.acquisitions,
        hold_us: measured.hold.as_secs_f64() * 1e6,
        waiters: measured.waiters,
        oldest_us: measured.oldest.as_secs_f64() * 1e6,
        prediction_error: measured.prediction_error,
    }
}

/// Hands everything to the recorder that the process has installed for the `metrics` facade.
/// Stages of one name are one.
pub(super) fn publish() {
    let mut named: BTreeMap<String, Vec<Snapshot>> = BTreeMap::new();
    for measured in contention::report().stages {
        named.entry(measured.name.to_string()).or_default().push(measured);
    }
    for (stage, all) in named {
        let sum = |count: fn(&Snapshot) -> u64| all.iter().map(count).sum();
        let counters = [
            (names::STAGE_ACQUISITIONS, sum(|stage| stage.acquisitions)),
            (names::STAGE_WAITS, sum(|stage| stage.waits)),
            (names::STAGE_REFUSALS, sum(|stage| stage.refusals)),
        ];
        for (metric, count) in counters {
            metrics::counter!(metric.name, "stage" => stage.clone()).absolute(count);
        }
        let waited: f64 = all.iter().map(|stage| stage.waited.as_secs_f64()).sum();
        let oldest = all.iter().map(|stage| stage.oldest).max().unwrap_or_default();
        metrics::gauge!(names::STAGE_WAITED.name, "stage" => stage.clone()).set(waited);
        metrics::gauge!(names::STAGE_DELAY.name, "stage" => stage).set(oldest.as_secs_f64());
    }
}
