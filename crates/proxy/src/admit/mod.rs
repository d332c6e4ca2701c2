//! Who may go on to the upstream, and when.
//!
//! ```text
//!   request ─► class ─► entry: algorithm, budget ─► gate: go · wait · refuse ─► upstream
//!                ▲           ▲                                                    │
//!                └───────────┴── latency, refusals behind, ends ◄─────────────────┘
//! ```
//!
//! An upstream's own queues cannot be seen from here, nor can what waits in them be refused. So the
//! queue is moved to this side: a [gate](seawall_control::gate) lets in what keeps the upstream
//! busy and no more, and the rest waits here, where the wait is known before it begins. The
//! [entry](seawall_control::entry) before it is that of all servers of Seawall; the wait at the
//! gate is its queueing delay.

mod books;
mod permit;
mod refusal;
mod state;
mod timer;

pub(crate) use books::{GATE, RouteName};
pub(crate) use permit::Permit;
pub(crate) use refusal::Refusal;
pub(crate) use state::NAMED_MAX;

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CONTENT_LENGTH, HeaderName};
use hyper::http::request::Parts;
use metrics::counter;
use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::classes::{self, HEADERS_MAX};
use seawall_control::controller::Outcome;
use seawall_control::gate::Answer;
use seawall_control::request::{Claims, Class, RefusalReason, Stage};
use seawall_measure::names;
use seawall_tower::clock;
use seawall_tower::server::parts::{Sender, Told};
use tokio::sync::{Notify, oneshot};

use crate::config;
use books::Books;
use permit::Waiting;
use state::{Asked, Entered, State};

/// Decides for one upstream.
#[derive(Debug)]
pub(crate) struct Admission {
    owned: Mutex<Owned>,
    /// Told when something is to happen sooner than the timer knows.
    sooner: Notify,
    /// Fields whose values may tell classes apart.
    fields: Box<[HeaderName]>,
    /// False if nothing is refused, and only counted.
    enforces: bool,
    tells: bool,
}

/// What the lock owns: what decides, and what is counted of that.
#[derive(Debug)]
struct Owned {
    state: State,
    books: Books,
}

/// A request at the entry.
#[derive(Debug)]
pub(crate) struct Arriving<'a> {
    pub(crate) parts: &'a Parts,
    /// Its route, for metrics.
    pub(crate) route: RouteName<'a>,
    /// The class that its route gives it, if it does.
    pub(crate) class: Option<Class>,
    /// What of the request's claims is believed, and what its route says.
    pub(crate) claims: Claims,
    /// All that its headers say.
    pub(crate) told: &'a Told,
    /// Who sent it.
    pub(crate) sender: Sender<'a>,
    /// How long the upstream will still stand still, if it does.
    pub(crate) rest: Option<Duration>,
}

impl Admission {
    /// For an upstream of a valid configuration; `names` are the classes that routes give.
    pub(crate) fn new(
        upstream: &str,
        config: &config::Upstream,
        mode: config::Mode,
        names: &[String],
    ) -> Arc<Self> {
        let enforces = mode == config::Mode::Enforce && config.gate.enforce;
        let tells = enforces && config.admits();
        let fields = config.classes.headers.iter().map(|name| {
            HeaderName::from_bytes(name.as_bytes()).expect("the configuration was checked")
        });
        Arc::new(Self {
            owned: Mutex::new(Owned {
                state: State::new(config, enforces, tells, names),
                books: Books::new(upstream),
            }),
            sooner: Notify::new(),
            fields: fields.collect(),
            enforces,
            tells,
        })
    }

    /// Whether the credits of clients that name themselves are given here, and not behind.
    pub(crate) fn gives_credits(&self) -> bool {
        self.tells
    }

    /// Runs what has to happen without a request; never ends.
    pub(crate) async fn run(self: Arc<Self>) {
        timer::run(&self).await;
    }

    /// Lets a request in, now or when it has its turn.
    ///
    /// # Errors
    ///
    /// It is refused: the algorithm says so, or it would have to wait for longer than it can.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        now: Instant,
        arriving: &Arriving<'_>,
    ) -> Result<Permit, Box<Refusal>> {
        let entered = {
            let owned = &mut *self.owned.lock();
            let entered = self.judge(owned, now, arriving);
            self.after(owned, now);
            entered
        };
        match entered? {
            (permit, None) => Ok(permit),
            (permit, Some(turn)) => Waiting::new(permit, turn, arriving.route).await,
        }
    }

    /// Asks the entry and the gate. Gives the permit, and where its turn will be told if it has to
    /// wait for that.
    fn judge(
        self: &Arc<Self>,
        Owned { state, books }: &mut Owned,
        now: Instant,
        arriving: &Arriving<'_>,
    ) -> Result<(Permit, Option<oneshot::Receiver<state::Turn>>), Box<Refusal>> {
        let now = state.advance(now);
        let (class, key) = match arriving.class {
            Some(class) => (class, None),
            None => {
                let (class, key) = self.classify(state, now, arriving.parts);
                (class, Some(key))
            }
        };
        books.arrived(class, |class| state.name(class));
        let Asked { session, context, decision } = state.ask(now, arriving, class);
        let decision = decision.and_then(|()| match arriving.rest {
            Some(rest) => context.admit(Stage::PAUSE, now, rest),
            None => Ok(()),
        });
        let mut counted = Some(session);
        if let Err(rejected) = decision {
            state.complete(now, session, &context, Outcome::Refused(rejected.stage));
            let name = |class| state.name(class);
            if self.enforces {
                if rejected.reason == RefusalReason::WindowExceeded {
                    counter!(names::WINDOW_VIOLATIONS.name).increment(1);
                }
                books.refused(arriving.route, class, name, &rejected, Duration::ZERO);
                return Err(state.refusal(now, Some(session), &context, rejected));
            }
            books.unrefused(arriving.route, class, name, &rejected);
            // What the entry refused and goes on all the same is none of its requests.
            counted = None;
        }
        let mut turn = None;
        let wait = || {
            let (tell, told) = oneshot::channel();
            turn = Some(told);
            tell
        };
        let id = match state.gate.on_arrival(now, class, &context, wait) {
            Ok(Answer::Go(id)) => id,
            Ok(Answer::Wait(id)) => {
                state.note_limited(now, class);
                id
            }
            Ok(Answer::Would(id, rejected)) => {
                books.unrefused(arriving.route, class, |class| state.name(class), &rejected);
                id
            }
            Err(rejected) => {
                if let Some(session) = counted {
                    state.complete(now, session, &context, Outcome::Refused(rejected.stage));
                }
                let name = |class| state.name(class);
                books.refused(arriving.route, class, name, &rejected, Duration::ZERO);
                return Err(state.refusal(now, counted, &context, rejected));
            }
        };
        let entered = Entered { id, context, key, session: counted };
        let tells = self.tells && arriving.told.speaks;
        Ok((Permit::new(self.clone(), entered, tells), turn))
    }

    fn classify(&self, state: &mut State, now: Instant, parts: &Parts) -> (Class, classes::Key) {
        let text = |name: &HeaderName| parts.headers.get(name)?.to_str().ok();
        let mut values = [None; HEADERS_MAX];
        for (value, name) in values.iter_mut().zip(&self.fields) {
            *value = text(name);
        }
        let request = classes::Request {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            size: text(&CONTENT_LENGTH).and_then(|length| length.parse().ok()),
            headers: &values[..self.fields.len()],
        };
        state.classes.on_request(now, &request)
    }

    /// Carries out what has become possible, and makes sure that the timer knows what comes next.
    fn after(&self, Owned { state, books }: &mut Owned, now: Instant) {
        if state.settle(now) {
            books.forget();
        }
        if state.is_sooner() {
            self.sooner.notify_one();
        }
    }

    /// Requests that are with the upstream, or wait for it.
    pub(crate) fn outstanding(&self) -> u32 {
        self.owned.lock().state.outstanding()
    }

    /// Tells the recorder what is so now.
    pub(crate) fn publish(&self) -> Load {
        let now = clock::now();
        let Owned { state, books } = &mut *self.owned.lock();
        books.publish(state, now);
        Load {
            outstanding: state.outstanding(),
            queue_delay: state.gate.queue_delay(now),
            waited: books.waited_in_all(),
            sessions: state.session_count(),
        }
    }
}

/// What all upstreams are told of together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Requests that are with the upstream, or wait for it.
    pub(crate) outstanding: u32,
    /// Age of the oldest that waits.
    pub(crate) queue_delay: Duration,
    /// How long all together have waited.
    pub(crate) waited: Duration,
    /// Sessions of clients that name themselves.
    pub(crate) sessions: usize,
}
