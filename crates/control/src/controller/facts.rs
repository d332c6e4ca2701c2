//! Facts that travel to a server's controller, and its answers.

use core::time::Duration;

use crate::request::{Class, Identity, Priority, Rejected, Stage, Tenant};
use crate::time::Instant;

/// Names a session of the server; never reused while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// Place in the session table; reused after the session closed.
    pub slot: u32,
    /// Tells successive sessions of one place apart.
    pub generation: u32,
}

/// Something happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The client connected, and the listener knows who it is.
    Opened(Identity),
    /// The client told, outside of a request, how many requests it holds back.
    Demand {
        /// Requests that wait at the client.
        demand: u32,
        /// The newest window that the client had applied.
        window_ack: u32,
    },
    /// The client left, or was made to leave: its credits are free again.
    Closed,
}

/// A request was read from its session.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Arrival {
    /// Where it came from.
    pub session: SessionId,
    /// Number of the call, unique within its session; the client chose it.
    pub id: u64,
    /// Under what it is measured.
    pub class: Class,
    /// How important it is.
    pub priority: Priority,
    /// Whom it is charged to.
    pub tenant: Tenant,
    /// False when no stage may refuse it.
    pub droppable: bool,
    /// 0 for the first try.
    pub attempt: u8,
    /// Requests that still wait at the client, this one not counted.
    pub demand: u32,
    /// The newest window that the client had applied when it sent this.
    pub window_ack: u32,
    /// The wait that this request must expect: what it already waited to be read, plus the age of
    /// the oldest runnable request.
    pub queue_delay: Duration,
}

impl Arrival {
    /// An arrival of default class and priority that knows of no queue.
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            id: 0,
            class: Class::default(),
            priority: Priority::default(),
            tenant: Tenant::default(),
            droppable: true,
            attempt: 0,
            demand: 0,
            window_ack: 0,
            queue_delay: Duration::ZERO,
        }
    }
}

/// An admitted request is about to run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Dequeue {
    /// Where it came from.
    pub session: SessionId,
    /// Under what it is measured.
    pub class: Class,
    /// False when no stage may refuse it.
    pub droppable: bool,
    /// How long it waited in the run queue.
    pub sojourn: Duration,
}

impl Dequeue {
    /// A droppable request of the default class.
    pub fn new(session: SessionId, sojourn: Duration) -> Self {
        Self { session, class: Class::default(), droppable: true, sojourn }
    }
}

/// How a request ended at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its handler returned, with a result or with the application's own error.
    Done,
    /// A stage refused it.
    Refused(Stage),
    /// The client no longer wants it.
    Cancelled,
}

/// The terminal reply of a request is ready. Every arrival gets exactly one, refused or not.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Completion {
    /// Where the request came from.
    pub session: SessionId,
    /// Under what it is measured.
    pub class: Class,
    /// False when no stage was allowed to refuse it.
    pub droppable: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// When it arrived.
    pub arrived: Instant,
    /// Queueing delay that it met in all stages together.
    pub queue_delay: Duration,
    /// True when `queue_delay` stayed within the request's budget and deadline.
    pub in_budget: bool,
}

impl Completion {
    /// A request of the default class that met no queue.
    pub fn new(session: SessionId, outcome: Outcome, arrived: Instant) -> Self {
        Self {
            session,
            class: Class::default(),
            droppable: true,
            outcome,
            arrived,
            queue_delay: Duration::ZERO,
            in_budget: true,
        }
    }
}

/// A measurement that belongs to no single request.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Signal {
    /// The service's queueing delay right now: age of the oldest item of each queue, summed.
    QueueDelay(Duration),
    /// Electrical power of the machine or of what is steered.
    Power {
        /// Mean since the signal before.
        watts: f64,
    },
    /// Use of the memory bandwidth.
    Bandwidth {
        /// From and to memory, mean since the signal before.
        bytes_per_second: f64,
    },
    /// Use of the CPU that the service may have: of its cores, or of its quota.
    Cpu {
        /// From 0 to 1, mean since the signal before.
        utilization: f64,
    },
}

/// What becomes of a request at a decision point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It goes on.
    Admit,
    /// It is answered with a refusal.
    Refuse(Rejected),
}

/// What the next reply tells the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feedback {
    /// The algorithm has nothing to say to this client.
    None,
    /// The client may have `size` requests outstanding.
    Window {
        /// Absolute window: outstanding plus unused credits.
        size: u32,
        /// Number of this window; newer windows have larger numbers, modulo 2³².
        seq: u32,
    },
    /// The threshold of a priority scheme.
    Level(u16),
}
