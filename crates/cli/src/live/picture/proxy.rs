//! What a proxy says of the services behind it. The page has the same in `page/proxy.js`.

use seawall_measure::names::{self, Metric};
use serde::Serialize;

use super::{Span, part};
use crate::live::buckets::Quantile;
use crate::live::text::Labels;

/// The name of an upstream whose classes do not bear its name.
const NAMELESS: &str = "default";

/// All classes together, in the metrics of a gate.
const ALL: &str = "all";

/// A service behind a proxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Upstream {
    pub(crate) upstream: String,
    /// Nothing is refused for it.
    pub(crate) observes: bool,
    /// How many requests its gate lets in at once, or would.
    pub(crate) limit: f64,
    pub(crate) in_flight: f64,
    pub(crate) waiting: f64,
    pub(crate) served: f64,
    pub(crate) p99_s: Option<Quantile>,
    /// The latency that counts as good, if somebody has said it.
    pub(crate) slo_s: Option<f64>,
    /// The part of what was served that took no longer.
    pub(crate) within_slo_share: Option<f64>,
}

/// One of the places at which a service behind a proxy runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Replica {
    pub(crate) upstream: String,
    pub(crate) replica: String,
    /// It is not left out for failing.
    pub(crate) is_well: bool,
    pub(crate) outstanding: f64,
    /// Attempts by their result; nothing of a result that there has never been.
    pub(crate) answered: Option<f64>,
    pub(crate) refused: Option<f64>,
    pub(crate) unsent: Option<f64>,
    pub(crate) lost: Option<f64>,
    pub(crate) timed_out: Option<f64>,
}

impl Upstream {
    /// How many times its SLO its p99 is.
    fn slowness(&self) -> f64 {
        self.p99_s.zip(self.slo_s).map_or(0.0, |(p99, slo)| p99.seconds / slo)
    }

    /// The slowest for its SLO of those that are slower than it.
    pub(crate) fn over_slo(all: &[Self]) -> Option<&Self> {
        let slow = all.iter().filter(|one| one.slowness() > 1.0);
        slow.reduce(|most, one| if one.slowness() > most.slowness() { one } else { most })
    }

    /// The part of what was served within the SLOs, where there are any.
    pub(crate) fn within_slo(all: &[Self]) -> Option<f64> {
        let known = || all.iter().filter_map(|one| one.within_slo_share.zip(Some(one.served)));
        let served: f64 = known().map(|(_, served)| served).sum();
        let within: f64 = known().map(|(share, served)| share * served).sum();
        (served > 0.0).then(|| part(within, served))
    }
}

/// The upstream to which a class belongs.
pub(super) fn upstream_of<'a>(class: &str, upstreams: &'a [Upstream]) -> Option<&'a Upstream> {
    let bears = |one: &&Upstream| {
        class.strip_prefix(one.upstream.as_str()).is_some_and(|rest| rest.starts_with(": "))
    };
    let nameless = || upstreams.iter().find(|one| one.upstream == NAMELESS);
    upstreams.iter().find(bears).or_else(nameless)
}

impl Span<'_> {
    pub(super) fn upstreams(&self) -> Vec<Upstream> {
        let names = self.values("upstream", &[names::GATE_LIMIT.name]).into_iter();
        let mut upstreams: Vec<_> = names.map(|name| self.gate(name)).collect();
        let known = upstreams.clone();
        for upstream in &mut upstreams {
            let is_its = |class: &str| {
                upstream_of(class, &known).is_some_and(|one| one.upstream == upstream.upstream)
            };
            let latency = self.latency(is_its);
            let classes = self.values("class", &[names::COMPLETIONS.name]).into_iter();
            let rates = classes
                .filter(|class| is_its(class))
                .map(|class| self.rate(&names::COMPLETIONS, Some(("class", class.as_str()))));
            upstream.served = rates.fold(0.0, |sum, rate| sum + rate);
            upstream.p99_s = latency.quantile(0.99);
            upstream.within_slo_share = upstream.slo_s.and_then(|slo| latency.share_within(slo));
        }
        upstreams
    }

    /// What the gate of an upstream says.
    fn gate(&self, upstream: String) -> Upstream {
        let of = |metric: &Metric| {
            let is_it = |labels: &Labels| {
                labels.get("upstream") == Some(&upstream)
                    && labels.get("class").is_none_or(|class| class == ALL)
            };
            let mut series = self.after.of(metric.name);
            series.find(|(labels, _)| is_it(labels)).map(|(_, value)| value)
        };
        Upstream {
            observes: of(&names::UPSTREAM_ENFORCES) == Some(0.0),
            limit: of(&names::GATE_LIMIT).unwrap_or(0.0),
            in_flight: of(&names::GATE_IN_FLIGHT).unwrap_or(0.0),
            waiting: of(&names::GATE_WAITING).unwrap_or(0.0),
            slo_s: of(&names::UPSTREAM_SLO).filter(|slo| *slo > 0.0),
            upstream,
            ..Upstream::default()
        }
    }

    pub(super) fn replicas(&self) -> Vec<Replica> {
        let series = self.after.of(names::UPSTREAM_WELL.name);
        let replica = |(labels, well): (&Labels, f64)| {
            let name = |label| labels.get(label).cloned().unwrap_or_default();
            let attempts = |result: &str| {
                let mut labels = labels.clone();
                labels.insert("result".to_owned(), result.to_owned());
                let name = names::ATTEMPTS.name;
                let now = self.after.value(name, &labels).filter(|now| *now > 0.0)?;
                Some(self.growth(name, &labels, now) / self.seconds)
            };
            let outstanding = self.after.value(names::UPSTREAM_OUTSTANDING.name, labels);
            Replica {
                upstream: name("upstream"),
                replica: name("replica"),
                is_well: well > 0.0,
                outstanding: outstanding.unwrap_or(0.0),
                answered: attempts("answered"),
                refused: attempts("refused"),
                unsent: attempts("unsent"),
                lost: attempts("lost"),
                timed_out: attempts("timed_out"),
            }
        };
        let mut replicas: Vec<Replica> = series.map(replica).collect();
        replicas.sort_by(|a, b| (&a.upstream, &a.replica).cmp(&(&b.upstream, &b.replica)));
        replicas
    }
}
