//! The result in the form in which it is written to a file: an array with one object per service.
//!
//! Rates are per second, delays in microseconds unless the name says otherwise, and a *load* is a
//! multiple of the measured capacity. A delay is `None` (`null`) when there was nothing to measure.
//! The field names are a format that others read: the test below pins them.

use seawall_measure::ClassSummary;
use serde::{Deserialize, Serialize};

use super::format;

/// The name that stands in [`Point::control`] and [`SpikeRun::control`] when nothing controls the
/// load.
pub(crate) const NO_CONTROL: &str = "none";

/// A service is fast enough when it answers within this many times what it takes unloaded: the SLO
/// of Breakwater's evaluation (§5.1).
pub(crate) const SLO_FACTOR: u32 = 10;

/// Width of the bins of a [`SpikeRun`], in seconds: as in Breakwater's figure 7.
pub(crate) const SPIKE_BIN_S: f64 = 0.02;

/// Everything that was measured of one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServiceReport {
    /// The name of the service.
    pub(crate) service: String,
    /// The latency up to which a success is goodput.
    pub(crate) slo_us: f64,
    /// Round trip between generator and server without load.
    #[serde(default)]
    pub(crate) rtt_us: f64,
    /// Mean time that a request takes when nothing else is served.
    #[serde(default)]
    pub(crate) service_us: f64,
    /// Requests per second that make a load of 1.0.
    #[serde(default)]
    pub(crate) capacity: f64,
    /// The highest throughput of any valid point without control, in requests per second; `None`
    /// if none of them reached the capacity.
    pub(crate) peak_uncontrolled: Option<f64>,
    /// Sessions (connections) that the generator spread the load over.
    #[serde(default)]
    pub(crate) sessions: u32,
    /// What a reader of the numbers should know, as sentences.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// The sweep, with and without control.
    pub(crate) points: Vec<Point>,
    /// The sudden rise of the load; `None` when there was no such run.
    #[serde(default)]
    pub(crate) spike: Option<Spike>,
}

/// One steady load under one control.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Multiple of the capacity that the generator was asked to offer.
    pub(crate) load: f64,
    /// The algorithm in control, or [`NO_CONTROL`].
    pub(crate) control: String,
    /// Whether the generator offered the load on time. If not, the other numbers describe the
    /// generator rather than the server.
    pub(crate) valid: bool,
    /// Why the point is not valid.
    #[serde(default)]
    pub(crate) invalid_reason: Option<String>,
    /// How late the generator was (99th percentile).
    pub(crate) lateness_p99_us: Option<f64>,
    /// Requests per second that were offered.
    pub(crate) offered: f64,
    /// Successes per second within the SLO.
    pub(crate) goodput: f64,
    /// Successes per second that completed in the measured time, whenever they were due.
    pub(crate) throughput: f64,
    /// Median latency of the successes, from the scheduled time.
    pub(crate) p50_us: Option<f64>,
    /// 99th percentile of the same.
    pub(crate) p99_us: Option<f64>,
    /// 99.9th percentile of the same.
    #[serde(default)]
    pub(crate) p999_us: Option<f64>,
    /// Unanswered requests over these and the successes, 0 to 1. Where this exceeds 1 - q, the
    /// latency quantile q is only a lower bound.
    #[serde(default)]
    pub(crate) latency_censored: f64,
    /// Share of the offered requests that the clients gave up unsent, 0 to 1.
    pub(crate) client_drop_rate: f64,
    /// Share of the requests sent that the server refused, 0 to 1.
    pub(crate) server_drop_rate: f64,
    /// 99th percentile of the time from schedule to refusal.
    #[serde(default)]
    pub(crate) reject_p99_us: Option<f64>,
    /// Share of the offered requests that were sent and had neither result nor refusal, 0 to 1.
    #[serde(default)]
    pub(crate) lost_rate: f64,
    /// Requests without any answer at the end of the run.
    #[serde(default)]
    pub(crate) unanswered: u64,
    /// Requests that ended in an error.
    #[serde(default)]
    pub(crate) failed: u64,
    /// The numbers of each class of requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) classes: Vec<ClassSummary>,
}

/// A load that rises at once, and how the service took it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spike {
    /// How long after the rise the controlled run was stable, in milliseconds; `None` if it never
    /// was, or if that cannot be told.
    pub(crate) stable_after_ms: Option<f64>,
    /// Whether what came after the rise was too short to tell, of any run, when it was stable.
    #[serde(default)]
    pub(crate) too_short: bool,
    /// Load before the rise.
    #[serde(default)]
    pub(crate) from_load: f64,
    /// Load after it.
    #[serde(default)]
    pub(crate) to_load: f64,
    /// When it rises, in seconds since the start of the run.
    #[serde(default)]
    pub(crate) at_s: f64,
    /// Mean goodput of the controlled run before the rise, in requests per second.
    #[serde(default)]
    pub(crate) goodput_before: f64,
    /// The same after it.
    #[serde(default)]
    pub(crate) goodput_after: f64,
    /// 99th percentile of the controlled run's latency after the rise.
    #[serde(default)]
    pub(crate) p99_us_after: Option<f64>,
    /// Each run over time: usually one with control and one without.
    #[serde(default)]
    pub(crate) runs: Vec<SpikeRun>,
}

/// One run of a [`Spike`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SpikeRun {
    /// The algorithm in control, or [`NO_CONTROL`].
    pub(crate) control: String,
    /// How long after the rise this run was stable, in milliseconds; `None` if it never was, or if
    /// that cannot be told.
    pub(crate) stable_after_ms: Option<f64>,
    /// The same with every bin judged by itself, however few requests complete in it.
    #[serde(default)]
    pub(crate) stable_bin_by_bin_ms: Option<f64>,
    /// The run in bins of [`SPIKE_BIN_S`], in order of time.
    pub(crate) series: Vec<Bin>,
}

/// The numbers of one bin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bin {
    /// Begin of the bin, in seconds since the start of the run.
    pub(crate) t_s: f64,
    /// Requests per second scheduled in the bin.
    pub(crate) offered: f64,
    /// Successes per second within the SLO that completed in it.
    pub(crate) goodput: f64,
    /// Successes per second that completed in it.
    pub(crate) throughput: f64,
    /// Requests per second that were given up at the client or refused by the server in it.
    pub(crate) drops: f64,
    /// 99th percentile of the latency of the successes that completed in it.
    pub(crate) p99_us: Option<f64>,
}

/// Where and how it was measured: the foot of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Host {
    /// The processor's name.
    pub(crate) cpu_model: String,
    /// Processors (hardware threads) that the system offers.
    pub(crate) cores: usize,
    /// The kernel's name and release.
    pub(crate) kernel: String,
    /// When it was measured, as it is to be shown.
    pub(crate) date: String,
    /// Seawall's version.
    pub(crate) version: String,
    /// The command that was run.
    pub(crate) command_line: String,
}

impl Point {
    /// The 99th percentile as it is shown.
    pub(crate) fn p99(&self) -> String {
        format::quantile(self.p99_us, 0.99, self.latency_censored)
    }
}

impl Spike {
    /// When a run of it was stable, in words.
    pub(crate) fn stable(&self, after_ms: Option<f64>) -> String {
        match after_ms {
            Some(ms) => format::delay_ms(ms),
            None if self.too_short => "too short to judge".into(),
            None => "never".into(),
        }
    }
}

impl ServiceReport {
    /// What goodput is compared with: its name, and requests per second. That is the peak without
    /// control, or the capacity where the peak is not known.
    pub(crate) fn most(&self) -> (&'static str, f64) {
        self.peak_uncontrolled.map_or(("capacity", self.capacity), |peak| ("peak", peak))
    }

    /// The controls of the sweep and of the spike: the algorithms in order of appearance, then
    /// [`NO_CONTROL`] if it was measured.
    pub(crate) fn controls(&self) -> Vec<&str> {
        let runs = self.spike.iter().flat_map(|spike| &spike.runs);
        let names = self.points.iter().map(|point| &point.control);
        let mut controls: Vec<&str> = Vec::new();
        for name in names.chain(runs.map(|run| &run.control)) {
            if !controls.contains(&name.as_str()) {
                controls.push(name);
            }
        }
        controls.sort_by_key(|&control| control == NO_CONTROL);
        controls
    }

    /// The points of one control, lowest load first.
    pub(crate) fn points_of(&self, control: &str) -> Vec<&Point> {
        let mut points: Vec<&Point> =
            self.points.iter().filter(|point| point.control == control).collect();
        points.sort_by(|a, b| a.load.total_cmp(&b.load));
        points
    }

    /// The names of the classes of requests that were measured apart.
    pub(crate) fn classes(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for class in self.points.iter().flat_map(|point| &point.classes) {
            if !names.contains(&&*class.name) {
                names.push(&class.name);
            }
        }
        names
    }

    /// The points that are not valid, in the order in which all are shown.
    pub(crate) fn invalid_points(&self) -> Vec<&Point> {
        let points = self.controls().into_iter().flat_map(|control| self.points_of(control));
        points.filter(|point| !point.valid).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::sample;

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    fn sorted<const N: usize>(mut names: [&str; N]) -> [&str; N] {
        names.sort_unstable();
        names
    }

    #[test]
    fn field_names_are_pinned() {
        let json = serde_json::to_value([sample::service()]).unwrap();
        let service = &json.as_array().unwrap()[0];
        let mut found = keys(service);
        found.sort_unstable();
        let expected = sorted([
            "service",
            "slo_us",
            "rtt_us",
            "service_us",
            "capacity",
            "peak_uncontrolled",
            "sessions",
            "notes",
            "points",
            "spike",
        ]);
        assert_eq!(found, expected);
        let mut found = keys(&service["points"][0]);
        found.sort_unstable();
        let expected = sorted([
            "load",
            "control",
            "valid",
            "invalid_reason",
            "lateness_p99_us",
            "offered",
            "goodput",
            "throughput",
            "p50_us",
            "p99_us",
            "p999_us",
            "latency_censored",
            "client_drop_rate",
            "server_drop_rate",
            "reject_p99_us",
            "lost_rate",
            "unanswered",
            "failed",
            "classes",
        ]);
        assert_eq!(found, expected);
    }

    #[test]
    fn field_names_of_the_spike_are_pinned() {
        let json = serde_json::to_value(sample::service()).unwrap();
        let spike = &json["spike"];
        let mut found = keys(spike);
        found.sort_unstable();
        let expected = sorted([
            "stable_after_ms",
            "too_short",
            "from_load",
            "to_load",
            "at_s",
            "goodput_before",
            "goodput_after",
            "p99_us_after",
            "runs",
        ]);
        assert_eq!(found, expected);
        let run = &spike["runs"][0];
        let mut found = keys(run);
        found.sort_unstable();
        assert_eq!(found, sorted(["control", "stable_after_ms", "stable_bin_by_bin_ms", "series"]));
        let mut found = keys(&run["series"][0]);
        found.sort_unstable();
        let expected = sorted(["t_s", "offered", "goodput", "throughput", "drops", "p99_us"]);
        assert_eq!(found, expected);
    }

    #[test]
    fn there_and_back_is_the_same() {
        // By way of a value, since reading a number's text may change its last digit.
        let services = vec![sample::service(), sample::stalled()];
        let json = serde_json::to_value(&services).unwrap();
        let back: Vec<ServiceReport> = serde_json::from_value(json).unwrap();
        assert_eq!(back, services);
        let text = serde_json::to_string(&services).unwrap();
        let back: Vec<ServiceReport> = serde_json::from_str(&text).unwrap();
        assert_eq!(back[1].points.last(), services[1].points.last());
    }

    #[test]
    fn nothing_measured_is_null() {
        let json = serde_json::to_value(sample::stalled()).unwrap();
        let point = json["points"].as_array().unwrap().last().unwrap();
        for field in ["p50_us", "p99_us", "p999_us", "reject_p99_us", "lateness_p99_us"] {
            assert!(point[field].is_null(), "{field}");
        }
        assert!(json["spike"].is_null());
    }

    #[test]
    fn the_required_fields_suffice() {
        let text = r#"[{"service": "kv", "slo_us": 1000.0, "peak_uncontrolled": 5.0, "points": [
            {"load": 1.0, "control": "none", "valid": true, "lateness_p99_us": 2.0,
             "offered": 5.0, "goodput": 4.0, "throughput": 5.0, "p50_us": null, "p99_us": null,
             "client_drop_rate": 0.0, "server_drop_rate": 0.1}],
            "spike": {"stable_after_ms": null}}]"#;
        let services: Vec<ServiceReport> = serde_json::from_str(text).unwrap();
        assert_eq!(services[0].points[0].p99_us, None);
        assert_eq!(services[0].spike.as_ref().unwrap().stable_after_ms, None);
    }

    #[test]
    fn no_control_comes_last() {
        let mut service = sample::service();
        service.points.reverse();
        assert_eq!(service.controls(), ["breakwater", NO_CONTROL]);
        let loads: Vec<f64> = service.points_of(NO_CONTROL).iter().map(|p| p.load).collect();
        assert!(loads.is_sorted());
    }
}
