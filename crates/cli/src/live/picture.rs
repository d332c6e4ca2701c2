//! What two readings of the metrics, some time apart, say about the process.
//!
//! The page has the same in `page/picture.js`; both are held to the cases in `cases.json`.

mod proxy;

pub(crate) use proxy::{Replica, Upstream};

use std::collections::BTreeSet;

use seawall_measure::names::{self, Metric};
use serde::Serialize;

use super::buckets::{Buckets, Quantile};
use super::text::{Labels, Metrics};

/// The metrics at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Seconds on the clock of the process.
    pub(crate) at: f64,
    pub(crate) metrics: Metrics,
}

/// A process between two samples. Rates are per second; nothing stands for what is not shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Picture {
    /// The time between the samples.
    pub(crate) seconds: f64,
    /// Requests that arrived.
    pub(crate) load: f64,
    /// Requests served with a result.
    pub(crate) goodput: f64,
    pub(crate) refused: f64,
    /// The part of the requests that ended by being refused.
    pub(crate) refused_share: f64,
    /// Requests that would have been refused, where that is only observed.
    pub(crate) would_refuse: Option<f64>,
    /// The part of those that arrived.
    pub(crate) would_refuse_share: Option<f64>,
    pub(crate) failed: f64,
    pub(crate) failed_share: f64,
    pub(crate) cancelled: f64,
    pub(crate) spilled: f64,
    /// From arrival to the end of the reply, of requests that were served.
    pub(crate) p50_s: Option<Quantile>,
    pub(crate) p99_s: Option<Quantile>,
    pub(crate) queueing_delay_s: Option<f64>,
    pub(crate) target_delay_s: Option<f64>,
    pub(crate) budget_s: Option<f64>,
    pub(crate) outstanding: Option<f64>,
    pub(crate) sessions: Option<f64>,
    pub(crate) credit_pool: Option<f64>,
    pub(crate) credits_issued: Option<f64>,
    pub(crate) admission_limit: Option<f64>,
    /// Worker threads that were in handlers, on average.
    pub(crate) workers_busy: Option<f64>,
    /// Those that refuse most first, then those with the longest waits.
    pub(crate) stages: Vec<Stage>,
    pub(crate) classes: Vec<Class>,
    /// Of a proxy.
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) replicas: Vec<Replica>,
    /// Of a node agent.
    pub(crate) containers: Vec<Container>,
    pub(crate) units_free: Option<f64>,
}

/// A place at which requests wait or are refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Stage {
    pub(crate) stage: String,
    pub(crate) refused: f64,
    /// Of all requests that ended, the part that it refused.
    pub(crate) refused_share: f64,
    /// Requests that it would have refused, where that is only observed.
    pub(crate) would_refuse: Option<f64>,
    /// Why it refuses, or would, for the most part.
    pub(crate) reason: Option<String>,
    /// Age of its oldest waiter.
    pub(crate) delay_s: Option<f64>,
    /// What 99 % of waits did not exceed.
    pub(crate) wait_p99_s: Option<Quantile>,
    /// How often it was acquired.
    pub(crate) acquired: Option<f64>,
    /// How many waited at a time, on average.
    pub(crate) waiters: Option<f64>,
}

/// A kind of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Class {
    pub(crate) class: String,
    pub(crate) load: f64,
    pub(crate) goodput: f64,
    pub(crate) refused: f64,
    pub(crate) refused_share: f64,
    pub(crate) would_refuse: Option<f64>,
    pub(crate) p50_s: Option<Quantile>,
    pub(crate) p99_s: Option<Quantile>,
    /// It is longer than what counts as good.
    pub(crate) is_over_slo: bool,
}

/// A container that a node agent manages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Container {
    pub(crate) container: String,
    pub(crate) units: f64,
    pub(crate) level: f64,
    pub(crate) score: f64,
    /// It needs CPU that the node does not have.
    pub(crate) is_unmet: bool,
    /// Requests that it refused for want of CPU.
    pub(crate) shed: f64,
    pub(crate) boosts: f64,
}

impl Picture {
    /// What happened between two samples of one process; nothing if the second is not later, as
    /// when the process has begun anew.
    pub(crate) fn between(before: &Sample, after: &Sample) -> Option<Self> {
        let seconds = after.at - before.at;
        let span = Span { before: &before.metrics, after: &after.metrics, seconds };
        (seconds > 0.0).then(|| span.picture())
    }
}

impl Stage {
    /// The longest that is known of waits there.
    pub(crate) fn wait(&self) -> Quantile {
        let oldest = Quantile::exact(self.delay_s.unwrap_or(0.0));
        self.wait_p99_s.filter(|p99| p99.seconds > oldest.seconds).unwrap_or(oldest)
    }
}

/// Two readings and the time between them.
#[derive(Clone, Copy)]
struct Span<'a> {
    before: &'a Metrics,
    after: &'a Metrics,
    seconds: f64,
}

/// Which series are meant: all, or those with this value of a label.
type Where<'a> = Option<(&'a str, &'a str)>;

fn is_meant(labels: &Labels, meant: Where<'_>) -> bool {
    meant.is_none_or(|(label, value)| labels.get(label).is_some_and(|found| found == value))
}

impl Span<'_> {
    /// By how much a series has grown. A counter that has fallen has begun anew.
    fn growth(&self, name: &str, labels: &Labels, now: f64) -> f64 {
        match self.before.value(name, labels) {
            Some(then) if then <= now => now - then,
            _ => now,
        }
    }

    /// Growth per second of all meant series of a counter.
    fn rate(&self, metric: &Metric, meant: Where<'_>) -> f64 {
        let series = self.after.of(metric.name).filter(|(labels, _)| is_meant(labels, meant));
        let growth = series.map(|(labels, now)| self.growth(metric.name, labels, now));
        // Not `sum`, which is -0 of nothing.
        growth.fold(0.0, |sum, more| sum + more) / self.seconds
    }

    fn rate_if_any(&self, metric: &Metric, meant: Where<'_>) -> Option<f64> {
        let mut series = self.after.of(metric.name);
        series.any(|(labels, _)| is_meant(labels, meant)).then(|| self.rate(metric, meant))
    }

    fn gauges(&self, metric: &Metric, meant: Where<'_>) -> impl Iterator<Item = f64> {
        let series = self.after.of(metric.name);
        series.filter(move |(labels, _)| is_meant(labels, meant)).map(|(_, value)| value)
    }

    fn sum(&self, metric: &Metric) -> Option<f64> {
        self.gauges(metric, None).reduce(|sum, value| sum + value)
    }

    fn highest(&self, metric: &Metric, meant: Where<'_>) -> Option<f64> {
        self.gauges(metric, meant).reduce(f64::max)
    }

    /// The values of a label that these metrics have now.
    fn values(&self, label: &str, metrics: &[&str]) -> BTreeSet<String> {
        let series = metrics.iter().flat_map(|metric| self.after.of(metric));
        series.filter_map(|(labels, _)| labels.get(label).cloned()).collect()
    }

    /// What a histogram was told in the meantime.
    fn buckets(&self, metric: &Metric, is_meant: impl Fn(&Labels) -> bool) -> Buckets {
        let name = format!("{}_bucket", metric.name);
        let mut buckets = Buckets::default();
        for (labels, now) in self.after.of(&name).filter(|(labels, _)| is_meant(labels)) {
            if let Some(bound) = labels.get("le").and_then(|bound| bound.parse().ok()) {
                buckets.add(bound, self.growth(&name, labels, now));
            }
        }
        buckets
    }

    /// How long those took that were served, of the classes that are meant.
    fn latency(&self, is_meant: impl Fn(&str) -> bool) -> Buckets {
        self.buckets(&names::REQUEST, |labels| {
            let class = labels.get("class").map_or("", String::as_str);
            labels.get("outcome").is_some_and(|outcome| outcome == SERVED) && is_meant(class)
        })
    }

    fn picture(&self) -> Picture {
        let ended = self.ended(None);
        let [goodput, refused, failed, cancelled] = ended;
        let load = self.rate(&names::REQUESTS, None);
        let latency = self.latency(|_| true);
        let upstreams = self.upstreams();
        let would_refuse = self.would_refuse(&upstreams);
        Picture {
            seconds: self.seconds,
            load,
            goodput,
            refused,
            refused_share: share(refused, &ended),
            would_refuse,
            // One request may be found too much twice: at the entry, and at the gate.
            would_refuse_share: would_refuse.map(|rate| part(rate, load).min(1.0)),
            failed,
            failed_share: share(failed, &ended),
            cancelled,
            spilled: self.rate(&names::SPILLED, None),
            p50_s: latency.quantile(0.5),
            p99_s: latency.quantile(0.99),
            queueing_delay_s: self.highest(&names::QUEUEING_DELAY, None),
            target_delay_s: self.highest(&names::TARGET_DELAY, None),
            budget_s: self.highest(&names::DELAY_BUDGET, None),
            outstanding: self.sum(&names::OUTSTANDING),
            sessions: self.sum(&names::SESSIONS),
            credit_pool: self.sum(&names::POOL),
            credits_issued: self.sum(&names::CREDITS_ISSUED),
            admission_limit: self.sum(&names::ADMISSION_LIMIT),
            workers_busy: self.rate_if_any(&names::WORKER_BUSY, None),
            stages: self.stages(ended.iter().sum(), would_refuse.is_some()),
            classes: self.classes(&upstreams, would_refuse.is_some()),
            upstreams,
            replicas: self.replicas(),
            containers: self.containers(),
            units_free: self.sum(&names::SCALING_UNITS_FREE),
        }
    }

    /// How requests ended: served, refused, failed, given up.
    fn ended(&self, class: Where<'_>) -> [f64; 4] {
        [names::COMPLETIONS, names::REFUSALS, names::FAILURES, names::CANCELLATIONS]
            .map(|metric| self.rate(&metric, class))
    }

    /// What would have been refused; nothing where all that is too much is refused.
    fn would_refuse(&self, upstreams: &[Upstream]) -> Option<f64> {
        match upstreams {
            [] => self.rate_if_any(&names::OBSERVED, None),
            all => all.iter().any(|one| one.observes).then(|| self.would_be(None)),
        }
    }

    /// Refusals that are only observed, of a server and of a proxy.
    fn would_be(&self, meant: Where<'_>) -> f64 {
        self.rate(&names::OBSERVED, meant) + self.rate(&names::PROXY_UNREFUSED, meant)
    }

    fn stages(&self, ended: f64, observes: bool) -> Vec<Stage> {
        let waits = format!("{}_count", names::STAGE_WAIT.name);
        let known = [
            names::REFUSALS.name,
            names::OBSERVED.name,
            names::PROXY_UNREFUSED.name,
            names::STAGE_DELAY.name,
            names::STAGE_ACQUISITIONS.name,
            waits.as_str(),
        ];
        let stage = |stage: String| {
            let here = Some(("stage", stage.as_str()));
            let refused = self.rate(&names::REFUSALS, here);
            let waits = self.buckets(&names::STAGE_WAIT, |labels| is_meant(labels, here));
            Stage {
                refused,
                refused_share: part(refused, ended),
                would_refuse: observes.then(|| self.would_be(here)),
                reason: self.reason(&stage),
                delay_s: self.highest(&names::STAGE_DELAY, here),
                wait_p99_s: waits.quantile(0.99),
                acquired: self.rate_if_any(&names::STAGE_ACQUISITIONS, here),
                waiters: self.rate_if_any(&names::STAGE_WAITED, here),
                stage,
            }
        };
        let mut stages: Vec<Stage> = self.values("stage", &known).into_iter().map(stage).collect();
        // Stable: those that are alike stay in the order of their names.
        stages.sort_by(|a, b| {
            let refused = b.refused.total_cmp(&a.refused);
            let would = b.would_refuse.unwrap_or(0.0).total_cmp(&a.would_refuse.unwrap_or(0.0));
            refused.then(would).then(b.wait().seconds.total_cmp(&a.wait().seconds))
        });
        stages
    }

    /// Why a stage refuses, or would, for the most part; nothing if it does not.
    fn reason(&self, stage: &str) -> Option<String> {
        let rate = |metric: &Metric, reason: &str| {
            let is_meant = |labels: &Labels| {
                let has = |label, value| is_meant(labels, Some((label, value)));
                has("stage", stage) && has("reason", reason)
            };
            let series = self.after.of(metric.name).filter(|(labels, _)| is_meant(labels));
            series.map(|(labels, now)| self.growth(metric.name, labels, now)).sum::<f64>()
        };
        let most = |metrics: &[Metric]| {
            let names: Vec<_> = metrics.iter().map(|metric| metric.name).collect();
            let of = |reason: &str| metrics.iter().map(|metric| rate(metric, reason)).sum::<f64>();
            let reasons = self.values("reason", &names).into_iter();
            let rates = reasons.map(|reason| (of(&reason), reason)).filter(|(rate, _)| *rate > 0.0);
            rates.reduce(|most, one| if one.0 > most.0 { one } else { most })
        };
        let found =
            most(&[names::REFUSALS]).or_else(|| most(&[names::OBSERVED, names::PROXY_UNREFUSED]));
        found.map(|(_, reason)| reason)
    }

    fn classes(&self, upstreams: &[Upstream], observes: bool) -> Vec<Class> {
        let class = |class: String| {
            let here = Some(("class", class.as_str()));
            let ended = self.ended(here);
            let latency = self.latency(|one| one == class);
            let p99_s = latency.quantile(0.99);
            let slo = proxy::upstream_of(&class, upstreams).and_then(|upstream| upstream.slo_s);
            Class {
                load: self.rate(&names::REQUESTS, here),
                goodput: ended[0],
                refused: ended[1],
                refused_share: share(ended[1], &ended),
                would_refuse: observes.then(|| self.would_be(here)),
                p50_s: latency.quantile(0.5),
                p99_s,
                is_over_slo: p99_s.zip(slo).is_some_and(|(p99, slo)| p99.seconds > slo),
                class,
            }
        };
        let is_used =
            |class: &String| self.highest(&names::REQUESTS, Some(("class", class))) > Some(0.0);
        let classes = self.values("class", &[names::REQUESTS.name]).into_iter();
        classes.filter(is_used).map(class).collect()
    }

    fn containers(&self) -> Vec<Container> {
        let container = |container: String| {
            let here = Some(("container", container.as_str()));
            let value = |metric| self.highest(metric, here).unwrap_or(0.0);
            Container {
                units: value(&names::SCALING_UNITS),
                level: value(&names::SCALING_LEVEL),
                score: value(&names::SCALING_SCORE),
                is_unmet: value(&names::SCALING_UNMET) > 0.0,
                shed: self.rate(&names::SCALING_SHED, here),
                boosts: self.rate(&names::RESPONDER_BOOSTS, here),
                container,
            }
        };
        self.values("container", &[names::SCALING_UNITS.name]).into_iter().map(container).collect()
    }
}

fn share(one: f64, all: &[f64]) -> f64 {
    part(one, all.iter().sum())
}

fn part(one: f64, all: f64) -> f64 {
    if all > 0.0 { one / all } else { 0.0 }
}

/// The outcome of requests that were served with a result.
const SERVED: &str = "done";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::Value;

    use super::*;
    use crate::live::Verdict;

    /// The page is held to the same ones.
    #[derive(Debug, Deserialize)]
    struct Case {
        name: String,
        seconds: f64,
        before: Vec<String>,
        after: Vec<String>,
        picture: BTreeMap<String, Value>,
        level: String,
        sentence: String,
        detail: String,
    }

    fn sample(at: f64, lines: &[String]) -> Sample {
        Sample { at, metrics: Metrics::parse(&lines.join("\n")).unwrap() }
    }

    /// Whether a value has everything that is expected of it, with numbers as close as they are
    /// written.
    fn agrees(value: &Value, expected: &Value) -> bool {
        match (value, expected) {
            (Value::Number(value), Value::Number(expected)) => {
                let (value, expected) = (value.as_f64().unwrap(), expected.as_f64().unwrap());
                (value - expected).abs() <= 1e-9 * expected.abs().max(1.0)
            }
            (Value::Array(values), Value::Array(expected)) => {
                values.len() == expected.len()
                    && values.iter().zip(expected).all(|(one, other)| agrees(one, other))
            }
            (Value::Object(fields), Value::Object(expected)) => expected
                .iter()
                .all(|(name, one)| fields.get(name).is_some_and(|value| agrees(value, one))),
            _ => value == expected,
        }
    }

    #[test]
    fn pictures_and_words_are_those_of_the_cases() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("cases.json")).unwrap();
        assert!(cases.len() >= 10);
        for case in cases {
            let (before, after) =
                (sample(7.0, &case.before), sample(7.0 + case.seconds, &case.after));
            let picture = Picture::between(&before, &after).unwrap();
            let value = serde_json::to_value(&picture).unwrap();
            for (field, expected) in &case.picture {
                let found = &value[field];
                assert!(agrees(found, expected), "{}: {field} is {found}", case.name);
            }
            let verdict = serde_json::to_value(Verdict::of(&picture)).unwrap();
            let words = serde_json::json!({
                "level": case.level, "sentence": case.sentence, "detail": case.detail,
            });
            assert_eq!(verdict, words, "{}", case.name);
        }
    }

    #[test]
    fn nothing_is_said_of_a_process_that_has_begun_anew() {
        let (early, late) = (sample(1.0, &[]), sample(2.0, &[]));
        assert!(Picture::between(&early, &late).is_some());
        assert!(Picture::between(&late, &early).is_none());
        assert!(Picture::between(&early, &early).is_none());
    }
}
