//! The bound on requests that must not be dropped, for algorithms that keep no such count.
//!
//! No stage refuses such a request, so their number is bounded where they enter, whatever the
//! algorithm: without that, a sender who marks everything would not be controlled at all. The
//! [credit mechanism](crate::credit) counts them itself.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::controller::{
    Algorithm, Arrival, ClientController, Completion, Dequeue, Feedback, Init, ServerController,
    SessionEvent, SessionId, Signal, Verdict,
};
use crate::metrics::Metrics;
use crate::request::{RefusalReason, Rejected};
use crate::time::Instant;

/// Another algorithm, with at most so many requests in the server at once that must not be
/// dropped. The excess is refused at entry.
#[derive(Clone, Debug)]
pub struct Bounded<A> {
    algorithm: Arc<A>,
    privileged_max: u32,
}

/// Server half of [`Bounded`].
#[derive(Debug)]
pub struct Server {
    controller: Box<dyn ServerController>,
    privileged_max: u32,
    /// Requests in the server that must not be dropped, those just refused included.
    privileged: u32,
    /// The same by the slot of their session: one that closes takes its requests with it.
    by_session: Vec<u32>,
}

impl<A> Bounded<A> {
    /// The bound around `algorithm`.
    pub fn new(algorithm: A, privileged_max: u32) -> Self {
        Self { algorithm: Arc::new(algorithm), privileged_max }
    }
}

impl<A: Algorithm> Algorithm for Bounded<A> {
    fn name(&self) -> &'static str {
        self.algorithm.name()
    }

    fn bounds_waits(&self) -> bool {
        self.algorithm.bounds_waits()
    }

    fn asks_for_cpu(&self) -> bool {
        self.algorithm.asks_for_cpu()
    }

    fn server(self: Arc<Self>, init: Init) -> Box<dyn ServerController> {
        let controller = self.algorithm.clone().server(init);
        Box::new(Server::new(controller, self.privileged_max))
    }

    fn client(self: Arc<Self>, init: Init) -> Box<dyn ClientController> {
        self.algorithm.clone().client(init)
    }
}

impl Server {
    /// The bound around `controller`.
    pub fn new(controller: Box<dyn ServerController>, privileged_max: u32) -> Self {
        Self { controller, privileged_max, privileged: 0, by_session: Vec::new() }
    }
}

impl ServerController for Server {
    fn on_session(&mut self, now: Instant, session: SessionId, event: SessionEvent) {
        if event == SessionEvent::Closed
            && let Some(count) = self.by_session.get_mut(session.slot as usize)
        {
            self.privileged -= core::mem::take(count);
        }
        self.controller.on_session(now, session, event);
    }

    fn on_arrival(&mut self, now: Instant, arrival: &Arrival) -> Verdict {
        let verdict = self.controller.on_arrival(now, arrival);
        if arrival.droppable {
            return verdict;
        }
        let slot = arrival.session.slot as usize;
        if self.by_session.len() <= slot {
            self.by_session.resize(slot + 1, 0);
        }
        self.by_session[slot] += 1;
        self.privileged += 1;
        match verdict {
            Verdict::Admit if self.privileged > self.privileged_max => {
                let reason = RefusalReason::PrivilegeExceeded;
                Verdict::Refuse(Rejected::at_entry(reason, arrival.queue_delay))
            }
            verdict => verdict,
        }
    }

    fn judges_dequeues(&self) -> bool {
        self.controller.judges_dequeues()
    }

    fn on_dequeue(&mut self, now: Instant, dequeue: &Dequeue) -> Verdict {
        self.controller.on_dequeue(now, dequeue)
    }

    fn on_completion(&mut self, now: Instant, completion: &Completion) {
        if !completion.droppable {
            self.privileged -= 1;
            self.by_session[completion.session.slot as usize] -= 1;
        }
        self.controller.on_completion(now, completion);
    }

    fn on_signal(&mut self, now: Instant, signal: Signal) {
        self.controller.on_signal(now, signal);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.controller.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.controller.poll_timeout()
    }

    fn feedback(&mut self, now: Instant, session: SessionId) -> Feedback {
        self.controller.feedback(now, session)
    }

    fn poll_push(&mut self, now: Instant) -> Option<(SessionId, Feedback)> {
        self.controller.poll_push(now)
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.privileged != self.by_session.iter().sum() {
            return Err("privileged requests are not the sum of the sessions'");
        }
        self.controller.check()
    }

    fn metrics(&self) -> Metrics {
        self.controller.metrics().with("privileged_in_flight", f64::from(self.privileged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission;
    use crate::controller::Outcome;
    use crate::request::{Identity, Stage};

    fn session(slot: u32) -> SessionId {
        SessionId { slot, generation: 0 }
    }

    /// The reasons for which requests of a session were refused, of `count` that come at once.
    fn arrive(
        server: &mut dyn ServerController,
        slot: u32,
        droppable: bool,
        count: u32,
    ) -> Vec<RefusalReason> {
        let arrival = Arrival { droppable, ..Arrival::new(session(slot)) };
        let verdicts = (0..count).map(|_| server.on_arrival(Instant::ORIGIN, &arrival));
        verdicts
            .filter_map(|verdict| match verdict {
                Verdict::Admit => None,
                Verdict::Refuse(refusal) => Some(refusal.reason),
            })
            .collect()
    }

    #[test]
    fn excess_of_the_privilege_is_refused_at_entry_under_every_algorithm() {
        for name in admission::NAMES {
            let mut config = admission::Config::named(name);
            config.credit.privileged_max = 3;
            let algorithm = config.build().unwrap();
            let mut server = algorithm.server(Init::new(Instant::ORIGIN, 1));
            // Each with a session of its own, so that no window is exceeded.
            let mut refused = Vec::new();
            for slot in 0..8 {
                let opened = SessionEvent::Opened(Identity::default());
                server.on_session(Instant::ORIGIN, session(slot), opened);
                refused.extend(arrive(&mut *server, slot, false, 1));
            }
            assert_eq!(refused, [RefusalReason::PrivilegeExceeded; 5], "{name}");
            // Those that are gone, however they went, make room.
            for slot in 0..5 {
                let refused = Outcome::Refused(Stage::ADMISSION);
                let mut gone = Completion::new(session(slot), refused, Instant::ORIGIN);
                gone.droppable = false;
                server.on_completion(Instant::ORIGIN, &gone);
            }
            server.on_session(Instant::ORIGIN, session(5), SessionEvent::Closed);
            assert_eq!(server.check(), Ok(()), "{name}");
            assert_eq!(server.metrics().value("privileged_in_flight"), Some(2.0), "{name}");
            let opened = SessionEvent::Opened(Identity::default());
            server.on_session(Instant::ORIGIN, session(9), opened);
            assert_eq!(arrive(&mut *server, 9, false, 1), [], "{name}");
        }
    }

    #[test]
    fn others_have_no_part_in_the_bound() {
        let bounded = Arc::new(Bounded::new(crate::open::Open, 0));
        let mut server = bounded.server(Init::new(Instant::ORIGIN, 1));
        assert_eq!(arrive(&mut *server, 0, true, 1_000), []);
        assert_eq!(arrive(&mut *server, 0, false, 1).len(), 1);
    }
}
