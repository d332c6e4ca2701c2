//! The client half of the seam.

use core::fmt;
use core::time::Duration;

use super::facts::Feedback;
use crate::metrics::Metrics;
use crate::request::{Class, Priority};
use crate::time::Instant;

/// A request that wants to leave.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Demand {
    /// Number of the call, as the server will see it.
    pub id: u64,
    /// How important it is.
    pub priority: Priority,
    /// Under what it is measured.
    pub class: Class,
    /// False when no stage may refuse it.
    pub droppable: bool,
    /// Requests of this client that the server has not answered yet.
    pub outstanding: u32,
}

impl Demand {
    /// A droppable request of default class and priority, with `outstanding` others on their way.
    pub fn new(outstanding: u32) -> Self {
        Self {
            id: 0,
            priority: Priority::default(),
            class: Class::default(),
            droppable: true,
            outstanding,
        }
    }
}

/// What becomes of a request that wants to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Departure {
    /// It leaves now; the controller has counted it.
    Now,
    /// It waits until then and is asked for again.
    At(Instant),
    /// It waits until the server says something, or until it expires.
    Hold,
    /// It never leaves.
    Drop(DropReason),
}

/// Why a request ended at the client without being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// It waited longer than the client's queue allows.
    Expired,
    /// The client's queue was full, and this was the oldest in it.
    QueueFull,
    /// The server would refuse it: its priority is below the level that the server announced.
    Throttled,
}

/// A terminal reply, or another message with news, arrived from the server.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Response {
    /// From sending to reply.
    pub latency: Duration,
    /// False when the server refused.
    pub served: bool,
    /// What it told about admission.
    pub feedback: Feedback,
}

impl Response {
    /// A served request's reply.
    pub fn new(latency: Duration, feedback: Feedback) -> Self {
        Self { latency, served: true, feedback }
    }
}

/// Client half of one algorithm: one for each connection. See the [module](super) for the calling
/// order.
pub trait ClientController: fmt::Debug + Send {
    /// A request wants to leave, and none waits ahead of it.
    fn on_demand(&mut self, now: Instant, demand: &Demand) -> Departure;

    /// A request got its terminal reply, served or refused.
    fn on_response(&mut self, now: Instant, response: &Response);

    /// The server told something outside of a reply.
    fn on_push(&mut self, _now: Instant, _feedback: Feedback) {}

    /// What to acknowledge in the next request: the newest window that was applied.
    fn window_ack(&self) -> u32 {
        0
    }

    /// True if the server wants to hear of every change of the demand, and not only with requests.
    fn tells_all(&self) -> bool {
        false
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The state worth watching.
    fn metrics(&self) -> Metrics;
}
