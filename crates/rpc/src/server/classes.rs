//! What became of requests, by their class.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::estimate::{Histogram, SharedHistogram};
use seawall_control::request::{Class, RefusalReason, Stage};
use seawall_measure::names::{self, Metric, OUTCOMES};

use super::job::{End, Relayed, Reply};
use super::stats::{add, observe};

/// Counters of all classes. There are few, whatever a service has of methods.
#[derive(Debug, Default)]
pub(super) struct Classes([Counters; Class::COUNT]);

/// Counters of one class.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) cancellations: AtomicU64,
    pub(super) spilled: AtomicU64,
    completions: AtomicU64,
    failures: AtomicU64,
    spilled_served: AtomicU64,
    spilled_refused: AtomicU64,
    refusals: Mutex<BTreeMap<(Stage, RefusalReason), u64>>,
    /// From arrival to reply, by outcome.
    times: [SharedHistogram; OUTCOMES.len()],
}

/// What became of the requests of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// The class's name, as [`Router::class`](crate::Router::class) has it.
    pub class: String,
    /// Calls received, whatever became of them.
    pub requests: u64,
    /// Calls served with a result.
    pub completions: u64,
    /// Calls that ended in the application's error.
    pub failures: u64,
    /// Calls cancelled before they had a result.
    pub cancellations: u64,
    /// Calls refused, by stage.
    pub refusals: BTreeMap<Stage, u64>,
    /// The same, by stage and reason.
    pub refusals_for: BTreeMap<(Stage, RefusalReason), u64>,
    /// From a call's arrival to the end of its reply, by how it ended: done, failed, refused, or
    /// cancelled. Calls whose connection ended first have no reply, and no time.
    pub times: BTreeMap<&'static str, Histogram>,
    /// Calls that were refused here and handed to a replica. They count above by what their
    /// clients were told in the end.
    pub spilled: u64,
    /// Those of them that the replica ran: with a result, or with the application's error.
    pub spilled_served: u64,
    /// Those that the replica did not run either, so that their refusal stood. What is neither was
    /// cancelled, or its replica was lost, or it is outstanding.
    pub spilled_refused: u64,
}

impl Classes {
    /// The counters of one class.
    pub(super) fn of(&self, class: Class) -> &Counters {
        &self.0[class.row()]
    }

    /// The classes that `names` names, and those of which there were requests all the same.
    pub(super) fn snapshot(&self, names: [Option<String>; Class::COUNT]) -> Vec<ClassStats> {
        let named = self.0.iter().zip(names).enumerate();
        named
            .filter_map(|(row, (counters, name))| {
                let is_used = name.is_some() || counters.requests.load(Relaxed) > 0;
                is_used.then(|| counters.snapshot(name.unwrap_or_else(|| format!("class-{row}"))))
            })
            .collect()
    }
}

impl Counters {
    /// Counts a terminal reply that leaves `now` by how it ended.
    pub(super) fn ended(&self, now: Instant, reply: &Reply) {
        match reply.relayed {
            Some(Relayed::Served) => add(&self.spilled_served, 1),
            Some(Relayed::Refused) => add(&self.spilled_refused, 1),
            Some(Relayed::Lost) | None => {}
        }
        let outcome = match &reply.end {
            End::Done(_) => {
                add(&self.completions, 1);
                0
            }
            End::Failed { .. } => {
                add(&self.failures, 1);
                1
            }
            End::Rejected(rejected) => {
                let why = (rejected.stage, rejected.reason);
                *self.refusals.lock().entry(why).or_default() += 1;
                2
            }
            End::Cancelled => {
                add(&self.cancellations, 1);
                3
            }
        };
        self.times[outcome].observe(now.since(reply.context.came()));
    }

    fn snapshot(&self, class: String) -> ClassStats {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let times = OUTCOMES.into_iter().zip(self.times.each_ref().map(SharedHistogram::snapshot));
        let refusals_for = self.refusals.lock().clone();
        let mut refusals = BTreeMap::new();
        for ((stage, _), count) in &refusals_for {
            *refusals.entry(*stage).or_default() += count;
        }
        ClassStats {
            class,
            requests: read(&self.requests),
            completions: read(&self.completions),
            failures: read(&self.failures),
            cancellations: read(&self.cancellations),
            refusals,
            refusals_for,
            times: times.filter(|(_, times)| !times.is_empty()).collect(),
            spilled: read(&self.spilled),
            spilled_served: read(&self.spilled_served),
            spilled_refused: read(&self.spilled_refused),
        }
    }
}

impl ClassStats {
    /// All refusals together.
    pub fn refused(&self) -> u64 {
        self.refusals.values().sum()
    }

    /// All `classes` together.
    pub(super) fn total(classes: &[Self]) -> Self {
        let mut total = Self::default();
        for class in classes {
            total.requests += class.requests;
            total.completions += class.completions;
            total.failures += class.failures;
            total.cancellations += class.cancellations;
            total.spilled += class.spilled;
            total.spilled_served += class.spilled_served;
            total.spilled_refused += class.spilled_refused;
            for (stage, refusals) in &class.refusals {
                *total.refusals.entry(*stage).or_default() += refusals;
            }
        }
        total
    }

    /// Hands everything to the recorder of the `metrics` facade, of histograms what is new since
    /// `before`. `name` has the names of stages.
    pub(super) fn publish(&self, before: Option<&Self>, name: impl Fn(Stage) -> String) {
        let count = |metric: Metric, value: u64| {
            metrics::counter!(metric.name, "class" => self.class.clone()).absolute(value);
        };
        count(names::REQUESTS, self.requests);
        count(names::COMPLETIONS, self.completions);
        count(names::FAILURES, self.failures);
        count(names::CANCELLATIONS, self.cancellations);
        count(names::SPILLED, self.spilled);
        count(names::SPILLED_SERVED, self.spilled_served);
        count(names::SPILLED_REFUSED, self.spilled_refused);
        for ((stage, reason), refusals) in &self.refusals_for {
            let labels = [
                ("class", self.class.clone()),
                ("stage", name(*stage)),
                ("reason", reason.to_string()),
            ];
            metrics::counter!(names::REFUSALS.name, &labels).absolute(*refusals);
        }
        for (outcome, times) in &self.times {
            let before = before.and_then(|before| before.times.get(outcome));
            let new = before.map_or_else(|| times.clone(), |before| times.since(before));
            let labels = [("class", self.class.clone()), ("outcome", (*outcome).into())];
            observe(&new, &metrics::histogram!(names::REQUEST.name, &labels));
        }
    }
}
