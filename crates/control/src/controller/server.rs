//! The server half of the seam, and the factory of both halves.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::client::ClientController;
use super::facts::{
    Arrival, Completion, Dequeue, Feedback, SessionEvent, SessionId, Signal, Verdict,
};
use crate::metrics::Metrics;
use crate::time::Instant;

/// Server half of one algorithm. See the [module](super) for the calling order.
///
/// Every arrival is followed by exactly one completion, refused or not. A session is opened before
/// its first arrival; nothing comes after it closed.
pub trait ServerController: fmt::Debug + Send {
    /// A session opened, told its demand, or closed.
    fn on_session(&mut self, _now: Instant, _session: SessionId, _event: SessionEvent) {}

    /// A request was read: admit it, or refuse it before it costs anything more.
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival) -> Verdict;

    /// True if [`on_dequeue`](Self::on_dequeue) does anything: whether the caller has to ask at
    /// all. Constant over a controller's life.
    fn judges_dequeues(&self) -> bool {
        false
    }

    /// An admitted request reached the head of the run queue: the last chance to refuse it there.
    fn on_dequeue(&mut self, _now: Instant, _dequeue: &Dequeue) -> Verdict {
        Verdict::Admit
    }

    /// The terminal reply of a request is ready.
    fn on_completion(&mut self, _now: Instant, _completion: &Completion) {}

    /// Something was measured.
    fn on_signal(&mut self, _now: Instant, _signal: Signal) {}

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// What the reply that is about to leave shall tell its client. Called once per write, however
    /// many replies it carries.
    fn feedback(&mut self, _now: Instant, _session: SessionId) -> Feedback {
        Feedback::None
    }

    /// The next client to be told something although no reply is due to it.
    fn poll_push(&mut self, _now: Instant) -> Option<(SessionId, Feedback)> {
        None
    }

    /// Counts its own books again, O(sessions): for checkers.
    ///
    /// # Errors
    ///
    /// Says what does not add up: a bug.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// The state worth watching.
    fn metrics(&self) -> Metrics;
}

/// What every algorithm is told when it is built: facts of the deployment, not of the algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Init {
    /// The time at which the controller starts.
    pub now: Instant,
    /// Seed of all its random choices.
    pub seed: u64,
    /// Cores that run request handlers.
    pub cores: u32,
    /// Latency, client to client, that a reply must meet to count as good.
    pub slo: Duration,
    /// Network round trip between client and server.
    pub rtt: Duration,
}

impl Init {
    /// One core, a 2 ms SLO and a 100 µs round trip: loopback on a small machine.
    pub const fn new(now: Instant, seed: u64) -> Self {
        Self { now, seed, cores: 1, slo: Duration::from_millis(2), rtt: Duration::from_micros(100) }
    }
}

/// An admission algorithm: its configuration, which builds both halves.
pub trait Algorithm: fmt::Debug + Send + Sync {
    /// The name under which configuration, command line and plans know it.
    fn name(&self) -> &'static str;

    /// True if the rule of all stages, to refuse what cannot start in time, belongs to it. False
    /// for algorithms that are published without that rule: with it they would look better than
    /// they are.
    fn bounds_waits(&self) -> bool {
        true
    }

    /// True if its server half decides by [`Signal::Cpu`]: who can measure that tells it.
    fn asks_for_cpu(&self) -> bool {
        false
    }

    /// A new server half.
    fn server(self: Arc<Self>, init: Init) -> Box<dyn ServerController>;

    /// A new client half, for one connection to one server.
    fn client(self: Arc<Self>, init: Init) -> Box<dyn ClientController>;
}
