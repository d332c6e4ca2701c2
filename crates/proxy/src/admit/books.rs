//! What is counted of admission, under the names of `seawall_measure::names`.

use std::collections::HashMap;
use std::time::Duration;

use metrics::{Counter, counter, gauge};
use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::gate::End;
use seawall_control::request::{Class, Context, Stage};
use seawall_measure::names::{self, Metric};

use super::refusal::{Reason, Refusal};
use super::state::State;

/// The counters of one upstream.
#[derive(Debug)]
pub(super) struct Books {
    upstream: String,
    classes: Mutex<HashMap<u8, ClassBook>>,
    refusals: Mutex<HashMap<RefusalKey, Counter>>,
    waits: Counter,
    /// Sum of all waits, in nanoseconds.
    waited: std::sync::atomic::AtomicU64,
}

/// The counters of one class.
#[derive(Clone, Debug)]
struct ClassBook {
    requests: Counter,
    completions: Counter,
    failures: Counter,
    cancellations: Counter,
}

/// Which counter counts a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RefusalKey {
    metric: &'static str,
    route: String,
    class: String,
    stage: Stage,
    reason: Option<Reason>,
}

impl Books {
    pub(super) fn new(upstream: &str) -> Self {
        let stage = Stage::GATE.name().unwrap_or_default();
        Self {
            upstream: upstream.to_owned(),
            classes: Mutex::default(),
            refusals: Mutex::default(),
            waits: counter!(names::STAGE_WAITS.name, "stage" => stage),
            waited: Default::default(),
        }
    }

    /// The name of a class among those of all upstreams.
    fn label(&self, class: &str) -> String {
        if self.upstream == "default" {
            class.to_owned()
        } else {
            format!("{}: {class}", self.upstream)
        }
    }

    fn class(&self, state: &State, class: Class) -> ClassBook {
        let mut classes = self.classes.lock();
        let book = classes.entry(class.0).or_insert_with(|| {
            let name = self.label(&state.name(class));
            let count = |metric: Metric| counter!(metric.name, "class" => name.clone());
            ClassBook {
                requests: count(names::REQUESTS),
                completions: count(names::COMPLETIONS),
                failures: count(names::FAILURES),
                cancellations: count(names::CANCELLATIONS),
            }
        });
        book.clone()
    }

    /// Classes have changed, and with them what their numbers are called.
    pub(super) fn forget(&self) {
        self.classes.lock().clear();
    }

    pub(super) fn arrived(&self, state: &State, class: Class) {
        self.class(state, class).requests.increment(1);
    }

    pub(super) fn ended(&self, state: &State, context: &Context, end: End) {
        let book = self.class(state, context.class());
        match end {
            End::Served => book.completions.increment(1),
            End::Failed => book.failures.increment(1),
            End::Cancelled => book.cancellations.increment(1),
            End::Refused => {} // counted by the stage that the upstream names
        }
    }

    pub(super) fn waited(&self, waited: Duration) {
        self.waits.increment(1);
        let nanos = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.waited.fetch_add(nanos, std::sync::atomic::Ordering::Relaxed);
    }

    /// A request was refused.
    pub(super) fn refused(&self, route: &str, refusal: &Refusal) {
        self.count(names::REFUSALS, "", refusal, None);
        self.count(names::PROXY_REFUSALS, route, refusal, Some(refusal.reason));
    }

    /// A request would have been refused.
    pub(super) fn unrefused(&self, route: &str, refusal: &Refusal) {
        self.count(names::PROXY_UNREFUSED, route, refusal, Some(refusal.reason));
    }

    fn count(&self, metric: Metric, route: &str, refusal: &Refusal, reason: Option<Reason>) {
        let key = RefusalKey {
            metric: metric.name,
            route: route.to_owned(),
            class: self.label(&refusal.class),
            stage: refusal.rejected.stage,
            reason,
        };
        let mut refusals = self.refusals.lock();
        let counter = refusals.entry(key).or_insert_with_key(|key| {
            let (class, stage) = (key.class.clone(), key.stage.to_string());
            match key.reason {
                None => counter!(metric.name, "class" => class, "stage" => stage),
                Some(reason) => counter!(
                    metric.name,
                    "route" => key.route.clone(),
                    "class" => class,
                    "stage" => stage,
                    "reason" => reason.name()
                ),
            }
        });
        counter.increment(1);
    }

    /// Puts what is measured now into the recorder.
    pub(super) fn publish(&self, state: &State, now: Instant) {
        let upstream = || self.upstream.clone();
        let set = |metric: Metric, class: String, value: f64| {
            gauge!(metric.name, "upstream" => upstream(), "class" => class).set(value);
        };
        let all = || "all".to_owned();
        set(names::GATE_LIMIT, all(), f64::from(state.gate.limit()));
        set(names::GATE_IN_FLIGHT, all(), f64::from(state.gate.in_flight()));
        set(names::GATE_WAITING, all(), f64::from(state.gate.waiting()));
        set(names::GATE_DELAY, all(), state.gate.queue_delay(now).as_secs_f64());
        for view in state.gate.classes(now) {
            let name = state.name(view.class);
            set(names::GATE_LIMIT, name.clone(), f64::from(view.limit));
            set(names::GATE_IN_FLIGHT, name.clone(), f64::from(view.in_flight));
            set(names::GATE_WAITING, name.clone(), f64::from(view.waiting));
            set(names::GATE_DELAY, name, view.age.as_secs_f64());
        }
        let waited = self.waited.load(std::sync::atomic::Ordering::Relaxed);
        let stage = Stage::GATE.name().unwrap_or_default();
        gauge!(names::STAGE_WAITED.name, "stage" => stage)
            .set(Duration::from_nanos(waited).as_secs_f64());
        gauge!(names::STAGE_DELAY.name, "stage" => stage)
            .set(state.gate.queue_delay(now).as_secs_f64());
    }
}
