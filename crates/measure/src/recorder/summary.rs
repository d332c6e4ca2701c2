//! The numbers of one measured point, and whether they may be used.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::config::RecorderConfig;
use super::tally::Tally;
use crate::duration::{Text, micros};
use crate::latency::Latencies;
use crate::outcome::DropReason;

/// The share of the scheduled arrivals that the generator must have offered for a point to be
/// valid.
pub const MIN_OFFERED: f64 = 0.98;

/// The numbers of all requests or of one class. Rates are per second of the window and delays in
/// microseconds, neither rounded; a delay is `None` when nothing was measured, and never 0 instead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Figures {
    /// Offered requests per second: each request that the generator produced, whatever its
    /// outcome.
    pub offered: f64,
    /// Successes per second with a latency of at most the SLO.
    pub goodput: f64,
    /// Successes per second that completed in the window, whenever they were due and whatever
    /// their latency: what the server served in that time. Under a backlog it is not the part
    /// of the offered requests that succeeded.
    pub throughput: f64,
    /// Mean latency of successes and of unanswered requests, exact. Those without an answer count
    /// as long as they were waited for, so that this and the next are then lower bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_us: Option<f64>,
    /// Median of the same latencies; this and the next five at most 0.1 % above the true
    /// quantile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<f64>,
    /// 80th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p80_us: Option<f64>,
    /// 90th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90_us: Option<f64>,
    /// 95th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_us: Option<f64>,
    /// 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999_us: Option<f64>,
    /// The longest, exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_us: Option<f64>,
    /// Unanswered requests over these and the successes; 0 to 1. A quantile q of the latency is
    /// [only a lower bound](crate::latency::is_lower_bound) where this exceeds 1 - q.
    #[serde(default)]
    pub latency_censored: f64,
    /// Requests that were never sent, over offered requests; 0 to 1.
    pub client_drop_rate: f64,
    /// Refusals by the server over the requests that reached it (offered less client drops); 0 to
    /// 1. Requests that were cancelled, failed or were not answered reached it too.
    pub server_drop_rate: f64,
    /// Requests that were sent and had neither result nor refusal (not answered, failed or
    /// cancelled), over offered requests; 0 to 1.
    #[serde(default)]
    pub lost_rate: f64,
    /// Offered requests, counted.
    pub offered_count: u64,
    /// Requests that were sent and never answered, counted.
    pub unanswered: u64,
    /// Requests that ended in an error other than a refusal, counted.
    pub failed: u64,
    /// Requests that were sent and then given up, counted.
    pub cancelled: u64,
    /// Mean delay from the scheduled time to the arrival of a server's refusal, exact.
    ///
    /// Deviation: Breakwater counts from the departure at the client (section 5.1). Its clients
    /// hold a request until there is a credit, and a user waits for that too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reject_mean_us: Option<f64>,
    /// 99th percentile of the same delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reject_p99_us: Option<f64>,
    /// Client drops by reason, counted; reasons that did not occur are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub client_drops: BTreeMap<DropReason, u64>,
}

impl Figures {
    /// The names that [`metric`](Self::metric) knows.
    pub const METRICS: [&str; 21] = [
        "offered",
        "goodput",
        "throughput",
        "mean_us",
        "p50_us",
        "p80_us",
        "p90_us",
        "p95_us",
        "p99_us",
        "p999_us",
        "max_us",
        "client_drop_rate",
        "server_drop_rate",
        "latency_censored",
        "lost_rate",
        "offered_count",
        "unanswered",
        "failed",
        "cancelled",
        "reject_mean_us",
        "reject_p99_us",
    ];

    /// A figure by the name of its field, so that a plan can say which one a claim is about; `None`
    /// for an unknown name and for a delay that was not measured.
    pub fn metric(&self, name: &str) -> Option<f64> {
        match name {
            "offered" => Some(self.offered),
            "goodput" => Some(self.goodput),
            "throughput" => Some(self.throughput),
            "mean_us" => self.mean_us,
            "p50_us" => self.p50_us,
            "p80_us" => self.p80_us,
            "p90_us" => self.p90_us,
            "p95_us" => self.p95_us,
            "p99_us" => self.p99_us,
            "p999_us" => self.p999_us,
            "max_us" => self.max_us,
            "client_drop_rate" => Some(self.client_drop_rate),
            "server_drop_rate" => Some(self.server_drop_rate),
            "latency_censored" => Some(self.latency_censored),
            "lost_rate" => Some(self.lost_rate),
            "offered_count" => Some(self.offered_count as f64),
            "unanswered" => Some(self.unanswered as f64),
            "failed" => Some(self.failed as f64),
            "cancelled" => Some(self.cancelled as f64),
            "reject_mean_us" => self.reject_mean_us,
            "reject_p99_us" => self.reject_p99_us,
            _ => None,
        }
    }
}

/// The numbers of one class of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassSummary {
    /// The class's name.
    pub name: String,
    /// Its numbers; in files, fields beside the name.
    #[serde(flatten)]
    pub figures: Figures,
}

/// One measured point. In files, the total's fields stand beside the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// Whether the generator offered the load that the schedule asked for, and offered it in time.
    ///
    /// A point is invalid when nothing was offered in the window, when less than
    /// [`MIN_OFFERED`] of the scheduled arrivals were offered, or when the 99th percentile of the
    /// generator's lateness exceeds the configured bound. The numbers of an invalid point describe
    /// the generator rather than the server.
    pub valid: bool,
    /// Why the point is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid_reason: Option<String>,
    /// The SLO that goodput refers to, in microseconds.
    pub slo_us: f64,
    /// Length of the measured window, in seconds.
    pub window_seconds: f64,
    /// 99th percentile of how late the generator was; `None` when it does not report that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_p99_us: Option<f64>,
    /// All classes together.
    #[serde(flatten)]
    pub total: Figures,
    /// Each class apart, in the order of the configuration.
    pub classes: Vec<ClassSummary>,
}

impl fmt::Display for Summary {
    /// One line for people, rounded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { offered, goodput, throughput, .. } = self.total;
        let delay = |us: Option<f64>| us.map_or("-".into(), |us| format!("{us:.1}us"));
        let (p50, p99) = (delay(self.total.p50_us), delay(self.total.p99_us));
        let client = self.total.client_drop_rate * 100.0;
        let server = self.total.server_drop_rate * 100.0;
        write!(
            f,
            "offered {offered:.0}/s, goodput {goodput:.0}/s, throughput {throughput:.0}/s, "
        )?;
        write!(f, "p50 {p50}, p99 {p99}, dropped {client:.2}% at client, {server:.2}% at server")?;
        match &self.invalid_reason {
            Some(reason) => write!(f, " (invalid: {reason})"),
            None => Ok(()),
        }
    }
}

pub(super) fn summarize(
    config: &RecorderConfig,
    tallies: &[Tally],
    lateness: &Latencies,
    scheduled: u64,
) -> Summary {
    let window_seconds = config.window.length().as_secs_f64();
    let mut total = Tally::default();
    for tally in tallies {
        total.merge(tally);
    }
    let class = |(name, tally): (&String, &Tally)| ClassSummary {
        name: name.clone(),
        figures: figures(tally, window_seconds),
    };
    let faults = faults(config, total.offered, scheduled, lateness);
    Summary {
        valid: faults.is_empty(),
        invalid_reason: (!faults.is_empty()).then(|| faults.join("; ")),
        slo_us: micros(config.slo),
        window_seconds,
        lateness_p99_us: lateness.quantile_us(0.99),
        total: figures(&total, window_seconds),
        classes: config.classes.iter().zip(tallies).map(class).collect(),
    }
}

fn figures(tally: &Tally, window_seconds: f64) -> Figures {
    let rate = |count: u64| count as f64 / window_seconds;
    let dropped = tally.dropped_at_client();
    let drops = DropReason::ALL.into_iter().zip(tally.dropped);
    Figures {
        offered: rate(tally.offered),
        goodput: rate(tally.good),
        throughput: rate(tally.completed),
        mean_us: tally.latency.mean_us(),
        p50_us: tally.latency.quantile_us(0.5),
        p80_us: tally.latency.quantile_us(0.8),
        p90_us: tally.latency.quantile_us(0.9),
        p95_us: tally.latency.quantile_us(0.95),
        p99_us: tally.latency.quantile_us(0.99),
        p999_us: tally.latency.quantile_us(0.999),
        max_us: tally.latency.max().map(micros),
        latency_censored: share(tally.unanswered, tally.unanswered + tally.successes),
        client_drop_rate: share(dropped, tally.offered),
        server_drop_rate: share(tally.rejected, tally.offered - dropped),
        lost_rate: share(tally.lost(), tally.offered),
        offered_count: tally.offered,
        unanswered: tally.unanswered,
        failed: tally.failed,
        cancelled: tally.cancelled,
        reject_mean_us: tally.reject_latency.mean_us(),
        reject_p99_us: tally.reject_latency.quantile_us(0.99),
        client_drops: drops.filter(|&(_, count)| count > 0).collect(),
    }
}

/// `part` of `whole`, and nothing of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Why the point must not be used, one text for each reason.
fn faults(
    config: &RecorderConfig,
    offered: u64,
    scheduled: u64,
    lateness: &Latencies,
) -> Vec<String> {
    let mut faults = Vec::new();
    if offered == 0 {
        faults.push("nothing was offered in the window".into());
    }
    if (offered as f64) < MIN_OFFERED * scheduled as f64 {
        let percent = share(offered, scheduled) * 100.0;
        let least = MIN_OFFERED * 100.0;
        faults.push(format!(
            "offered {offered} of {scheduled} scheduled requests ({percent:.1} %, below {least} %)"
        ));
    }
    let bound = config.lateness_bound;
    if let Some(p99) = lateness.quantile(0.99).filter(|&p99| p99 > bound) {
        let (p99, bound) = (Text(p99), Text(bound));
        faults.push(format!("the generator was {p99} late (p99), above the bound of {bound}"));
    }
    faults
}
