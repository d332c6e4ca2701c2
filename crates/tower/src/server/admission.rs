//! What all clones of a layer share: the entry and its lock, and what is known about the process.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Once};
use std::time::Duration;

use http::{HeaderValue, Request, Version};
use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::controller::{Algorithm, Dequeue, Outcome, SessionId, Verdict};
use seawall_control::entry::{self, Arriving, Entry};
use seawall_control::fields::{self, Name};
use seawall_control::request::{self, Claims, Class, RefusalReason, Rejected, Stage};
use tokio::sync::Notify;

use super::answer::{Refusal, Theirs};
use super::canary::Canary;
use super::classes::{Classes, Head};
use super::config::{Config, Mode, Orca};
use super::context::Context;
use super::head::Told;
use super::io::Connection;
use super::orca::{Load, Report};
use super::senders::Senders;
use super::sessions::Sessions;
use super::stats::{Counters, End, Stats};
use super::ticket::{Ticket, Wants};
use crate::clock;

/// A queue behind the entry that the layer is to know of, such as the one in front of what a
/// handler calls.
///
/// By its wait the layer refuses at [`stage`](Self::stage) who could not wait for so long, and
/// tells the algorithm and clients of the queueing delay. When a request leaves the queue the layer
/// does not see: **the handler waits in it by [`Context::wait`]**, which charges the request. A
/// wait that nobody charges is taken for service. Then budgets shrink as the queue grows (they are
/// what the service's tail leaves of the target delay), `service` in the field is too long, and
/// locks behind it and other services believe that the request has more left than it has.
///
/// It is asked under the layer's own lock: an answer that is at hand, and no call of the layer.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use seawall_control::Instant;
/// use seawall_control::request::{Class, Stage};
/// use seawall_tower::{Context, server};
/// use tokio::sync::Semaphore;
///
/// /// Workers, each of which does one job in 10 ms.
/// struct Workers {
///     count: usize,
///     free: Semaphore,
///     /// As many clones as jobs wait: one that is given up does not wait any more.
///     waiting: Arc<()>,
/// }
///
/// impl Workers {
///     async fn work(&self, context: &Context) {
///         let waits = self.waiting.clone();
///         let worker = context.wait(self.free.acquire()).await;
///         drop(waits);
///         tokio::time::sleep(Duration::from_millis(10)).await;
///         drop(worker);
///     }
/// }
///
/// impl server::Queue for Workers {
///     fn stage(&self) -> Stage {
///         Stage(Stage::FIRST_OWN)
///     }
///
///     fn wait(&self, _: Instant, _: Class) -> Duration {
///         let waiting = Arc::strong_count(&self.waiting) - 1;
///         Duration::from_millis(10).mul_f64(waiting as f64 / self.count as f64)
///     }
/// }
/// ```
pub trait Queue: Send + Sync {
    /// As what its wait counts.
    fn stage(&self) -> Stage;

    /// How long a request of `class` that came now would wait in it.
    fn wait(&self, now: Instant, class: Class) -> Duration;
}

/// Everything that decides.
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) algorithm: &'static str,
    pub(super) counters: Counters,
    pub(super) canary: Arc<Canary>,
    pub(super) load: Load,
    pub(super) keeping: Once,
    classes: Classes,
    stages: Vec<(Stage, Name)>,
    queue: Option<Arc<dyn Queue>>,
    senders: Senders,
    state: Mutex<State>,
    judges_dequeues: bool,
    /// Requests that were let in and whose handlers have not begun.
    waiting: AtomicUsize,
    drained: Notify,
    /// State of a generator of numbers that spread retries.
    jitter: AtomicU64,
}

#[derive(Debug)]
struct State {
    entry: Entry,
    sessions: Sessions,
}

/// What a layer is made of beside its configuration.
#[derive(Clone, Default)]
pub(super) struct Parts {
    pub(super) classes: Classes,
    pub(super) stages: Vec<(Stage, Name)>,
    pub(super) queue: Option<Arc<dyn Queue>>,
}

/// What became of a request at entry.
pub(super) enum Arrived {
    /// It may go on to the service.
    Admitted(Ticket),
    /// It is answered with this, in the words of gRPC if there is a type of content.
    Refused(Box<Refusal>, Option<HeaderValue>),
}

impl Shared {
    pub(super) fn new(config: Config, algorithm: Arc<dyn Algorithm>, parts: Parts) -> Self {
        let now = clock::now();
        let seed = if config.seed == 0 { clock::realtime_ns() } else { config.seed };
        let name = algorithm.name();
        let told = entry::Config {
            cores: config.workers() as u32,
            seed,
            target_delay: config.target_delay(),
            rtt: config.rtt,
            budget: config.budget.under(&*algorithm),
            queues: config.queues,
            service_p99: config.service_p99,
        };
        let mut entry = Entry::new(now, algorithm, &told);
        Self {
            algorithm: name,
            counters: Counters::default(),
            canary: Arc::default(),
            load: Load::default(),
            keeping: Once::new(),
            classes: parts.classes,
            stages: parts.stages,
            queue: parts.queue,
            senders: Senders::new(&config.trust),
            judges_dequeues: entry.judges_dequeues(),
            state: Mutex::new(State {
                sessions: Sessions::open(now, &mut entry, config.limits),
                entry,
            }),
            waiting: AtomicUsize::new(0),
            drained: Notify::new(),
            jitter: AtomicU64::new(seed),
            config,
        }
    }

    /// Judges a request.
    pub(super) fn arrive<B>(self: &Arc<Self>, request: &mut Request<B>) -> Arrived {
        let now = clock::now();
        let told = Told::read(request.headers());
        self.counters.fields_malformed.fetch_add(u64::from(told.malformed), Relaxed);
        if told.ignored > 0 {
            self.counters.fields_ignored.fetch_add(u64::from(told.ignored), Relaxed);
        }
        let connection = connection_of(request).cloned();
        let certificate = connection.as_ref().map_or(&[][..], Connection::certificate);
        let Some((known, peer)) = self.senders.identify(request.headers_mut(), certificate) else {
            self.counters.unidentified.fetch_add(1, Relaxed);
            return Arrived::Refused(Box::new(Refusal::unidentified()), told.grpc);
        };
        let (claims, struck) = told.claims(peer);
        if struck.privilege {
            self.counters.privilege_violations.fetch_add(1, Relaxed);
        }
        if struck.hint {
            self.counters.hints_distrusted.fetch_add(1, Relaxed);
        }
        let class = self.classes.of(&Head::of(request));
        self.counters.came(class);
        self.load.requests.fetch_add(1, Relaxed);

        let came = connection.as_ref().and_then(Connection::came);
        // Requests of HTTP/2 are tasks that wait once more until they are polled.
        if came.is_none() || request.version() > Version::HTTP_11 {
            self.canary.stir();
        }
        // Without stamps it is guessed by others that came the same way.
        let waited = came.map_or_else(|| self.canary.delay(now), |came| now.since(came));
        let stage = if came.is_some() { Stage::SOCKET } else { Stage::RUN_QUEUE };
        self.counters.waited(stage, waited);
        let behind = self.queue.as_ref().map(|queue| (queue.stage(), queue.wait(now, class)));
        let waiting = self.waiting.load(Relaxed);
        let ahead = if waiting == 0 { Duration::ZERO } else { self.canary.delay(now) };

        let mut state = self.state.lock();
        let State { entry, sessions } = &mut *state;
        let now = entry.advance(now);
        entry.handle_timeout(now, self.queue_age(now, class));
        let owner = told.owner(known);
        let (session, excess) = sessions.arrive(now, entry, owner, peer.identity);
        let arriving = Arriving {
            session,
            claims: &claims,
            class,
            demand: told.fields.demand.unwrap_or(0),
            window_ack: told.fields.ack.unwrap_or(0),
            waited,
            network_p99: self.config.network_p99.unwrap_or(self.config.rtt),
            service_p99: None,
            queue: (waiting, ahead + behind.map_or(Duration::ZERO, |(_, wait)| wait)),
            grace: Duration::ZERO,
            excess,
        };
        let judgement = entry.on_arrival(now, &arriving);
        drop(state);

        let context = judgement.context(&claims, class);
        let read = came.map(|_| (Stage::SOCKET, Duration::ZERO));
        let run = (Stage::RUN_QUEUE, judgement.predicted);
        let decision = judgement.decide(&context, read.into_iter().chain(behind).chain([run]));
        let is_observing = self.config.mode == Mode::Observe;
        let context = if is_observing { unbounded(&context, now, class, waited) } else { context };
        let context = Context::new(context, now - waited, told.deadlines);
        let wants = Wants {
            field: told.speaks,
            orca: match self.config.orca {
                Orca::Off => false,
                Orca::Asked => told.orca,
                Orca::Always => true,
            },
            grpc: told.grpc,
            no_body: request.method() == http::Method::HEAD,
        };
        let ticket = Ticket::new(self.clone(), session, context, now, wants);
        match decision {
            Ok(()) => Arrived::Admitted(ticket),
            Err(rejected) if is_observing => {
                self.counters.observed(class, &rejected);
                Arrived::Admitted(ticket)
            }
            Err(rejected) => {
                if rejected.reason == RefusalReason::WindowExceeded {
                    self.counters.window_violations.fetch_add(1, Relaxed);
                }
                let (refusal, grpc) = ticket.refuse(now, &rejected, Theirs::default());
                Arrived::Refused(Box::new(refusal), grpc)
            }
        }
    }

    /// A request was let in whose handler has not begun.
    pub(super) fn waits(&self) {
        self.waiting.fetch_add(1, Relaxed);
    }

    /// It has, or never will.
    pub(super) fn waits_no_more(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// A handler is about to begin: the last look at whether that is still worth it.
    pub(super) fn dequeue(
        &self,
        now: Instant,
        session: SessionId,
        context: &Context,
    ) -> Result<(), Rejected> {
        context.admit(Stage::RUN_QUEUE, now, Duration::ZERO)?;
        if !self.judges_dequeues {
            return Ok(());
        }
        let mut dequeue = Dequeue::new(session, context.charged());
        dequeue.class = context.class();
        dequeue.droppable = context.claims().droppable;
        match self.state.lock().entry.on_dequeue(now, &dequeue) {
            Verdict::Admit => Ok(()),
            Verdict::Refuse(rejected) => Err(rejected),
        }
    }

    /// Part of a response is about to leave: of a request that was `served`, for so long, its head,
    /// and if it has `ended` its end. Gives what there is to tell.
    pub(super) fn leave(&self, leaving: &Leaving<'_>) -> fields::Response {
        let &Leaving { now, session, context, waited, served, ended, tells } = leaving;
        let mut state = self.state.lock();
        let State { entry, sessions } = &mut *state;
        let now = entry.advance(now);
        let read = entry.on_waited(waited);
        let age = self.queue_age(now, context.class());
        // What the canary waits is what others waited until they were read: it counts once.
        let queue = entry.on_queue(now, age.saturating_sub(read));
        if let Some((worked, service)) = served {
            entry.on_served(worked, service);
        }
        if let Some(end) = ended {
            let outcome = match end {
                End::Done | End::Failed => Outcome::Done,
                End::Refused(stage, _) => Outcome::Refused(stage),
                End::Cancelled => Outcome::Cancelled,
            };
            entry.on_completion(now, &entry::completion(now, session, context, outcome));
            sessions.leave(now, session);
        }
        let mut field = fields::Response::default();
        // Who only observes holds nobody back, by windows neither.
        if tells && self.config.mode == Mode::Enforce {
            field.feedback = entry.feedback(now, session);
        }
        // Nobody can be told but with a response. Who waits for credits asks, and finds them.
        while entry.poll_push().is_some() {}
        let is_last = entry.is_draining() && entry.in_flight() == 0;
        drop(state);
        if is_last {
            self.drained.notify_waiters();
        }
        if let Some(end) = ended {
            self.counters.ended(context.class(), end, now.since(context.came()));
            if matches!(end, End::Failed | End::Refused(..)) {
                self.load.unserved.fetch_add(1, Relaxed);
            }
        }
        field.queue = Some(queue);
        field.service = served.map(|(_, service)| service);
        field
    }

    /// The refusal that a client is told of, who is to come back when what delays requests now has
    /// drained, and up to as much later again.
    pub(super) fn refusal(
        &self,
        rejected: &Rejected,
        is_late: bool,
        name: Option<Name>,
        news: &fields::Response,
    ) -> Refusal {
        let stage = name.unwrap_or_else(|| self.stage_name(rejected.stage));
        Refusal::new(rejected, is_late, stage, news, self.jitter())
    }

    /// A report of load.
    pub(super) fn report(&self) -> Report {
        let now = clock::now();
        let delays = [("run_queue".to_owned(), self.queue_age(now, Class::default()))];
        self.load.report(self.config.workers(), self.config.target_delay(), delays)
    }

    /// Does what has to be done now and then.
    pub(super) fn tick(&self, now: Instant) {
        self.load.tick(now);
        let mut state = self.state.lock();
        let State { entry, sessions } = &mut *state;
        let now = entry.advance(now);
        entry.handle_timeout(now, self.queue_age(now, Class::default()));
        while entry.poll_push().is_some() {}
        sessions.sweep(now, entry);
    }

    /// Lets no request in any more.
    pub(super) fn drain(&self) {
        self.state.lock().entry.drain();
    }

    /// Waits until all requests have got their responses.
    pub(super) async fn drained(&self) {
        loop {
            let drained = self.drained.notified();
            if self.state.lock().entry.in_flight() == 0 {
                return;
            }
            drained.await;
        }
    }

    pub(super) fn signal(&self, signal: seawall_control::controller::Signal) {
        self.state.lock().entry.on_signal(clock::now(), signal);
    }

    pub(super) fn stats(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let name = |stage| self.stage_name(stage).as_str().to_owned();
        let counters = &self.counters;
        let classes = counters.classes(self.classes.names(), name);
        let state = self.state.lock();
        let budget = state.entry.budget();
        Stats {
            classes,
            window_violations: read(&counters.window_violations),
            privilege_violations: read(&counters.privilege_violations),
            hints_distrusted: read(&counters.hints_distrusted),
            fields_malformed: read(&counters.fields_malformed),
            fields_ignored: read(&counters.fields_ignored),
            unidentified: read(&counters.unidentified),
            sessions: state.sessions.count() as u64,
            outstanding: u64::from(state.entry.in_flight()),
            queue_delay: self.queue_age(clock::now(), Class::default()),
            service_p99: budget.service_p99,
            budget: budget.budget,
            busy_nanos: read(&self.load.busy),
            waits: counters.waits(),
            controller: state.entry.metrics().iter().collect(),
        }
    }

    fn stage_name(&self, stage: Stage) -> Name {
        let named = self.stages.iter().find(|(known, _)| *known == stage);
        named.map_or_else(|| Name::lossy(&stage.to_string()), |(_, name)| *name)
    }

    /// How long requests wait now that have not come so far: on the way to their handler, and in
    /// the queue behind it.
    fn queue_age(&self, now: Instant, class: Class) -> Duration {
        let behind = self.queue.as_ref().map_or(Duration::ZERO, |queue| queue.wait(now, class));
        self.canary.delay(now) + behind
    }

    /// A number in `[0, 1)` (SplitMix64).
    fn jitter(&self) -> f64 {
        let state = self.jitter.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
        seawall_control::Rng::new(state).uniform()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// What leaves, and of whom.
pub(super) struct Leaving<'a> {
    pub(super) now: Instant,
    pub(super) session: SessionId,
    pub(super) context: &'a Context,
    /// From its bytes to the begin of its handler, if that was not long ago.
    pub(super) waited: Duration,
    /// How long its handler kept a worker, and how long it took, waits apart.
    pub(super) served: Option<(Duration, Duration)>,
    /// How it has ended, if it has.
    pub(super) ended: Option<End>,
    /// Its client can be told something now.
    pub(super) tells: bool,
}

/// A context that no stage will refuse for want of time.
fn unbounded(
    context: &request::Context,
    now: Instant,
    class: Class,
    waited: Duration,
) -> request::Context {
    let claims = Claims { deadline: None, budget: None, ..*context.claims() };
    let unbounded = request::Context::new(claims, now).with_class(class);
    unbounded.charge(waited);
    unbounded
}

/// The connection that a request came by, wherever who accepted it has put that.
fn connection_of<B>(request: &Request<B>) -> Option<&Connection> {
    let extensions = request.extensions();
    let found = extensions.get::<Connection>();
    #[cfg(feature = "axum")]
    let found = found
        .or_else(|| extensions.get::<axum::extract::ConnectInfo<Connection>>().map(|info| &info.0));
    #[cfg(feature = "tonic-tls")]
    let found = super::tonic_tls::connection(extensions).or(found);
    found
}
