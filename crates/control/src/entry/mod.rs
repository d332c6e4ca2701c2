//! What decides at the entry of a live server, without its locks, its queues and its sockets.
//!
//! ```text
//!   facts of an arrival ──► Entry ──► Judgement ──► decide(context) ──► run, or refuse
//!                             │ controller: verdict
//!                             │ predictor: wait in the run queue, tail of service times
//!                             └ budget: what the request may wait at all stages together
//! ```
//!
//! One lock of the server owns an [`Entry`]. What needs no lock, such as making the request's
//! context and asking whether it can wait, is left to the [`Judgement`]. Servers differ in where
//! requests wait, and report that with each arrival.

mod judgement;
mod slots;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

pub use judgement::Judgement;
pub use slots::Slots;

use crate::controller::{
    Algorithm, Arrival, Completion, Dequeue, Feedback, Init, Outcome, ServerController,
    SessionEvent, SessionId, Signal, Verdict,
};
use crate::metrics::Metrics;
use crate::predict::queue::RunQueue;
use crate::request::{Budget, Claims, Class};
use crate::standing::{Queues, Standing};
use crate::time::Instant;

/// What an entry is told about its server.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Cores that run handlers.
    pub cores: u32,
    /// Seed of the algorithm's random choices.
    pub seed: u64,
    /// Within how long this server alone has to answer, client to client; [`Duration::MAX`] if
    /// nobody says.
    pub target_delay: Duration,
    /// Network round trip to the clients.
    pub rtt: Duration,
    /// How long a request may wait at all stages together. Where the entry's own rule is what
    /// bounds waits, and nothing behind it, that is up to the algorithm: [`Budget::under`].
    pub budget: Budget,
    /// How long queues at stages may be while more comes than can be served.
    pub queues: Queues,
    /// The time that 99 % of handlers do not exceed, waits apart; `None` to measure it.
    pub service_p99: Option<Duration>,
}

/// What is known of a request when it comes.
#[derive(Clone, Copy, Debug)]
pub struct Arriving<'a> {
    /// Whose it is.
    pub session: SessionId,
    /// What of the sender's claims is believed.
    pub claims: &'a Claims,
    /// Under what it is measured.
    pub class: Class,
    /// Requests that still wait at the client.
    pub demand: u32,
    /// The newest window that the client had applied.
    pub window_ack: u32,
    /// How long its bytes waited to be read.
    pub waited: Duration,
    /// The round trip that 99 % of its session's requests do not exceed.
    pub network_p99: Duration,
    /// The time that 99 % of those like it take, waits apart, if they differ from others.
    pub service_p99: Option<Duration>,
    /// Requests that wait to run, and since when the oldest does.
    pub queue: (usize, Duration),
    /// How much longer requests may wait now because more CPU is to come.
    pub grace: Duration,
    /// Its session has more requests outstanding than any may.
    pub excess: bool,
}

/// What a request's budget is made of; zero before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetParts {
    /// The time that 99 % of handlers do not exceed, waits apart.
    pub service_p99: Duration,
    /// The round trip that 99 % of the session's requests do not exceed.
    pub network_p99: Duration,
    /// Zero where there is none.
    pub budget: Duration,
}

/// The controller of a live server, and what it has to know beside its algorithm.
#[derive(Debug)]
pub struct Entry {
    controller: Box<dyn ServerController>,
    predictor: RunQueue,
    standing: Standing,
    budget: Budget,
    queues: Queues,
    target_delay: Duration,
    service_p99: Option<Duration>,
    /// The longest that bytes waited to be read since the controller was last told.
    socket_wait: Duration,
    in_flight: u32,
    draining: bool,
    now: Instant,
    /// Of the newest request.
    network_p99: Duration,
    newest_budget: Duration,
    grace: Duration,
}

impl Entry {
    /// An entry under `algorithm`.
    pub fn new(now: Instant, algorithm: Arc<dyn Algorithm>, config: &Config) -> Self {
        let mut init = Init::new(now, config.seed);
        // What one server has to meet, which is all that its controller can steer.
        (init.cores, init.slo, init.rtt) = (config.cores, config.target_delay, config.rtt);
        Self {
            controller: algorithm.server(init),
            predictor: RunQueue::new(config.cores),
            standing: Standing::default(),
            budget: config.budget,
            queues: config.queues,
            target_delay: config.target_delay,
            service_p99: config.service_p99,
            socket_wait: Duration::ZERO,
            in_flight: 0,
            draining: false,
            now,
            network_p99: Duration::ZERO,
            newest_budget: Duration::ZERO,
            grace: Duration::ZERO,
        }
    }

    /// The controller's time: the clock's as read by the caller, but never earlier than it was.
    pub fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// A session opened, told its demand, or closed. With one that closes, [`forget`](Self::forget)
    /// what it still had in the server.
    pub fn on_session(&mut self, now: Instant, session: SessionId, event: SessionEvent) {
        let now = self.advance(now);
        self.controller.on_session(now, session, event);
    }

    /// So many requests will get no reply, because their session has closed.
    pub fn forget(&mut self, in_flight: u32) {
        self.in_flight -= in_flight;
    }

    /// A request has come. It gets exactly one [completion](Self::on_completion), refused or not,
    /// unless it is [forgotten](Self::forget) before.
    pub fn on_arrival(&mut self, now: Instant, arriving: &Arriving<'_>) -> Judgement {
        let now = self.advance(now);
        let &Arriving { claims, class, waited, network_p99, queue: (waiting, age), .. } = arriving;
        self.socket_wait = self.socket_wait.max(waited);
        self.in_flight += 1;
        self.grace = arriving.grace;

        let mut arrival = Arrival::new(arriving.session);
        arrival.id = claims.id;
        arrival.class = class;
        arrival.priority = claims.priority;
        arrival.tenant = claims.tenant;
        arrival.droppable = claims.droppable;
        arrival.attempt = claims.attempt;
        arrival.demand = arriving.demand;
        arrival.window_ack = arriving.window_ack;
        arrival.queue_delay = self.excusing(waited + age);
        let verdict = self.controller.on_arrival(now, &arrival);
        self.standing.on_arrival(now);

        let after = arriving.service_p99.unwrap_or_else(|| self.service_p99()) + network_p99;
        let target = self.target_delay;
        let left = claims.deadline.map_or(target, |left| left.min(target));
        let budget = self.budget.of(left, after);
        self.newest_budget = budget.unwrap_or(Duration::ZERO);
        self.network_p99 = network_p99;
        Judgement {
            now,
            verdict,
            queue_delay: arrival.queue_delay,
            predicted: self.predictor.wait(waiting, age),
            queue_max: self.standing.most(self.queues),
            waited,
            budget,
            // Without its client's deadline, and where nothing else is set the target itself.
            own_budget: self.budget.of(target, after).unwrap_or(target),
            grace: self.grace,
            queues: self.queues,
            excess: arriving.excess,
            draining: self.draining,
        }
    }

    /// True if [`on_dequeue`](Self::on_dequeue) does anything. Constant over an entry's life.
    pub fn judges_dequeues(&self) -> bool {
        self.controller.judges_dequeues()
    }

    /// An admitted request is about to run.
    pub fn on_dequeue(&mut self, now: Instant, dequeue: &Dequeue) -> Verdict {
        let now = self.advance(now);
        self.controller.on_dequeue(now, dequeue)
    }

    /// The terminal reply of a request is ready.
    pub fn on_completion(&mut self, now: Instant, completion: &Completion) {
        let now = self.advance(now);
        self.in_flight -= 1;
        self.controller.on_completion(now, completion);
    }

    /// A handler has ended: it kept a worker for `worked`, and took `service` from its start to its
    /// end, less its waits at stages.
    pub fn on_served(&mut self, worked: Duration, service: Duration) {
        self.predictor.on_served(worked, service);
        self.standing.on_turn(worked / self.predictor.workers());
    }

    /// A request has waited for so long, of which more is known than when it came. Gives the
    /// longest such wait since the controller was last told.
    pub fn on_waited(&mut self, waited: Duration) -> Duration {
        self.socket_wait = self.socket_wait.max(waited);
        self.socket_wait
    }

    /// The oldest runnable request waits for `age`: tells the controller the queueing delay, which
    /// is that and the longest wait to be read since the last time. Gives it.
    pub fn on_queue(&mut self, now: Instant, age: Duration) -> Duration {
        let now = self.advance(now);
        let delay = core::mem::take(&mut self.socket_wait) + age;
        self.controller.on_signal(now, Signal::QueueDelay(self.excusing(delay)));
        delay
    }

    /// Something else was measured.
    pub fn on_signal(&mut self, now: Instant, signal: Signal) {
        let now = self.advance(now);
        self.controller.on_signal(now, signal);
    }

    /// Lets the controller's timer fire if it is due, after telling it the age of the oldest
    /// runnable request. True if it was due.
    pub fn handle_timeout(&mut self, now: Instant, age: Duration) -> bool {
        let now = self.advance(now);
        let is_due = self.poll_timeout().is_some_and(|at| at <= now);
        if is_due {
            self.on_queue(now, age);
            self.controller.handle_timeout(now);
        }
        is_due
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.controller.poll_timeout()
    }

    /// What the reply that is about to leave shall tell its client.
    pub fn feedback(&mut self, now: Instant, session: SessionId) -> Feedback {
        let now = self.advance(now);
        self.controller.feedback(now, session)
    }

    /// The next client to be told something although no reply is due to it.
    pub fn poll_push(&mut self) -> Option<(SessionId, Feedback)> {
        self.controller.poll_push(self.now)
    }

    /// Lets no request in any more.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// True once [`drain`](Self::drain) was called.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Requests that have come and have no reply yet.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// What the budget is made of, as of the newest request.
    pub fn budget(&self) -> BudgetParts {
        BudgetParts {
            service_p99: self.service_p99(),
            network_p99: self.network_p99,
            budget: self.newest_budget,
        }
    }

    /// The controller's state worth watching.
    pub fn metrics(&self) -> Metrics {
        self.controller.metrics()
    }

    fn service_p99(&self) -> Duration {
        self.service_p99.unwrap_or_else(|| self.predictor.service_p99())
    }

    /// What the controller is told of a queueing delay: what of it no CPU that is still to come
    /// excuses, so that neither does it refuse for that nor take credits back.
    fn excusing(&self, delay: Duration) -> Duration {
        delay.saturating_sub(self.grace)
    }
}

/// The completion of the request whose context is `context`, for
/// [`on_completion`](Entry::on_completion).
pub fn completion(
    now: Instant,
    session: SessionId,
    context: &crate::request::Context,
    outcome: Outcome,
) -> Completion {
    let mut completion = Completion::new(session, outcome, context.arrived());
    completion.class = context.class();
    completion.droppable = context.claims().droppable;
    completion.queue_delay = context.charged();
    completion.in_budget = !context.remaining(now).is_zero();
    completion
}

#[cfg(test)]
mod tests;
