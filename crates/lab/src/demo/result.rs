//! What the demo measured, in the form in which `--json` prints it.
//!
//! Rates are per second, delays in microseconds unless a name says otherwise, and a *load* is a
//! multiple of the measured capacity. What was not measured is left out; nothing is `null`.

use seawall_measure::Figures;
use seawall_measure::latency::is_lower_bound;
use serde::Serialize;

use super::service::Service;
use crate::host::Host;

/// The name of the algorithm that controls nothing.
pub(super) const NO_CONTROL: &str = "none";

/// The whole demo.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Demo {
    /// Whether all that was expected of the measurements was seen.
    pub(super) held: bool,
    /// What was expected and was not seen, as sentences.
    pub(super) unmet: Vec<String>,
    /// What was seen.
    pub(super) sentences: Vec<String>,
    /// What a reader must know before believing the numbers.
    pub(super) warnings: Vec<String>,
    /// The algorithm in control.
    pub(super) algorithm: String,
    pub(super) services: Vec<Measured>,
    pub(super) host: Host,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Measured {
    pub(super) service: Service,
    /// What it is, in words.
    pub(super) about: String,
    /// The latency up to which a success is goodput.
    pub(super) slo_us: f64,
    /// Median round trip without load.
    pub(super) rtt_us: f64,
    /// What a request takes when nothing else is served.
    pub(super) service_us: f64,
    /// Requests per second at a load of 1.
    pub(super) capacity: f64,
    /// Connections over which the load is spread.
    pub(super) sessions: u32,
    /// By load; at each load first without control, then with it.
    pub(super) points: Vec<Point>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spike: Option<Spike>,
}

/// One steady load without control or with it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    pub(super) load: f64,
    pub(super) control: String,
    /// How long it was measured.
    pub(super) seconds: f64,
    /// How often it was measured: twice if the machine disturbed the first time.
    pub(super) tries: u32,
    /// Whether the generator offered the load on time. If not, the numbers are of the generator.
    pub(super) valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) invalid_reason: Option<String>,
    /// Whether the machine stalled for longer than a 99th percentile can bear.
    pub(super) disturbed: bool,
    /// How long the machine stalled, in milliseconds: in all, and the longest time.
    pub(super) stalled_ms: f64,
    pub(super) longest_stall_ms: f64,
    /// How late the generator was (99th percentile).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lateness_p99_us: Option<f64>,
    /// All requests together.
    #[serde(flatten)]
    pub(super) all: Numbers,
    /// The goodput is this much more or less, with a confidence of 95 %.
    pub(super) goodput_interval: f64,
    /// Each class of requests, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) classes: Vec<Class>,
}

/// Requests of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Class {
    pub(super) class: String,
    #[serde(flatten)]
    pub(super) numbers: Numbers,
}

/// What became of some requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Numbers {
    pub(super) offered: f64,
    /// Successes within the SLO.
    pub(super) goodput: f64,
    /// Successes that completed in the measured time, whenever they were due.
    pub(super) throughput: f64,
    /// Latency of successes from when they were due; requests that were never answered count as
    /// long as they were waited for. Left out if all were rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p50_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p99_us: Option<f64>,
    /// Whether the p99 is only a lower bound: more than 1 % were never answered.
    pub(super) p99_is_bound: bool,
    /// Part of the offered requests that the server rejected, 0 to 1.
    pub(super) rejected_by_server: f64,
    /// Part of the offered requests that the client did not send, 0 to 1.
    pub(super) rejected_by_client: f64,
    /// From when a request was due to the server's rejection (99th percentile). Left out if there
    /// was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rejection_p99_us: Option<f64>,
    /// Part of the offered requests that had neither result nor rejection, 0 to 1.
    pub(super) lost: f64,
}

/// A load that rises at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Spike {
    pub(super) from_load: f64,
    pub(super) to_load: f64,
    /// When it rises, in seconds since the start of the run.
    pub(super) at_s: f64,
    /// First without control, then with it.
    pub(super) runs: Vec<SpikeRun>,
}

/// The same rise without control or with it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SpikeRun {
    pub(super) control: String,
    /// How long after the rise the goodput was what it then stays, and the p99 within the SLO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stable_after_ms: Option<f64>,
    /// Whether what came after the rise was too short to tell.
    pub(super) too_short: bool,
    /// Whether the machine stalled meanwhile for longer than a 99th percentile can bear.
    pub(super) disturbed: bool,
    pub(super) goodput_after: f64,
    pub(super) bin_s: f64,
    pub(super) bins: Vec<Bin>,
}

/// Some time of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Bin {
    /// When it begins, in seconds since the start of the run.
    pub(super) t_s: f64,
    pub(super) offered: f64,
    pub(super) goodput: f64,
    /// Left out where nothing completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p99_us: Option<f64>,
}

impl From<&Figures> for Numbers {
    fn from(figures: &Figures) -> Self {
        Self {
            offered: figures.offered,
            goodput: figures.goodput,
            throughput: figures.throughput,
            p50_us: figures.p50_us,
            p99_us: figures.p99_us,
            p99_is_bound: is_lower_bound(0.99, figures.latency_censored),
            rejected_by_server: figures.server_drop_rate * (1.0 - figures.client_drop_rate),
            rejected_by_client: figures.client_drop_rate,
            rejection_p99_us: figures.reject_p99_us,
            lost: figures.lost_rate,
        }
    }
}

impl Numbers {
    /// Part of the offered requests that were rejected, by whom ever, 0 to 1.
    pub(super) fn rejected(&self) -> f64 {
        self.rejected_by_client + self.rejected_by_server
    }

    /// Whether the tail is known to be within the SLO.
    pub(super) fn within(&self, slo_us: f64) -> bool {
        !self.p99_is_bound && self.p99_us.is_some_and(|us| us <= slo_us)
    }
}

impl Point {
    /// What became of the requests of this class; of all, if there is only one.
    pub(super) fn class(&self, name: &str) -> &Numbers {
        let class = self.classes.iter().find(|class| class.class == name);
        class.map_or(&self.all, |class| &class.numbers)
    }
}

impl Measured {
    /// The points without control, or those with it, lowest load first.
    pub(super) fn points(&self, controlled: bool) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |point| (point.control != NO_CONTROL) == controlled)
    }

    /// The highest goodput without control.
    pub(super) fn best_without(&self) -> Option<&Point> {
        self.points(false).max_by(|a, b| a.all.goodput.total_cmp(&b.all.goodput))
    }

    /// Both points beyond the capacity at the load that is nearest to twice of it, without control
    /// and with it.
    pub(super) fn judged(&self) -> Option<(&Point, &Point)> {
        const JUDGED: f64 = 2.0;
        let beyond = self.points(true).filter(|point| point.load > 1.0);
        let with =
            beyond.min_by(|a, b| (a.load - JUDGED).abs().total_cmp(&(b.load - JUDGED).abs()))?;
        let without = self.points(false).find(|point| point.load == with.load)?;
        Some((without, with))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::demo::sample;
    use crate::demo::service::Service;

    /// The paths of all nulls in a value.
    fn nulls(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Null => found.push(path.to_owned()),
            Value::Array(all) => all.iter().for_each(|one| nulls(one, path, found)),
            Value::Object(fields) => {
                fields.iter().for_each(|(name, one)| nulls(one, &format!("{path}.{name}"), found));
            }
            _ => {}
        }
    }

    #[test]
    fn nothing_is_null() {
        let mut services = vec![sample::service(Service::Worker), sample::service(Service::Lock)];
        for point in &mut services[0].points {
            (point.all.p50_us, point.all.p99_us, point.lateness_p99_us) = (None, None, None);
        }
        let json = serde_json::to_value(sample::of(services)).unwrap();
        let mut found = Vec::new();
        nulls(&json, "", &mut found);
        assert!(found.is_empty(), "{found:?}");
        // Numbers that JSON does not have become nulls, too.
        assert!(json["services"][0]["points"][0]["goodput"].is_number());
    }

    #[test]
    fn what_is_judged_is_nearest_to_twice_the_capacity() {
        let mut service = sample::service(Service::Worker);
        let (without, with) = service.judged().unwrap();
        assert_eq!((without.load, with.load), (2.0, 2.0));
        assert_eq!((without.control.as_str(), with.control.as_str()), ("none", "breakwater"));
        service.points.retain(|point| point.load != 2.0);
        assert_eq!(service.judged().unwrap().1.load, 3.0);
        service.points.retain(|point| point.load < 1.0);
        assert!(service.judged().is_none());
    }
}
