//! A local concurrency limit: the server admits while fewer than a limit are in it, and tells
//! nobody.
//!
//! The mechanism counts what is in flight; a [`LimitPolicy`] only chooses the limit. What is
//! refused has already cost a message and its parsing, which is what credits avoid (Breakwater
//! §2.2).
//!
//! Beside [`Aimd`] and [`Knee`] there are the limits that services use today, to compare with and
//! to move over from: [`vegas`] and [`gradient2`] of Netflix's concurrency-limits, the gradient
//! controller of [`envoy`], and the shedder of go-zero and of kratos's aegis, [`bbr`]. They do what
//! their own code does, whatever that is worth where: `docs/limits.md` says what each of them does
//! not see.

mod aimd;
pub mod bbr;
pub mod envoy;
mod fixed;
pub mod gradient2;
mod history;
pub mod knee;
mod named;
mod sampling;
pub mod vegas;

pub use aimd::{Aimd, Config as AimdConfig};
pub use fixed::Fixed;
pub use knee::Knee;
pub use named::{Config, NAMES};
pub use sampling::Config as WindowConfig;

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::controller::{
    Arrival, Completion, Outcome, ServerController, SessionEvent, SessionId, Signal, Verdict,
};
use crate::metrics::Metrics;
use crate::request::{Class, Rejected, Stage};
use crate::time::Instant;
use history::History;

/// Chooses how many requests may be in the server, or behind a [gate](crate::gate), at once.
///
/// Each request that is let in is followed by one sample or one failure. `now` never decreases.
pub trait LimitPolicy: fmt::Debug + Send {
    /// Whether one more may enter while so many are in there.
    fn admits(&mut self, _now: Instant, in_flight: u32) -> bool {
        in_flight < self.limit()
    }

    /// A request was let in; there are `in_flight` now, itself included.
    fn on_start(&mut self, _now: Instant, _in_flight: u32) {}

    /// A request was served.
    fn on_sample(&mut self, now: Instant, sample: &Sample);

    /// A request that was let in has ended, and was not served: how long it took proves nothing.
    fn on_failure(&mut self, _now: Instant, _failure: &Failure) {}

    /// Something was measured.
    fn on_signal(&mut self, _now: Instant, _signal: Signal) {}

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The limit that counts now, at least 1.
    fn limit(&self) -> u32;

    /// Adds what is worth watching to `metrics`, beside the limit.
    fn metrics(&self, metrics: Metrics) -> Metrics {
        metrics
    }
}

/// One served request, as a limit sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// From arrival to the end of its handler.
    pub latency: Duration,
    /// Requests in the server when it ended, itself included.
    pub in_flight: u32,
    /// The same when it was let in. A server that does not remember says what there were when it
    /// ended.
    pub in_flight_start: u32,
    /// Under what it is measured.
    pub class: Class,
}

impl Sample {
    /// A request of the default class, as many of which were there when it was let in as when it
    /// ended.
    pub fn new(latency: Duration, in_flight: u32) -> Self {
        Self { latency, in_flight, in_flight_start: in_flight, class: Class::default() }
    }
}

/// One request that was let in and not served.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Why not.
    pub kind: FailureKind,
    /// How long it was in there.
    pub latency: Duration,
    /// Requests in the server when it ended, itself included.
    pub in_flight: u32,
    /// Under what it is measured.
    pub class: Class,
}

impl Failure {
    /// A failure of `kind`, of a request of the default class.
    pub fn new(kind: FailureKind, latency: Duration, in_flight: u32) -> Self {
        Self { kind, latency, in_flight, class: Class::default() }
    }
}

/// Why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// Something behind refused it because of overload.
    Refused,
    /// It failed, or did not come back in time.
    Failed,
    /// The client no longer wanted it.
    Cancelled,
}

/// Server half of a local limit steered by `P`.
#[derive(Debug)]
pub struct Server<P> {
    policy: P,
    /// Requests that have arrived and whose reply is not ready.
    in_flight: u32,
    /// Those of them that were refused here: they take no place.
    refused: u32,
    /// Both by the slot of their session: one that closes takes its requests with it.
    by_session: Vec<Counts>,
    history: History,
    queue_delay: Duration,
}

/// Requests of one session.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    in_flight: u32,
    refused: u32,
}

impl<P: LimitPolicy> Server<P> {
    /// A server with nothing in flight.
    pub fn new(policy: P) -> Self {
        Self {
            policy,
            in_flight: 0,
            refused: 0,
            by_session: Vec::new(),
            history: History::default(),
            queue_delay: Duration::ZERO,
        }
    }

    /// Requests that take a place.
    fn admitted(&self) -> u32 {
        self.in_flight - self.refused
    }
}

impl<P: LimitPolicy> ServerController for Server<P> {
    fn on_session(&mut self, _now: Instant, session: SessionId, event: SessionEvent) {
        let slot = session.slot as usize;
        match event {
            SessionEvent::Opened(_) if self.by_session.len() <= slot => {
                self.by_session.resize(slot + 1, Counts::default());
            }
            SessionEvent::Closed => {
                let gone = core::mem::take(&mut self.by_session[slot]);
                self.in_flight -= gone.in_flight;
                self.refused -= gone.refused;
            }
            _ => {}
        }
    }

    fn on_arrival(&mut self, now: Instant, arrival: &Arrival) -> Verdict {
        self.queue_delay = arrival.queue_delay;
        let admits = !arrival.droppable || self.policy.admits(now, self.admitted());
        self.in_flight += 1;
        let counts = &mut self.by_session[arrival.session.slot as usize];
        counts.in_flight += 1;
        if !admits {
            counts.refused += 1;
            self.refused += 1;
            return Verdict::Refuse(Rejected::overload(Stage::ADMISSION, arrival.queue_delay));
        }
        let in_flight = self.admitted();
        self.history.on_arrival(now, in_flight);
        self.policy.on_start(now, in_flight);
        Verdict::Admit
    }

    fn on_completion(&mut self, now: Instant, completion: &Completion) {
        let latency = now.since(completion.arrived);
        let in_flight = self.admitted().max(1);
        match completion.outcome {
            Outcome::Done => {
                let in_flight_start = self.history.at(completion.arrived).unwrap_or(in_flight);
                let class = completion.class;
                let sample = Sample { latency, in_flight, in_flight_start, class };
                self.policy.on_sample(now, &sample);
            }
            // Refused at entry, here or by the privilege's bound: it never was in there.
            Outcome::Refused(Stage::ADMISSION) => {}
            Outcome::Refused(_) => {
                let failure = Failure::new(FailureKind::Refused, latency, in_flight);
                self.policy.on_failure(now, &failure);
            }
            Outcome::Cancelled => {
                let failure = Failure::new(FailureKind::Cancelled, latency, in_flight);
                self.policy.on_failure(now, &failure);
            }
        }
        let counts = &mut self.by_session[completion.session.slot as usize];
        self.in_flight -= 1;
        counts.in_flight -= 1;
        // A refusal at entry for another reason may be taken for one of ours.
        let was_refused = completion.outcome == Outcome::Refused(Stage::ADMISSION);
        let refused = counts.refused.saturating_sub(u32::from(was_refused)).min(counts.in_flight);
        self.refused -= counts.refused - refused;
        counts.refused = refused;
    }

    fn on_signal(&mut self, now: Instant, signal: Signal) {
        if let Signal::QueueDelay(delay) = signal {
            self.queue_delay = delay;
        }
        self.policy.on_signal(now, signal);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.policy.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.policy.poll_timeout()
    }

    fn check(&self) -> Result<(), &'static str> {
        let sum = |of: fn(&Counts) -> u32| self.by_session.iter().map(of).sum::<u32>();
        if self.in_flight != sum(|counts| counts.in_flight) {
            return Err("in flight is not the sum of the sessions'");
        }
        if self.refused != sum(|counts| counts.refused) || self.refused > self.in_flight {
            return Err("refused is not the sum of the sessions', or more than in flight");
        }
        Ok(())
    }

    fn metrics(&self) -> Metrics {
        let metrics = Metrics::new()
            .with("admission_limit", f64::from(self.policy.limit()))
            .with("queueing_delay_seconds", self.queue_delay.as_secs_f64());
        self.policy.metrics(metrics)
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

    /// A limit that notes what it is told.
    #[derive(Debug, Default)]
    struct Notes(Vec<(Option<FailureKind>, u32, u32)>);

    impl LimitPolicy for Notes {
        fn on_sample(&mut self, _now: Instant, sample: &Sample) {
            self.0.push((None, sample.in_flight_start, sample.in_flight));
        }

        fn on_failure(&mut self, _now: Instant, failure: &Failure) {
            self.0.push((Some(failure.kind), 0, failure.in_flight));
        }

        fn limit(&self) -> u32 {
            3
        }
    }

    #[test]
    fn a_policy_hears_of_each_end_and_of_how_many_there_were() {
        let mut server = Server::new(Notes::default());
        let session = SessionId { slot: 0, generation: 0 };
        server.on_session(Instant::ORIGIN, session, SessionEvent::Opened(Identity::default()));
        let at = Instant::from_micros;
        for us in 1..=4 {
            let verdict = server.on_arrival(at(us), &Arrival::new(session));
            assert_eq!(verdict == Verdict::Admit, us < 4);
        }
        for (us, outcome) in [
            (2, Outcome::Done),
            (4, Outcome::Refused(Stage::ADMISSION)),
            (1, Outcome::Refused(Stage::RUN_QUEUE)),
            (3, Outcome::Cancelled),
        ] {
            server.on_completion(at(9), &Completion::new(session, outcome, at(us)));
        }
        let refused = (Some(FailureKind::Refused), 0, 2);
        let cancelled = (Some(FailureKind::Cancelled), 0, 1);
        assert_eq!(server.policy.0, [(None, 2, 3), refused, cancelled]);
    }
}
