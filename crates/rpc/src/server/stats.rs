//! Counters of a server: one set, for the metrics endpoint, reports and tests alike.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::entry::BudgetParts;
use seawall_control::estimate::{Histogram, SharedHistogram};
use seawall_control::request::Stage;
use seawall_measure::names;

use super::Shared;
use super::classes::{ClassStats, Classes};
use super::close::CloseReason;
use super::spill::Spill;

/// What happened since the server started.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) classes: Classes,
    pub(super) waits: Waits,
    pub(super) window_violations: AtomicU64,
    pub(super) privilege_violations: AtomicU64,
    pub(super) hints_distrusted: AtomicU64,
    pub(super) accepted: AtomicU64,
    pub(super) bytes_received: AtomicU64,
    pub(super) bytes_sent: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) credit_messages: AtomicU64,
    pub(super) busy_nanos: AtomicU64,
    closed: Mutex<BTreeMap<&'static str, u64>>,
    protocol_errors: Mutex<BTreeMap<&'static str, u64>>,
}

/// How long requests waited at the server's own stages.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Bytes, to be read.
    pub(super) socket: SharedHistogram,
    /// Whatever could run, to be run.
    pub(super) run_queue: SharedHistogram,
}

/// A snapshot of a server's counters and gauges.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
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
    /// Calls that were refused here and handed to a replica. They count above by what their
    /// clients were told in the end.
    pub spilled: u64,
    /// Those of them that the replica ran: with a result, or with the application's error.
    pub spilled_served: u64,
    /// Those that the replica did not run either, so that their refusal stood. What is neither was
    /// cancelled, or its replica was lost, or it is outstanding.
    pub spilled_refused: u64,
    /// All of these by class, in the order of classes.
    pub classes: Vec<ClassStats>,
    /// How long requests waited at stages of the server itself, once for each wait.
    pub waits: BTreeMap<Stage, Histogram>,
    /// The names of the service's own stages.
    pub stages: BTreeMap<Stage, String>,
    /// Calls that are at replicas.
    pub spilled_outstanding: u64,
    /// Replicas to hand calls to that are connected.
    pub spill_replicas: u64,
    /// Calls refused by the kernel, for a server that waited for a CPU. The server did not see
    /// them, so that they are not counted above.
    pub bounced: u64,
    /// Calls refused because their session had sent more than it may; also counted as refusals.
    pub window_violations: u64,
    /// Claims struck out because their sender had no right to them.
    pub privilege_violations: u64,
    /// Upscale hints struck out because their sender is not believed.
    pub hints_distrusted: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections closed, by reason.
    pub closed: BTreeMap<&'static str, u64>,
    /// Frames that break the protocol, by kind.
    pub protocol_errors: BTreeMap<&'static str, u64>,
    /// Bytes read.
    pub bytes_received: u64,
    /// Bytes written.
    pub bytes_sent: u64,
    /// Writes.
    pub writes: u64,
    /// Messages that carried a window and no reply.
    pub credit_messages: u64,
    /// Sessions that are open.
    pub sessions: u64,
    /// Calls received and not yet answered.
    pub outstanding: u64,
    /// Time that workers spent in handlers, in nanoseconds.
    pub busy_nanos: u64,
    /// Service time, start to end but for waits at stages, that 99 % of requests did not exceed.
    pub service_p99: Duration,
    /// Network round trip that 99 % do not exceed; of the newest request's session.
    pub network_p99: Duration,
    /// The queueing delay that the newest request may meet; zero where there is no limit.
    pub budget: Duration,
    /// What the algorithm shows of itself.
    pub controller: Vec<(&'static str, f64)>,
}

impl Stats {
    /// All refusals together.
    pub fn refused(&self) -> u64 {
        self.refusals.values().sum()
    }

    /// What a stage is called, Seawall's own or the service's.
    pub fn stage_name(&self, stage: Stage) -> String {
        self.stages.get(&stage).cloned().unwrap_or_else(|| stage.to_string())
    }
}

/// Has a recorder count what is `new`. It gets the mean of each bucket so often: one call for each
/// bucket, and not for each request.
pub(super) fn observe(new: &Histogram, recorded: &metrics::Histogram) {
    for (mean, count) in new.means() {
        recorded.record_many(mean.as_secs_f64(), count as usize);
    }
}

/// Adds `n` to a counter.
pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

impl Counters {
    pub(super) fn closed(&self, reason: &CloseReason) {
        *self.closed.lock().entry(reason.kind()).or_default() += 1;
        if let CloseReason::Protocol(error) = reason {
            *self.protocol_errors.lock().entry(error.kind()).or_default() += 1;
        }
    }

    /// A connection ended before anybody could look at it.
    pub(super) fn gone(&self, error: io::Error) {
        tracing::debug!(%error, "a connection was gone before it began");
        self.closed(&CloseReason::Io(error));
    }

    pub(super) fn snapshot(&self, shared: &Shared) -> Stats {
        let (admission, spill) = (&shared.admission, shared.spill.as_deref());
        let classes = self.classes.snapshot(shared.router.class_names());
        let total = ClassStats::total(&classes);
        let at_replicas = u64::from(spill.map_or(0, Spill::outstanding));
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let BudgetParts { service_p99, network_p99, budget } = admission.budget();
        Stats {
            requests: total.requests,
            completions: total.completions,
            failures: total.failures,
            cancellations: total.cancellations,
            refusals: total.refusals,
            spilled: total.spilled,
            spilled_served: total.spilled_served,
            spilled_refused: total.spilled_refused,
            classes,
            waits: self.waits.snapshot(),
            stages: shared.router.stages().collect(),
            spilled_outstanding: at_replicas,
            spill_replicas: spill.map_or(0, Spill::connected) as u64,
            bounced: shared.bouncer.as_ref().map_or(0, |bouncer| bouncer.refused()),
            window_violations: read(&self.window_violations),
            privilege_violations: read(&self.privilege_violations),
            hints_distrusted: read(&self.hints_distrusted),
            accepted: read(&self.accepted),
            closed: self.closed.lock().clone(),
            protocol_errors: self.protocol_errors.lock().clone(),
            bytes_received: read(&self.bytes_received),
            bytes_sent: read(&self.bytes_sent),
            writes: read(&self.writes),
            credit_messages: read(&self.credit_messages),
            sessions: admission.session_count() as u64,
            outstanding: u64::from(admission.in_flight()) + at_replicas,
            busy_nanos: read(&self.busy_nanos),
            service_p99,
            network_p99,
            budget,
            controller: admission.metrics().iter().collect(),
        }
    }
}

impl Waits {
    fn snapshot(&self) -> BTreeMap<Stage, Histogram> {
        let all = [(Stage::SOCKET, &self.socket), (Stage::RUN_QUEUE, &self.run_queue)];
        all.map(|(stage, waits)| (stage, waits.snapshot())).into()
    }
}

impl Stats {
    /// Hands everything to the recorder that the process has installed for the `metrics` facade:
    /// counters and gauges as they are, of histograms what is new since the stats `before`, which
    /// were handed over last. The first time those are [the default](Self::default).
    pub fn publish(&self, before: &Self) {
        let count = |metric: names::Metric, value: u64| {
            metrics::counter!(metric.name).absolute(value);
        };
        for class in &self.classes {
            let same = before.classes.iter().find(|before| before.class == class.class);
            class.publish(same, |stage| self.stage_name(stage));
        }
        for (stage, waits) in &self.waits {
            let new = before.waits.get(stage).map_or_else(|| waits.clone(), |old| waits.since(old));
            let labels = [("stage", self.stage_name(*stage))];
            observe(&new, &metrics::histogram!(names::STAGE_WAIT.name, &labels));
        }
        count(names::BOUNCED, self.bounced);
        count(names::WINDOW_VIOLATIONS, self.window_violations);
        count(names::PRIVILEGE_VIOLATIONS, self.privilege_violations);
        count(names::HINTS_DISTRUSTED, self.hints_distrusted);
        count(names::CONNECTIONS_ACCEPTED, self.accepted);
        count(names::BYTES_RECEIVED, self.bytes_received);
        count(names::BYTES_SENT, self.bytes_sent);
        count(names::WRITES, self.writes);
        count(names::CREDIT_MESSAGES, self.credit_messages);
        metrics::gauge!(names::SPILLED_OUTSTANDING.name).set(self.spilled_outstanding as f64);
        metrics::gauge!(names::SPILL_REPLICAS.name).set(self.spill_replicas as f64);
        for (reason, closed) in &self.closed {
            metrics::counter!(names::CONNECTIONS_CLOSED.name, "reason" => *reason)
                .absolute(*closed);
        }
        for (kind, errors) in &self.protocol_errors {
            metrics::counter!(names::PROTOCOL_ERRORS.name, "kind" => *kind).absolute(*errors);
        }
        metrics::gauge!(names::WORKER_BUSY.name).set(self.busy_nanos as f64 / 1e9);
        metrics::gauge!(names::SERVICE_TAIL.name).set(self.service_p99.as_secs_f64());
        metrics::gauge!(names::NETWORK_TAIL.name).set(self.network_p99.as_secs_f64());
        metrics::gauge!(names::DELAY_BUDGET.name).set(self.budget.as_secs_f64());
        metrics::gauge!(names::SESSIONS.name).set(self.sessions as f64);
        metrics::gauge!(names::OUTSTANDING.name).set(self.outstanding as f64);
        for (name, value) in &self.controller {
            metrics::gauge!(format!("seawall_{name}")).set(*value);
        }
    }
}
