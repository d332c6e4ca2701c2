//! Active queue management: refuse what waits too long, at entry or when it is about to run.

mod codel;
mod threshold;

pub use codel::CoDel;
pub use threshold::Threshold;

use core::fmt;
use core::time::Duration;

use crate::controller::{Arrival, Dequeue, ServerController, Signal, Verdict};
use crate::metrics::Metrics;
use crate::time::Instant;

/// Refuses by the queueing delay alone: at entry, at the head of the run queue, or both.
pub trait Aqm: fmt::Debug + Send {
    /// True if [`on_dequeue`](Self::on_dequeue) does anything.
    const JUDGES_DEQUEUES: bool = false;

    /// A request was read.
    fn on_arrival(&mut self, _now: Instant, _arrival: &Arrival) -> Verdict {
        Verdict::Admit
    }

    /// A request is about to run.
    fn on_dequeue(&mut self, _now: Instant, _dequeue: &Dequeue) -> Verdict {
        Verdict::Admit
    }

    /// The queueing delay that it tolerates.
    fn target_delay(&self) -> Duration;
}

/// Server half of an algorithm that is an AQM and nothing else: it tells clients nothing.
#[derive(Debug)]
pub struct Server<A> {
    aqm: A,
    queue_delay: Duration,
}

impl<A: Aqm> Server<A> {
    /// A server that leaves everything to `aqm`.
    pub const fn new(aqm: A) -> Self {
        Self { aqm, queue_delay: Duration::ZERO }
    }
}

impl<A: Aqm> ServerController for Server<A> {
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival) -> Verdict {
        self.aqm.on_arrival(now, arrival)
    }

    fn judges_dequeues(&self) -> bool {
        A::JUDGES_DEQUEUES
    }

    fn on_dequeue(&mut self, now: Instant, dequeue: &Dequeue) -> Verdict {
        self.aqm.on_dequeue(now, dequeue)
    }

    fn on_signal(&mut self, _now: Instant, signal: Signal) {
        let Signal::QueueDelay(delay) = signal else { return };
        self.queue_delay = delay;
    }

    fn metrics(&self) -> Metrics {
        Metrics::new()
            .with("queueing_delay_seconds", self.queue_delay.as_secs_f64())
            .with("target_delay_seconds", self.aqm.target_delay().as_secs_f64())
    }
}
