//! What a client counts.

use std::collections::HashMap;
use std::sync::Arc;

use metrics::{Counter, Gauge, Label};
use parking_lot::Mutex;
use seawall_control::controller::DropReason;
use seawall_control::retry::Verdict;
use seawall_measure::names::{self, Metric};

use super::answer::Refusal;

/// Names of stages that are counted apart. A server says what its stages are called; one that never
/// ends naming new ones must not fill the memory of those who count them.
const STAGES_MAX: usize = 64;

/// The counters of one client, found once, so that a request costs some additions. The recorder has
/// to be installed before the first client is made.
#[derive(Debug)]
pub(super) struct Meters {
    upstream: Arc<str>,
    served: Counter,
    refused: Counter,
    failed: Counter,
    cancelled: Counter,
    expired: Counter,
    dropped: [Counter; 3],
    retried: Counter,
    moved: Counter,
    forbidden: Counter,
    last_resort: Counter,
    outstanding: Gauge,
    pending: Gauge,
    refusals: Mutex<HashMap<Box<str>, Counter>>,
}

/// How an attempt ended that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Served,
    Refused,
    Failed,
    Cancelled,
    Expired,
}

impl Meters {
    pub(super) fn new(upstream: &str) -> Self {
        let upstream: Arc<str> = upstream.into();
        let with = |metric: Metric, label: &'static str, value: &'static str| {
            let labels = vec![label_of("upstream", upstream.clone()), Label::new(label, value)];
            metrics::counter!(metric.name, labels)
        };
        let outcome = |value| with(names::CLIENT_ATTEMPTS, "outcome", value);
        let dropped = |value| with(names::CLIENT_DROPS, "reason", value);
        let kind = |value| with(names::CLIENT_RETRIES, "kind", value);
        let gauge = |metric: Metric| {
            metrics::gauge!(metric.name, vec![label_of("upstream", upstream.clone())])
        };
        Self {
            served: outcome("served"),
            refused: outcome("refused"),
            failed: outcome("failed"),
            cancelled: outcome("cancelled"),
            expired: outcome("expired"),
            dropped: ["expired", "queue_full", "throttled"].map(dropped),
            retried: kind("retry"),
            moved: kind("move"),
            forbidden: kind("forbidden"),
            last_resort: kind("last_resort"),
            outstanding: gauge(names::CLIENT_OUTSTANDING),
            pending: gauge(names::CLIENT_PENDING),
            refusals: Mutex::default(),
            upstream,
        }
    }

    /// Requests outstanding and waiting in one of the sessions, of which there may be several.
    pub(super) fn show(&self, before: (f64, f64), now: (f64, f64)) {
        for (gauge, change) in
            [(&self.outstanding, now.0 - before.0), (&self.pending, now.1 - before.1)]
        {
            if change != 0.0 {
                gauge.increment(change);
            }
        }
    }

    /// A request that was sent has ended so.
    pub(super) fn on_end(&self, outcome: Outcome) {
        match outcome {
            Outcome::Served => self.served.increment(1),
            Outcome::Failed => self.failed.increment(1),
            Outcome::Cancelled => self.cancelled.increment(1),
            Outcome::Expired => self.expired.increment(1),
            Outcome::Refused => self.refused.increment(1),
        }
    }

    /// A server has refused.
    pub(super) fn on_refusal(&self, refusal: &Refusal) {
        let own = refusal.rejected.stage.name().unwrap_or("other");
        let stage = refusal.stage.as_ref().map_or(own, |name| name.as_str());
        let mut refusals = self.refusals.lock();
        let known = refusals.contains_key(stage) || refusals.len() < STAGES_MAX;
        let stage = if known { stage } else { "other" };
        if let Some(counter) = refusals.get(stage) {
            return counter.increment(1);
        }
        let labels = vec![
            label_of("upstream", self.upstream.clone()),
            Label::new("stage", stage.to_owned()),
        ];
        let counter = metrics::counter!(names::CLIENT_REFUSALS.name, labels);
        counter.increment(1);
        refusals.insert(stage.into(), counter);
    }

    /// A request was given up before it was sent.
    pub(super) fn on_drop(&self, reason: DropReason) {
        let index = match reason {
            DropReason::Expired => 0,
            DropReason::QueueFull => 1,
            _ => 2,
        };
        self.dropped[index].increment(1);
    }

    /// The retry policy has decided so about an attempt that has failed.
    pub(super) fn on_verdict(&self, verdict: Verdict, was_sent: bool) {
        use seawall_control::retry::Why;
        match verdict {
            Verdict::Again if was_sent => self.retried.increment(1),
            Verdict::Again => self.moved.increment(1),
            Verdict::Enough(Why::Budget) => self.forbidden.increment(1),
            Verdict::Enough(_) => {}
        }
    }

    pub(super) fn on_last_resort(&self) {
        self.last_resort.increment(1);
    }
}

fn label_of(key: &'static str, value: Arc<str>) -> Label {
    Label::new(key, value)
}
