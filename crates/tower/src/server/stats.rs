//! What became of requests: one set of counters, for the metrics endpoint, reports and tests alike.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::estimate::{Histogram, SharedHistogram};
use seawall_control::request::{Class, RefusalReason, Rejected, Stage};
use seawall_measure::names::{self, Metric, OUTCOMES};

/// Refusals by stage and reason.
type Refusals<S> = BTreeMap<(S, RefusalReason), u64>;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With a response of the handler's own, whatever that says, but no error of the server.
    Done,
    /// With an error of the server.
    Failed,
    /// A stage refused it, and why.
    Refused(Stage, RefusalReason),
    /// Its client went away.
    Cancelled,
}

/// What happened since the layer was made.
#[derive(Debug, Default)]
pub(super) struct Counters {
    classes: [OfClass; Class::COUNT],
    /// How long requests waited to be read, and to be run.
    socket: SharedHistogram,
    run_queue: SharedHistogram,
    pub(super) window_violations: AtomicU64,
    pub(super) privilege_violations: AtomicU64,
    pub(super) hints_distrusted: AtomicU64,
    pub(super) fields_malformed: AtomicU64,
    pub(super) fields_ignored: AtomicU64,
    pub(super) unidentified: AtomicU64,
}

#[derive(Debug, Default)]
struct OfClass {
    requests: AtomicU64,
    completions: AtomicU64,
    failures: AtomicU64,
    cancellations: AtomicU64,
    refusals: Mutex<Refusals<Stage>>,
    observed: Mutex<Refusals<Stage>>,
    /// From arrival to the end of the response, by outcome.
    times: [SharedHistogram; OUTCOMES.len()],
}

/// A snapshot of a layer's counters and gauges.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// By class, in the order of classes: those that are named, and those of which there were
    /// requests all the same.
    pub classes: Vec<ClassStats>,
    /// Requests refused because their session had sent more than it may; also counted as refusals.
    pub window_violations: u64,
    /// Claims struck out because their sender had no right to them.
    pub privilege_violations: u64,
    /// Upscale hints struck out because their sender is not believed.
    pub hints_distrusted: u64,
    /// Headers of ours that were no dictionary.
    pub fields_malformed: u64,
    /// Keys and values in headers of ours, or deadlines, that were not understood.
    pub fields_ignored: u64,
    /// Requests turned away because their sender did not say who it is.
    pub unidentified: u64,
    /// Credit sessions that are open.
    pub sessions: u64,
    /// Requests that have come and not got all of their response.
    pub outstanding: u64,
    /// The queueing delay in front of the handlers, now.
    pub queue_delay: Duration,
    /// Time in handlers until their responses began, waits at stages apart, that 99 % of requests
    /// did not exceed.
    pub service_p99: Duration,
    /// The queueing delay that the newest request may meet; zero where there is no limit.
    pub budget: Duration,
    /// Time in handlers, in nanoseconds.
    pub busy_nanos: u64,
    /// How long requests waited in front of their handlers: to be read, and to be run.
    pub waits: BTreeMap<Stage, Histogram>,
    /// What the algorithm shows of itself.
    pub controller: Vec<(&'static str, f64)>,
}

/// What became of the requests of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// The class's name.
    pub class: String,
    /// Requests, whatever became of them.
    pub requests: u64,
    /// Requests served.
    pub completions: u64,
    /// Requests that ended in an error of the server.
    pub failures: u64,
    /// Requests whose clients went away before the end.
    pub cancellations: u64,
    /// Requests refused, by stage and reason.
    pub refusals: BTreeMap<(String, RefusalReason), u64>,
    /// Requests that would have been refused, by stage and reason, and were not since the layer
    /// observes.
    pub observed: BTreeMap<(String, RefusalReason), u64>,
    /// From arrival to the end of the response, by how it ended: done, failed, refused, or
    /// cancelled.
    pub times: BTreeMap<&'static str, Histogram>,
}

impl Counters {
    pub(super) fn came(&self, class: Class) {
        self.of(class).requests.fetch_add(1, Relaxed);
    }

    /// A request has ended after so long.
    pub(super) fn ended(&self, class: Class, end: End, time: Duration) {
        let of = self.of(class);
        let (outcome, counter) = match end {
            End::Done => (0, Some(&of.completions)),
            End::Failed => (1, Some(&of.failures)),
            End::Refused(stage, reason) => {
                *of.refusals.lock().entry((stage, reason)).or_default() += 1;
                (2, None)
            }
            End::Cancelled => (3, Some(&of.cancellations)),
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Relaxed);
        }
        of.times[outcome].observe(time);
    }

    /// A request would have been refused.
    pub(super) fn observed(&self, class: Class, rejected: &Rejected) {
        let why = (rejected.stage, rejected.reason);
        *self.of(class).observed.lock().entry(why).or_default() += 1;
    }

    /// A request has waited in front of its handler.
    pub(super) fn waited(&self, stage: Stage, wait: Duration) {
        if stage == Stage::SOCKET { &self.socket } else { &self.run_queue }.observe(wait);
    }

    pub(super) fn waits(&self) -> BTreeMap<Stage, Histogram> {
        let both = [(Stage::SOCKET, &self.socket), (Stage::RUN_QUEUE, &self.run_queue)];
        both.map(|(stage, waits)| (stage, waits.snapshot())).into()
    }

    pub(super) fn classes(
        &self,
        names: &[Option<String>; Class::COUNT],
        stage_name: impl Fn(Stage) -> String,
    ) -> Vec<ClassStats> {
        let by_name = |refusals: &Mutex<Refusals<Stage>>| {
            let mut named: Refusals<String> = BTreeMap::new();
            for ((stage, reason), count) in &*refusals.lock() {
                *named.entry((stage_name(*stage), *reason)).or_default() += count;
            }
            named
        };
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let rows = self.classes.iter().zip(names).enumerate();
        let used = rows.filter(|(_, (of, name))| name.is_some() || read(&of.requests) > 0);
        used.map(|(row, (of, name))| ClassStats {
            class: name.clone().unwrap_or_else(|| format!("class-{row}")),
            requests: read(&of.requests),
            completions: read(&of.completions),
            failures: read(&of.failures),
            cancellations: read(&of.cancellations),
            refusals: by_name(&of.refusals),
            observed: by_name(&of.observed),
            times: OUTCOMES
                .into_iter()
                .zip(of.times.each_ref().map(SharedHistogram::snapshot))
                .filter(|(_, times)| !times.is_empty())
                .collect(),
        })
        .collect()
    }

    fn of(&self, class: Class) -> &OfClass {
        &self.classes[class.row()]
    }
}

impl ClassStats {
    /// All refusals together.
    pub fn refused(&self) -> u64 {
        self.refusals.values().sum()
    }

    fn publish(&self, before: Option<&Self>) {
        let count = |metric: Metric, value: u64| {
            metrics::counter!(metric.name, "class" => self.class.clone()).absolute(value);
        };
        count(names::REQUESTS, self.requests);
        count(names::COMPLETIONS, self.completions);
        count(names::FAILURES, self.failures);
        count(names::CANCELLATIONS, self.cancellations);
        let both = [(names::REFUSALS, &self.refusals), (names::OBSERVED, &self.observed)];
        for (metric, refusals) in both {
            for ((stage, reason), count) in refusals {
                let labels = [
                    ("class", self.class.clone()),
                    ("stage", stage.clone()),
                    ("reason", reason.to_string()),
                ];
                metrics::counter!(metric.name, &labels).absolute(*count);
            }
        }
        for (outcome, times) in &self.times {
            let before = before.and_then(|before| before.times.get(outcome));
            let labels = [("class", self.class.clone()), ("outcome", (*outcome).into())];
            observe(times, before, &metrics::histogram!(names::REQUEST.name, &labels));
        }
    }
}

/// Has a recorder count what is new in `times` since `before`: the mean of each bucket, so often.
fn observe(times: &Histogram, before: Option<&Histogram>, recorded: &metrics::Histogram) {
    let new = before.map_or_else(|| times.clone(), |before| times.since(before));
    for (mean, count) in new.means() {
        recorded.record_many(mean.as_secs_f64(), count as usize);
    }
}

impl Stats {
    /// All classes together.
    pub fn total(&self) -> ClassStats {
        let mut total = ClassStats::default();
        for class in &self.classes {
            total.requests += class.requests;
            total.completions += class.completions;
            total.failures += class.failures;
            total.cancellations += class.cancellations;
            for (why, count) in &class.refusals {
                *total.refusals.entry(why.clone()).or_default() += count;
            }
            for (why, count) in &class.observed {
                *total.observed.entry(why.clone()).or_default() += count;
            }
            for (outcome, times) in &class.times {
                total.times.entry(outcome).or_default().merge(times);
            }
        }
        total
    }

    /// Hands everything to the recorder that the process has installed for the `metrics` facade, of
    /// histograms what is new since `before`.
    pub(super) fn publish(&self, before: &Self) {
        let count = |metric: Metric, value: u64| metrics::counter!(metric.name).absolute(value);
        let gauge = |metric: Metric, value: f64| metrics::gauge!(metric.name).set(value);
        for class in &self.classes {
            let mut earlier = before.classes.iter();
            class.publish(earlier.find(|earlier| earlier.class == class.class));
        }
        for (stage, waits) in &self.waits {
            let recorded =
                metrics::histogram!(names::STAGE_WAIT.name, "stage" => stage.to_string());
            observe(waits, before.waits.get(stage), &recorded);
        }
        count(names::WINDOW_VIOLATIONS, self.window_violations);
        count(names::PRIVILEGE_VIOLATIONS, self.privilege_violations);
        count(names::HINTS_DISTRUSTED, self.hints_distrusted);
        for (kind, value) in [
            ("malformed_field", self.fields_malformed),
            ("unknown_field", self.fields_ignored),
            ("unidentified", self.unidentified),
        ] {
            metrics::counter!(names::PROTOCOL_ERRORS.name, "kind" => kind).absolute(value);
        }
        for (name, value) in &self.controller {
            metrics::gauge!(format!("seawall_{name}")).set(*value);
        }
        gauge(names::QUEUEING_DELAY, self.queue_delay.as_secs_f64());
        gauge(names::SERVICE_TAIL, self.service_p99.as_secs_f64());
        gauge(names::DELAY_BUDGET, self.budget.as_secs_f64());
        gauge(names::WORKER_BUSY, self.busy_nanos as f64 / 1e9);
        gauge(names::SESSIONS, self.sessions as f64);
        gauge(names::OUTSTANDING, self.outstanding as f64);
    }
}
