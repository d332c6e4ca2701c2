//! The stages of this process at which requests had to wait: for the metrics endpoint, and in order
//! at the end, for whoever looks for the lock to replace (Protego §4).

use std::collections::BTreeMap;
use std::time::Duration;

use seawall_control::estimate::Histogram;
use seawall_control::predict::hold;
use seawall_measure::names;
use seawall_sync::contention::{self, Name, Report, Snapshot};
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
    /// The holds whose holders said what they did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) forecasts: Vec<Forecast>,
}

/// How well one kind of hold is predicted. Errors are those of the newest 1000 predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Forecast {
    /// What the holder says that it does.
    pub(crate) work: String,
    /// Time for each unit of it, and beside that, as learnt lately.
    unit_ns: f64,
    base_us: f64,
    pub(crate) predictions: u64,
    /// How long it really took, on average.
    pub(crate) hold_us: f64,
    /// Shares with an error of at most so much.
    pub(crate) within_4ms: f64,
    pub(crate) within_8ms: f64,
    /// Mean error, positive if predictions are too long.
    pub(crate) bias_us: f64,
    pub(crate) error_p50_us: f64,
    pub(crate) error_p95_us: f64,
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
        forecasts: measured.forecasts.iter().filter_map(forecast).collect(),
    }
}

/// Nothing before the first prediction.
fn forecast(learnt: &hold::Forecast) -> Option<Forecast> {
    let precision = &learnt.precision;
    let within = |ms| precision.within(Duration::from_millis(ms));
    let error_us = |q| precision.error(q).map(|error| error.as_secs_f64() * 1e6);
    Some(Forecast {
        work: learnt.label.to_owned(),
        unit_ns: learnt.per_unit * 1e9,
        base_us: learnt.base * 1e6,
        predictions: precision.count(),
        hold_us: precision.real_mean()? * 1e6,
        within_4ms: within(4)?,
        within_8ms: within(8)?,
        bias_us: precision.bias()? * 1e6,
        error_p50_us: error_us(0.5)?,
        error_p95_us: error_us(0.95)?,
    })
}

/// How long was waited at stages, as it was handed to the recorder last.
pub(super) type Waits = BTreeMap<Name, Histogram>;

/// Hands everything to the recorder that the process has installed for the `metrics` facade, of the
/// waits what was not in `handed`. Stages of one name are one.
pub(super) fn publish(handed: &mut Waits) {
    for (name, times) in contention::wait_times() {
        let before = handed.entry(name).or_default();
        let recorded = metrics::histogram!(names::STAGE_WAIT.name, "stage" => name.to_string());
        for (mean, count) in times.since(before).means() {
            recorded.record_many(mean.as_secs_f64(), count as usize);
        }
        *before = times;
    }
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
        metrics::gauge!(names::STAGE_DELAY.name, "stage" => stage.clone())
            .set(oldest.as_secs_f64());
        publish_holds(&stage, &all);
    }
}

/// Holds of the same work at stages of one name are one; the error is that of the least precise.
fn publish_holds(stage: &str, all: &[Snapshot]) {
    let mut works: BTreeMap<&'static str, (u64, Duration)> = BTreeMap::new();
    for learnt in all.iter().flat_map(|stage| &stage.forecasts) {
        let Some(error) = learnt.precision.error(0.95) else { continue };
        let (predictions, worst) = works.entry(learnt.label).or_default();
        *predictions += learnt.precision.count();
        *worst = error.max(*worst);
    }
    for (work, (predictions, error)) in works {
        let labels = [("stage", stage.to_owned()), ("work", work.to_owned())];
        metrics::counter!(names::STAGE_HOLDS.name, &labels).absolute(predictions);
        metrics::gauge!(names::STAGE_HOLD_ERROR.name, &labels).set(error.as_secs_f64());
    }
}
