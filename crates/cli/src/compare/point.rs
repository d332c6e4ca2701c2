//! What was measured of one variant at one rate, and what all of it is in a file.

use seawall_measure::latency::Slower;
use seawall_measure::recorder::Figures;
use seawall_measure::{Bin, ClassSummary};
use seawall_sim::outcome::of_requests;
use seawall_sim::plan::{Measured, Params};
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::load::retries::Retries;
use crate::serve::{Forecast, Stages};

/// Metrics beside those of [`Figures`].
pub(super) const METRICS: [&str; 3] = ["busy", "lateness_p99_us", "sent_again_share"];

/// Everything that was measured: what `--json` prints and `--save` keeps.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Results {
    /// What the plan is about.
    pub(super) title: String,
    /// Where it was measured.
    pub(super) host: Host,
    /// What a reader of the numbers should know, as sentences.
    pub(super) notes: Vec<String>,
    /// The points, in order of rates, variants and rounds.
    pub(super) points: Vec<Point>,
}

/// One run. Unlike one of the simulator, it has no numbers that only a simulator knows.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Point {
    /// Which case of the plan it is.
    pub(super) params: Params,
    /// The round, from 1; those of one round have equal arrivals.
    pub(super) round: u64,
    /// Whether the load was offered in time.
    pub(super) valid: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) invalid_reason: Option<String>,
    /// 99th percentile of how late the generator was.
    pub(super) lateness_p99_us: Option<f64>,
    /// The algorithm that the server ran.
    pub(super) algorithm: String,
    /// Client sessions.
    pub(super) sessions: u32,
    /// The SLO, in microseconds.
    pub(super) slo_us: f64,
    /// All requests.
    pub(super) figures: Figures,
    /// Those of each class.
    pub(super) classes: Vec<ClassSummary>,
    /// Part of the time of the server's cores that its process used, 0 to 1; `None` where the
    /// system does not tell, or the run was too short.
    pub(super) busy: Option<f64>,
    /// What was sent again or as copies, over the whole run; `None` without `load.retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retries: Option<Retries>,
    /// What the first request that failed was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
    /// Of the last point of a variant: the stages at which requests had to wait, since the server
    /// started; the longest total wait first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) stages: Vec<Contended>,
    /// The run over time, if a figure shows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) series: Vec<Bin>,
    /// The distribution of the latencies, if a figure shows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) ccdf: Vec<Slower>,
}

/// Stages of one name, such as the item locks of a store.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Contended {
    pub(super) name: String,
    pub(super) kind: String,
    /// How many of them were contended.
    pub(super) stages: u64,
    pub(super) waited_s: f64,
    pub(super) waits: u64,
    pub(super) refusals: u64,
    pub(super) given_up: u64,
    pub(super) acquisitions: u64,
    /// Mean time for which one is held; of several stages the mean over their acquisitions.
    pub(super) hold_us: f64,
    /// Of each of them, the holds whose holders said what they did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) forecasts: Vec<Forecast>,
}

impl Measured for Point {
    fn params(&self) -> &Params {
        &self.params
    }

    fn seed(&self) -> u64 {
        self.round
    }

    fn slo_us(&self) -> f64 {
        self.slo_us
    }

    fn metric(&self, name: &str) -> Option<f64> {
        match name {
            "busy" => self.busy,
            "lateness_p99_us" => self.lateness_p99_us,
            "sent_again_share" => self.retries.map(|retries| retries.sent_again_share),
            _ => of_requests(&self.figures, &self.classes, name),
        }
    }

    fn classes(&self) -> &[ClassSummary] {
        &self.classes
    }

    fn series(&self) -> &[Bin] {
        &self.series
    }

    fn ccdf(&self) -> &[Slower] {
        &self.ccdf
    }

    fn is_valid(&self) -> bool {
        self.valid
    }
}

impl Point {
    /// Its labels in words.
    pub(super) fn name(&self) -> String {
        let label = |name: &str| self.params.0.get(name).map_or("", String::as_str);
        format!("{} at {}/s, round {}", label("variant"), label("rate"), self.round)
    }

    /// What must be known of it before it is believed.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let reason = || self.invalid_reason.as_deref().unwrap_or("no reason is known");
        let invalid = (!self.valid).then(|| format!("* {}: {}", self.name(), reason()));
        let failed = self.failure.as_ref().map(|failure| {
            let count = self.figures.failed;
            format!("{}: {count} requests failed, the first one with: {failure}", self.name())
        });
        invalid.into_iter().chain(failed)
    }
}

impl Contended {
    /// The stages of each name together, in order of their first.
    pub(super) fn by_name(report: Stages) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for stage in report.stages {
            let one = Self {
                name: stage.name,
                kind: stage.kind,
                stages: 1,
                waited_s: stage.waited_s,
                waits: stage.waits,
                refusals: stage.refusals,
                given_up: stage.given_up,
                acquisitions: stage.acquisitions,
                hold_us: stage.hold_us,
                forecasts: stage.forecasts,
            };
            match all.iter_mut().find(|known| known.name == one.name && known.kind == one.kind) {
                Some(known) => known.add(one),
                None => all.push(one),
            }
        }
        all.sort_by(|a, b| b.waited_s.total_cmp(&a.waited_s));
        all
    }

    fn add(&mut self, other: Self) {
        let held = |one: &Self| one.hold_us * one.acquisitions as f64;
        let held = held(self) + held(&other);
        self.stages += other.stages;
        self.waited_s += other.waited_s;
        self.waits += other.waits;
        self.refusals += other.refusals;
        self.given_up += other.given_up;
        self.acquisitions += other.acquisitions;
        self.hold_us = held / (self.acquisitions.max(1)) as f64;
        self.forecasts.extend(other.forecasts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_of_one_name_are_one() {
        let stage = |name: &str, waited_s: f64, acquisitions: u64, hold_us: f64| {
            serde_json::json!({
                "stage": 16, "name": name, "kind": "mutex", "waited_s": waited_s, "waits": 2,
                "given_up": 0, "refusals": 3, "acquisitions": acquisitions, "hold_us": hold_us,
                "waiters": 0, "oldest_us": 0.0, "prediction_error": null,
                "forecasts": [{
                    "work": name, "unit_ns": 5.0, "base_us": 1.0, "predictions": acquisitions,
                    "hold_us": hold_us, "within_4ms": 0.5, "within_8ms": 1.0, "bias_us": -2.0,
                    "error_p50_us": 2.0, "error_p95_us": 3.0,
                }],
            })
        };
        let stages = [stage("slab", 1.5, 5, 1.0), stage("item", 1.0, 1, 4.0)];
        let stages = [&stages[..], &[stage("item", 0.75, 3, 8.0)]].concat();
        let report = serde_json::from_value(serde_json::json!({ "stages": stages })).unwrap();
        let all = Contended::by_name(report);
        assert_eq!(all.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["item", "slab"]);
        let item = &all[0];
        assert_eq!((item.stages, item.waits, item.refusals, item.acquisitions), (2, 4, 6, 4));
        let predictions: Vec<u64> = item.forecasts.iter().map(|it| it.predictions).collect();
        assert_eq!(predictions, [1, 3], "each lock has its own");
        assert!((item.waited_s - 1.75).abs() < 1e-9 && (item.hold_us - 7.0).abs() < 1e-9);
    }
}
