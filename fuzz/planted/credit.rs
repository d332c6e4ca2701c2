//! The credit server with a bug: a request that is cancelled more than a second after it arrived
//! does not give its credit back.

use core::time::Duration;

use seawall_control::Instant;
use seawall_control::controller::{
    Arrival, Completion, Feedback, Init, Outcome, ServerController, SessionEvent, SessionId,
    Signal, Verdict,
};
use seawall_control::credit::{self, Audit, PoolPolicy};
pub(crate) use seawall_control::credit::{Config, Next};
use seawall_control::metrics::Metrics;

#[derive(Debug)]
pub(crate) struct Server<P>(credit::Server<P>);

impl<P: PoolPolicy> Server<P> {
    pub(crate) fn new(policy: P, config: Config, init: Init, first: Next) -> Self {
        Self(credit::Server::new(policy, config, init, first))
    }

    pub(crate) fn audit(&self) -> Audit {
        self.0.audit()
    }

    pub(crate) fn allowed(&self, session: SessionId) -> u32 {
        self.0.allowed(session)
    }

    pub(crate) fn demand(&self, session: SessionId) -> u32 {
        self.0.demand(session)
    }
}

impl<P: PoolPolicy> ServerController for Server<P> {
    fn on_completion(&mut self, now: Instant, completion: &Completion) {
        let late = now.since(completion.arrived) > Duration::from_secs(1);
        if completion.outcome == Outcome::Cancelled && late {
            return;
        }
        self.0.on_completion(now, completion);
    }

    fn on_session(&mut self, now: Instant, session: SessionId, event: SessionEvent) {
        self.0.on_session(now, session, event);
    }

    fn on_arrival(&mut self, now: Instant, arrival: &Arrival) -> Verdict {
        self.0.on_arrival(now, arrival)
    }

    fn on_signal(&mut self, now: Instant, signal: Signal) {
        self.0.on_signal(now, signal);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn feedback(&mut self, now: Instant, session: SessionId) -> Feedback {
        self.0.feedback(now, session)
    }

    fn poll_push(&mut self, now: Instant) -> Option<(SessionId, Feedback)> {
        self.0.poll_push(now)
    }

    fn metrics(&self) -> Metrics {
        self.0.metrics()
    }
}
