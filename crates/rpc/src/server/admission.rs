//! The entry of a live server, the clock it is read by, and the sessions it speaks of.
//!
//! One lock owns the entry. The clock is read once for each batch of frames or replies, and the
//! entry keeps the newest reading, so that the controller's `now` never decreases.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::controller::{
    Algorithm, Dequeue, Feedback, Outcome, SessionEvent, SessionId, Signal, Verdict,
};
use seawall_control::entry::{self, Arriving, BudgetParts, Slots};
use seawall_control::metrics::Metrics;
use seawall_control::request::{Identity, RefusalReason, Rejected, Stage};
use seawall_control::standing::Queues;
use seawall_control::time::nanos;
use seawall_control::wire;

use super::close::CloseReason;
use super::config::ServerConfig;
use super::context::{Context, Origin};
use super::job::Reply;
use super::page::Page;
use super::router::Router;
use super::run_queue::RunQueue;
use super::session::Session;
use crate::clock;

/// Sessions that are visited under one lock.
const VISITS: usize = 256;

/// Everything that decides at the live server.
#[derive(Debug)]
pub(super) struct Admission {
    state: Mutex<State>,
    queue: Arc<RunQueue>,
    sessions_max: u32,
    judges_dequeues: bool,
}

#[derive(Debug)]
struct State {
    entry: entry::Entry,
    sessions: Slots<Arc<Session>>,
}

/// What is known of a call at entry beside its frame.
pub(super) struct Circumstances {
    /// How long its bytes waited to be read.
    pub(super) waited: Duration,
    /// The round trip that 99 % of its session's requests do not exceed.
    pub(super) network_p99: Duration,
    /// Its session has more calls outstanding than any may.
    pub(super) excess: bool,
    /// Where it counts, if anywhere.
    pub(super) page: Option<Arc<Page>>,
}

/// What became of a call at entry.
pub(super) enum Entry {
    /// It may join the run queue.
    Admitted(Context),
    /// It is answered with a refusal, for this reason.
    Refused(Context, Rejected),
}

/// What one look at the controller says about the frames that are about to leave.
pub(super) struct News {
    pub(super) feedback: Feedback,
    pub(super) queue_delay: Duration,
    /// When it looked.
    pub(super) now: Instant,
}

impl Admission {
    pub(super) fn new(
        config: &ServerConfig,
        algorithm: Arc<dyn Algorithm>,
        queue: Arc<RunQueue>,
    ) -> Self {
        let entry = entry::Config {
            cores: config.workers() as u32,
            seed: if config.seed == 0 { clock::realtime_ns() } else { config.seed },
            target_delay: config.target_delay(),
            rtt: config.rtt,
            budget: config.budget.under(&*algorithm),
            queues: config.queues.unwrap_or_else(|| Queues::under(&*algorithm)),
            service_p99: config.service_p99,
        };
        let entry = entry::Entry::new(clock::now(), algorithm, &entry);
        Self {
            judges_dequeues: entry.judges_dequeues(),
            state: Mutex::new(State { entry, sessions: Slots::default() }),
            queue,
            sessions_max: config.limits.sessions,
        }
    }

    /// Makes room for a session. The controller hears of it when its client is
    /// [identified](Self::identify).
    ///
    /// # Errors
    ///
    /// There are too many, or the server is about to stop.
    pub(super) fn open(&self) -> Result<Arc<Session>, CloseReason> {
        let mut state = self.state.lock();
        if state.entry.is_draining() {
            return Err(CloseReason::Shutdown);
        }
        if state.sessions.len() >= self.sessions_max as usize {
            return Err(CloseReason::Full);
        }
        let id = state.sessions.insert(|id| Arc::new(Session::new(id)));
        Ok(state.sessions.get(id).expect("it has just come in").clone())
    }

    /// The client of a session has said who it is.
    pub(super) fn identify(&self, id: SessionId, identity: Identity) {
        let mut state = self.state.lock();
        state.entry.on_session(clock::now(), id, SessionEvent::Opened(identity));
    }

    /// Closes a session: its credits are free again, and what it has in the server is forgotten.
    pub(super) fn close(&self, id: SessionId, identified: bool, in_flight: u32) {
        let mut state = self.state.lock();
        if identified {
            state.entry.on_session(clock::now(), id, SessionEvent::Closed);
        }
        state.entry.forget(in_flight);
        state.sessions.remove(id);
        state.push();
    }

    /// Judges a call.
    pub(super) fn arrive(
        &self,
        now: Instant,
        id: SessionId,
        frame: &wire::Request,
        router: &Router,
        Circumstances { waited, network_p99, excess, page }: Circumstances,
    ) -> Entry {
        let claims = &frame.claims;
        let class = router.class_of(claims.method);
        let mut state = self.state.lock();
        let now = state.entry.advance(now);
        let judgement = state.entry.on_arrival(
            now,
            &Arriving {
                session: id,
                claims,
                class,
                demand: frame.demand,
                window_ack: frame.window_ack,
                waited,
                network_p99,
                service_p99: None,
                queue: (self.queue.len(), self.queue.age(now)),
                // Shedding and scaling decide as one: while CPU is still to come, a wait for it is
                // worth more than the budget says, which knows only of what there is.
                grace: page.as_ref().map_or(Duration::ZERO, |page| page.grace(now)),
                excess,
            },
        );
        drop(state);

        let context = judgement.context(claims, class);
        let on_page = page.as_ref().and_then(|page| page.on_arrival(now, claims, waited));
        if claims.droppable {
            self.queue.note_left(context.remaining(now));
        }
        let came = Instant::from_nanos(now.as_nanos().saturating_sub(nanos(waited)));
        let origin = Origin {
            came,
            time_from_start: on_page,
            page,
            own_budget: judgement.own_budget,
            is_repeatable: router.is_repeatable(claims.method),
        };
        let context = Context::new(context, origin);
        let pause = self.queue.halted_for(now).map(|rest| (Stage::PAUSE, rest));
        let cpu = self.queue.cpu_delay().map(|delay| (Stage::CPU, delay));
        let run_queue = (Stage::RUN_QUEUE, judgement.predicted);
        let stages = pause.into_iter().chain(cpu).chain([run_queue]);
        let Err(rejected) = judgement.decide(&context, stages) else {
            return Entry::Admitted(context);
        };
        if rejected.stage == Stage::PAUSE {
            // More CPU would not have helped.
        } else if judgement.asked() {
            context.judge_shed(rejected.predicted_delay);
        } else if matches!(judgement.verdict, Verdict::Refuse(_))
            && rejected.reason == RefusalReason::Overload
        {
            context.set_shed();
        }
        Entry::Refused(context, rejected)
    }

    /// A request has left the run queue: the last look at whether it is still worth running.
    pub(super) fn dequeue(
        &self,
        now: Instant,
        id: SessionId,
        context: &Context,
    ) -> Result<(), Rejected> {
        if let Some(page) = context.page() {
            context.grant_grace(page.grace(now));
        }
        context
            .admit(Stage::RUN_QUEUE, now, Duration::ZERO)
            .inspect_err(|_| context.judge_shed(Duration::ZERO))?;
        if !self.judges_dequeues {
            return Ok(());
        }
        let claims = context.claims();
        let mut dequeue = Dequeue::new(id, context.charged());
        dequeue.class = context.class();
        dequeue.droppable = claims.droppable;
        match self.state.lock().entry.on_dequeue(now, &dequeue) {
            Verdict::Admit => Ok(()),
            Verdict::Refuse(rejected) => {
                context.set_shed(); // at a dequeue there is no other reason
                Err(rejected)
            }
        }
    }

    /// The client told its demand without a call.
    pub(super) fn tell_demand(&self, id: SessionId, demand: u32, window_ack: u32) {
        let mut state = self.state.lock();
        let event = SessionEvent::Demand { demand, window_ack };
        state.entry.on_session(clock::now(), id, event);
        state.push();
    }

    /// Terminal replies are about to leave in one write: reports them, but for those of replicas,
    /// and says what it shall tell.
    pub(super) fn complete(&self, id: SessionId, replies: &[Reply]) -> News {
        let mut state = self.state.lock();
        let entry = &mut state.entry;
        let now = entry.advance(clock::now());
        let queue_delay = entry.on_queue(now, self.queue.age(now));
        let own = replies.iter().filter(|reply| reply.relayed.is_none());
        for reply in own {
            let outcome = reply.outcome();
            entry.on_completion(now, &entry::completion(now, id, &reply.context, outcome));
            if outcome == Outcome::Done {
                entry.on_served(reply.worked, reply.service);
            }
        }
        let feedback = entry.feedback(now, id);
        state.push();
        News { feedback, queue_delay, now }
    }

    /// Lets the controller's timer fire if it is due; gives when to look again.
    pub(super) fn tick(&self) -> Option<Instant> {
        let mut state = self.state.lock();
        let now = state.entry.advance(clock::now());
        if state.entry.handle_timeout(now, self.queue.age(now)) {
            state.push();
        }
        state.entry.poll_timeout()
    }

    /// Wakes all connections whose deadlines have passed.
    pub(super) fn sweep(&self) {
        let now = clock::now();
        self.for_each_session(|session| session.sweep(now));
    }

    /// The workers stand still: all connections are to see what of theirs that holds up.
    pub(super) fn halt(&self) {
        self.for_each_session(Session::halt);
    }

    /// Tells the controller what was measured elsewhere.
    pub(super) fn signal(&self, signal: Signal) {
        self.state.lock().entry.on_signal(clock::now(), signal);
    }

    /// Lets no session and no call in any more, and asks all clients to leave.
    pub(super) fn drain(&self) {
        self.state.lock().entry.drain();
        self.for_each_session(Session::leave);
    }

    /// Requests in the server.
    pub(super) fn in_flight(&self) -> u32 {
        self.state.lock().entry.in_flight()
    }

    /// Open sessions.
    pub(super) fn session_count(&self) -> usize {
        self.state.lock().sessions.len()
    }

    /// What the budget is made of, as of the newest request.
    pub(super) fn budget(&self) -> BudgetParts {
        self.state.lock().entry.budget()
    }

    /// The controller's state worth watching.
    pub(super) fn metrics(&self) -> Metrics {
        self.state.lock().entry.metrics()
    }

    /// Age of the oldest runnable request.
    pub(super) fn queue_age(&self, now: Instant) -> Duration {
        self.queue.age(now)
    }

    /// Visits all sessions, a few at a time, so that nobody waits long for the lock.
    fn for_each_session(&self, visit: impl Fn(&Session)) {
        for chunk in 0.. {
            let state = self.state.lock();
            let Some(sessions) = state.sessions.chunk(chunk, VISITS) else { return };
            sessions.for_each(|session| visit(session));
        }
    }
}

impl State {
    /// Hands out everything that the controller wants clients to be told.
    fn push(&mut self) {
        while let Some((id, feedback)) = self.entry.poll_push() {
            if let Some(session) = self.sessions.get(id) {
                session.push(feedback);
            }
        }
    }
}
