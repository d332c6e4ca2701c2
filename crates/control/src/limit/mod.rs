//! A local concurrency limit: the server admits while fewer than a limit are in it, and tells
//! nobody.
//!
//! The mechanism counts what is in flight; a [`LimitPolicy`] only chooses the limit. What is
//! refused has already cost a message and its parsing, which is what credits avoid (Breakwater
//! §2.2).

mod aimd;

pub use aimd::{Aimd, Config as AimdConfig};

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::controller::{
    Arrival, Completion, Outcome, Refusal, ServerController, SessionEvent, SessionId, Signal,
    Verdict,
};
use crate::metrics::Metrics;
use crate::request::Stage;
use crate::time::Instant;

/// Chooses how many requests may be in the server at once.
pub trait LimitPolicy: fmt::Debug + Send {
    /// A request was served.
    fn on_sample(&mut self, now: Instant, sample: &Sample);

    /// The limit that counts now, at least 1.
    fn limit(&self) -> u32;
}

/// One served request, as a limit sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// From arrival to the end of its handler.
    pub latency: Duration,
    /// Requests in the server when it ended, itself included.
    pub in_flight: u32,
}

/// Server half of a local limit steered by `P`.
#[derive(Debug)]
pub struct Server<P> {
    policy: P,
    /// Requests that have arrived and whose reply is not ready.
    in_flight: u32,
    /// The same by the slot of their session: one that closes takes its requests with it.
    by_session: Vec<u32>,
    /// Those of them that were refused here: they take no place.
    refused: u32,
    queue_delay: Duration,
}

impl<P: LimitPolicy> Server<P> {
    /// A server with nothing in flight.
    pub fn new(policy: P) -> Self {
        Self {
            policy,
            in_flight: 0,
            by_session: Vec::new(),
            refused: 0,
            queue_delay: Duration::ZERO,
        }
    }
}

impl<P: LimitPolicy> ServerController for Server<P> {
    fn on_session(&mut self, _now: Instant, session: SessionId, event: SessionEvent) {
        let slot = session.slot as usize;
        match event {
            SessionEvent::Opened(_) if self.by_session.len() <= slot => {
                self.by_session.resize(slot + 1, 0);
            }
            SessionEvent::Closed => {
                self.in_flight -= core::mem::take(&mut self.by_session[slot]);
                self.refused = self.refused.min(self.in_flight);
            }
            _ => {}
        }
    }

    fn on_arrival(&mut self, _now: Instant, arrival: &Arrival) -> Verdict {
        self.queue_delay = arrival.queue_delay;
        self.in_flight += 1;
        self.by_session[arrival.session.slot as usize] += 1;
        if arrival.droppable && self.in_flight - self.refused > self.policy.limit() {
            self.refused += 1;
            return Verdict::Refuse(Refusal::overload(Stage::ADMISSION, arrival.queue_delay));
        }
        Verdict::Admit
    }

    fn on_completion(&mut self, now: Instant, completion: &Completion) {
        if completion.outcome == Outcome::Done {
            let latency = now.since(completion.arrived);
            let in_flight = self.in_flight - self.refused;
            self.policy.on_sample(now, &Sample { latency, in_flight });
        }
        self.in_flight -= 1;
        self.by_session[completion.session.slot as usize] -= 1;
        if completion.outcome == Outcome::Refused(Stage::ADMISSION) {
            self.refused = self.refused.saturating_sub(1);
        }
        // A refusal at entry for another reason may have been taken for one of ours.
        self.refused = self.refused.min(self.in_flight);
    }

    fn on_signal(&mut self, _now: Instant, signal: Signal) {
        if let Signal::QueueDelay(delay) = signal {
            self.queue_delay = delay;
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        let by_session = self.by_session.iter().sum();
        if self.in_flight == by_session { Ok(()) } else { Err("in flight is not their sum") }
    }

    fn metrics(&self) -> Metrics {
        Metrics::new()
            .with("admission_limit", f64::from(self.policy.limit()))
            .with("queueing_delay_seconds", self.queue_delay.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Init;
    use crate::request::Identity;

    #[test]
    fn a_session_that_closes_takes_its_requests_with_it() {
        let init = Init::new(Instant::ORIGIN, 0);
        let mut server = Server::new(Aimd::new(&AimdConfig::default(), init));
        let session = |generation| SessionId { slot: 3, generation };
        for generation in 0..10 {
            let session = session(generation);
            let opened = SessionEvent::Opened(Identity::default());
            server.on_session(Instant::ORIGIN, session, opened);
            let admitted = (0..40).filter(|_| {
                server.on_arrival(Instant::ORIGIN, &Arrival::new(session)) == Verdict::Admit
            });
            assert_eq!(admitted.count(), 16);
            server.on_session(Instant::ORIGIN, session, SessionEvent::Closed);
        }
        assert_eq!((server.in_flight, server.refused), (0, 0));
    }

    #[test]
    fn refused_requests_take_no_place() {
        let init = Init::new(Instant::ORIGIN, 0);
        let mut server = Server::new(Aimd::new(&AimdConfig::default(), init));
        let session = SessionId { slot: 0, generation: 0 };
        server.on_session(Instant::ORIGIN, session, SessionEvent::Opened(Identity::default()));
        let arrive = |server: &mut Server<Aimd>| {
            server.on_arrival(Instant::ORIGIN, &Arrival::new(session)) == Verdict::Admit
        };
        assert_eq!((0..64).filter(|_| arrive(&mut server)).count(), 16);
        let done = Completion::new(session, Outcome::Done, Instant::ORIGIN);
        server.on_completion(Instant::ORIGIN, &done);
        assert!(arrive(&mut server), "a place is free although refusals are not answered yet");
    }
}
