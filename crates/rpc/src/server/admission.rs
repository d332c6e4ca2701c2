//! The controller of a live server, the clock it is read by, and the sessions it speaks of.
//!
//! One lock owns the controller. The clock is read once for each batch of frames or replies, and
//! the lock keeps the newest reading, so that the controller's `now` never decreases.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::controller::{
    Algorithm, Arrival, Completion, Dequeue, Feedback, Init, Outcome, ServerController,
    SessionEvent, SessionId, Signal, Verdict,
};
use seawall_control::metrics::Metrics;
use seawall_control::predict::queue;
use seawall_control::request::{self, Budget, Claims, Identity, RefusalReason, Rejected, Stage};
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
    budget: Budget,
    target_delay: Duration,
    /// The 99th percentile of service times, if it was set.
    service_p99: Option<Duration>,
    sessions_max: u32,
    judges_dequeues: bool,
}

#[derive(Debug)]
struct State {
    controller: Box<dyn ServerController>,
    predictor: queue::RunQueue,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The longest that bytes waited to be read since the controller was last told.
    socket_wait: Duration,
    in_flight: u32,
    draining: bool,
    now: Instant,
    /// Of the newest request.
    network_p99: Duration,
    budget: Duration,
    /// How much longer requests may wait now because more CPU is to come.
    grace: Duration,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    session: Option<Arc<Session>>,
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

/// What a request's budget is made of; zero before the first.
pub(super) struct BudgetParts {
    pub(super) service_p99: Duration,
    pub(super) network_p99: Duration,
    /// Zero where there is none.
    pub(super) budget: Duration,
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
        let cores = config.workers() as u32;
        let seed = if config.seed == 0 { clock::realtime_ns() } else { config.seed };
        let mut init = Init::new(clock::now(), seed);
        // What one server has to meet, which is all that its controller can steer.
        (init.cores, init.slo, init.rtt) = (cores, config.target_delay(), config.rtt);
        let budget = config.budget.under(&*algorithm);
        let state = State {
            controller: algorithm.server(init),
            predictor: queue::RunQueue::new(cores),
            slots: Vec::new(),
            free: Vec::new(),
            socket_wait: Duration::ZERO,
            in_flight: 0,
            draining: false,
            now: init.now,
            network_p99: Duration::ZERO,
            budget: Duration::ZERO,
            grace: Duration::ZERO,
        };
        Self {
            judges_dequeues: state.controller.judges_dequeues(),
            state: Mutex::new(state),
            queue,
            budget,
            target_delay: config.target_delay(),
            service_p99: config.service_p99,
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
        let state = &mut *state;
        let open = state.slots.len() - state.free.len();
        if state.draining {
            return Err(CloseReason::Shutdown);
        }
        if open >= self.sessions_max as usize {
            return Err(CloseReason::Full);
        }
        let index = state.free.pop().unwrap_or_else(|| {
            state.slots.push(Slot::default());
            state.slots.len() as u32 - 1
        });
        let slot = &mut state.slots[index as usize];
        let id = SessionId { slot: index, generation: slot.generation };
        let session = Arc::new(Session::new(id));
        slot.session = Some(session.clone());
        Ok(session)
    }

    /// The client of a session has said who it is.
    pub(super) fn identify(&self, id: SessionId, identity: Identity) {
        let mut state = self.state.lock();
        let now = state.advance(clock::now());
        state.controller.on_session(now, id, SessionEvent::Opened(identity));
    }

    /// Closes a session: its credits are free again, and what it has in the server is forgotten.
    pub(super) fn close(&self, id: SessionId, identified: bool, in_flight: u32) {
        let mut state = self.state.lock();
        if identified {
            let now = state.advance(clock::now());
            state.controller.on_session(now, id, SessionEvent::Closed);
        }
        state.in_flight -= in_flight;
        let slot = &mut state.slots[id.slot as usize];
        slot.session = None;
        slot.generation = slot.generation.wrapping_add(1);
        state.free.push(id.slot);
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
        let class = router.class_of(frame.claims.method);
        let mut state = self.state.lock();
        let now = state.advance(now);
        let age = self.queue.age(now);
        state.socket_wait = state.socket_wait.max(waited);
        state.in_flight += 1;
        // Shedding and scaling decide as one: while CPU is still to come, a wait for it is worth
        // more than the budget says, which knows only of what there is.
        state.grace = page.as_ref().map_or(Duration::ZERO, |page| page.grace(now));

        let mut arrival = Arrival::new(id);
        arrival.id = frame.claims.id;
        arrival.class = class;
        arrival.priority = frame.claims.priority;
        arrival.tenant = frame.claims.tenant;
        arrival.droppable = frame.claims.droppable;
        arrival.attempt = frame.claims.attempt;
        arrival.demand = frame.demand;
        arrival.window_ack = frame.window_ack;
        arrival.queue_delay = state.excusing(waited + age);
        let verdict = state.controller.on_arrival(now, &arrival);
        let predicted = state.predictor.wait(self.queue.len(), age);
        let service_p99 = self.service_p99.unwrap_or_else(|| state.predictor.service_p99());
        let after = service_p99 + network_p99;
        let budget = self.budget_of(frame, after);
        // Without its client's deadline, and where nothing else is set the target itself.
        let own_budget = self.budget.of(self.target_delay, after).unwrap_or(self.target_delay);
        state.budget = budget.unwrap_or(Duration::ZERO);
        state.network_p99 = network_p99;
        let context = request_context(frame, now, waited, budget).with_class(class);
        let (draining, grace) = (state.draining, state.grace);
        drop(state);

        context.charge(waited);
        let mut time_from_start = None;
        if let Some(page) = &page {
            time_from_start = page.on_arrival(now, &frame.claims, waited);
            context.grant_grace(grace);
        }
        if arrival.droppable {
            self.queue.note_left(context.remaining(now));
        }
        let came = Instant::from_nanos(now.as_nanos().saturating_sub(nanos(waited)));
        let origin = Origin { came, time_from_start, page, own_budget };
        let context = Context::new(context, origin);
        let entry = match verdict {
            Verdict::Refuse(rejected) => {
                if rejected.reason == RefusalReason::Overload {
                    context.set_shed();
                }
                Err(rejected)
            }
            Verdict::Admit if excess => {
                Err(Rejected::at_entry(RefusalReason::WindowExceeded, arrival.queue_delay))
            }
            Verdict::Admit if draining => {
                Err(Rejected::at_entry(RefusalReason::Shutdown, Duration::ZERO))
            }
            Verdict::Admit => {
                let admit = |stage, predicted| {
                    context.admit(stage, now, predicted).map_err(|rejected| {
                        context.judge_shed(predicted);
                        rejected.with_retry_after(predicted)
                    })
                };
                let starved = self.queue.cpu_delay();
                let cpu = starved.map_or(Ok(()), |predicted| admit(Stage::CPU, predicted));
                cpu.and_then(|()| admit(Stage::RUN_QUEUE, predicted))
            }
        };
        match entry {
            Ok(()) => Entry::Admitted(context),
            Err(rejected) => Entry::Refused(context, rejected),
        }
    }

    /// The budget that the server itself gives a request, which takes `after` for all but waits.
    fn budget_of(&self, frame: &wire::Request, after: Duration) -> Option<Duration> {
        let target = self.target_delay;
        let left = frame.claims.deadline.map_or(target, |left| left.min(target));
        self.budget.of(left, after)
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
        let mut state = self.state.lock();
        let now = state.advance(now);
        match state.controller.on_dequeue(now, &dequeue) {
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
        let now = state.advance(clock::now());
        state.controller.on_session(now, id, event);
        state.push();
    }

    /// Terminal replies are about to leave in one write: reports them, but for those of replicas,
    /// and says what it shall tell.
    pub(super) fn complete(&self, id: SessionId, replies: &[Reply]) -> News {
        let mut state = self.state.lock();
        let now = state.advance(clock::now());
        let queue_delay = state.signal(now, self.queue.age(now));
        let own = replies.iter().filter(|reply| reply.relayed.is_none());
        for reply in own {
            state.in_flight -= 1;
            let mut completion = Completion::new(id, reply.outcome(), reply.context.arrived());
            completion.class = reply.context.class();
            completion.droppable = reply.context.claims().droppable;
            completion.queue_delay = reply.context.charged();
            completion.in_budget = reply.in_budget(now);
            state.controller.on_completion(now, &completion);
            if completion.outcome == Outcome::Done {
                state.predictor.on_served(reply.worked, reply.service);
            }
        }
        let feedback = state.controller.feedback(now, id);
        state.push();
        News { feedback, queue_delay, now }
    }

    /// Lets the controller's timer fire if it is due; gives when to look again.
    pub(super) fn tick(&self) -> Option<Instant> {
        let mut state = self.state.lock();
        let now = state.advance(clock::now());
        if state.controller.poll_timeout().is_some_and(|at| at <= now) {
            state.signal(now, self.queue.age(now));
            state.controller.handle_timeout(now);
            state.push();
        }
        state.controller.poll_timeout()
    }

    /// Wakes all connections whose deadlines have passed.
    pub(super) fn sweep(&self) {
        let now = clock::now();
        self.for_each_session(|session| session.sweep(now));
    }

    /// Tells the controller what was measured elsewhere.
    pub(super) fn signal(&self, signal: Signal) {
        let mut state = self.state.lock();
        let now = state.advance(clock::now());
        state.controller.on_signal(now, signal);
    }

    /// Lets no session and no call in any more, and asks all clients to leave.
    pub(super) fn drain(&self) {
        self.state.lock().draining = true;
        self.for_each_session(Session::leave);
    }

    /// Requests in the server.
    pub(super) fn in_flight(&self) -> u32 {
        self.state.lock().in_flight
    }

    /// Open sessions.
    pub(super) fn session_count(&self) -> usize {
        let state = self.state.lock();
        state.slots.len() - state.free.len()
    }

    /// What the budget is made of, as of the newest request.
    pub(super) fn budget(&self) -> BudgetParts {
        let state = self.state.lock();
        BudgetParts {
            service_p99: self.service_p99.unwrap_or_else(|| state.predictor.service_p99()),
            network_p99: state.network_p99,
            budget: state.budget,
        }
    }

    /// The controller's state worth watching.
    pub(super) fn metrics(&self) -> Metrics {
        self.state.lock().controller.metrics()
    }

    /// Age of the oldest runnable request.
    pub(super) fn queue_age(&self, now: Instant) -> Duration {
        self.queue.age(now)
    }

    /// Visits all sessions, a few at a time, so that nobody waits long for the lock.
    fn for_each_session(&self, visit: impl Fn(&Session)) {
        for chunk in 0.. {
            let state = self.state.lock();
            let Some(slots) = state.slots.chunks(VISITS).nth(chunk) else { return };
            slots.iter().filter_map(|slot| slot.session.as_deref()).for_each(&visit);
        }
    }
}

/// The request context of a frame that `waited` to be read.
fn request_context(
    frame: &wire::Request,
    now: Instant,
    waited: Duration,
    budget: Option<Duration>,
) -> request::Context {
    // The deadline has run since the frame came; the wait is charged to the budget later.
    let deadline = frame.claims.deadline.map(|left| left.saturating_sub(waited));
    let context = request::Context::new(Claims { deadline, ..frame.claims }, now);
    match budget {
        Some(budget) => context.with_budget_at_most(budget),
        None => context,
    }
}

impl State {
    /// The controller's time: the clock's as read by the caller, but never earlier than it was.
    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// Tells the controller the queueing delay: the longest wait to be read plus the age of the
    /// oldest runnable request.
    fn signal(&mut self, now: Instant, age: Duration) -> Duration {
        let delay = std::mem::take(&mut self.socket_wait) + age;
        self.controller.on_signal(now, Signal::QueueDelay(self.excusing(delay)));
        delay
    }

    /// What the controller is told of a queueing delay: what of it no CPU that is still to come
    /// excuses, so that neither does it refuse for that nor take credits back.
    fn excusing(&self, delay: Duration) -> Duration {
        delay.saturating_sub(self.grace)
    }

    /// Hands out everything that the controller wants clients to be told.
    fn push(&mut self) {
        while let Some((id, feedback)) = self.controller.poll_push(self.now) {
            let slot = &self.slots[id.slot as usize];
            if let Some(session) = &slot.session
                && slot.generation == id.generation
            {
                session.push(feedback);
            }
        }
    }
}
