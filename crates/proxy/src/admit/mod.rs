//! Who may go on to the upstream, and when.
//!
//! ```text
//!   request ─► class ─► algorithm: verdict ─► gate: go · wait · refuse ─► upstream
//!                ▲           ▲                                              │
//!                └───────────┴── latency, refusals behind, ends ◄───────────┘
//! ```
//!
//! An upstream's own queues cannot be seen from here, nor can what waits in them be refused. So the
//! queue is moved to this side: a [gate](seawall_control::gate) lets in what keeps the upstream busy
//! and no more, and the rest waits here, where the wait is known before it begins.

mod books;
mod permit;
mod refusal;
mod state;
mod timer;

pub(crate) use permit::Permit;
pub(crate) use refusal::{Reason, Refusal};

use std::sync::Arc;

use hyper::header::{CONTENT_LENGTH, HeaderName};
use hyper::http::request::Parts;
use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::classes::{self, HEADERS_MAX};
use seawall_control::controller::{RefusalReason, Verdict};
use seawall_control::gate::Answer;
use seawall_control::request::{Claims, Class};
use tokio::sync::{Notify, oneshot};

use crate::clock;
use crate::config;
use books::Books;
use permit::Waiting;
use state::{Entered, State};

/// Decides for one upstream.
#[derive(Debug)]
pub(crate) struct Admission {
    state: Mutex<State>,
    books: Books,
    /// Told when something is to happen sooner than the timer knows.
    sooner: Notify,
    /// Fields whose values may tell classes apart.
    fields: Box<[HeaderName]>,
    /// False if nothing is refused, and only counted.
    enforces: bool,
}

/// A request at the entry.
#[derive(Debug)]
pub(crate) struct Arriving<'a> {
    pub(crate) parts: &'a Parts,
    /// The name of its route, for metrics.
    pub(crate) route: &'a str,
    /// The class that its route gives it, if it does.
    pub(crate) class: Option<Class>,
    /// What of the request's claims is believed, and what its route says.
    pub(crate) claims: Claims,
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
        let fields = config.classes.headers.iter().map(|name| {
            HeaderName::from_bytes(name.as_bytes()).expect("the configuration was checked")
        });
        Arc::new(Self {
            state: Mutex::new(State::new(config, enforces, names)),
            books: Books::new(upstream),
            sooner: Notify::new(),
            fields: fields.collect(),
            enforces,
        })
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
    ) -> Result<Permit, Refusal> {
        let entered = {
            let state = &mut *self.state.lock();
            let entered = self.judge(state, now, arriving);
            self.after(state);
            entered
        };
        match entered {
            Err(refusal) => {
                self.books.refused(arriving.route, &refusal);
                Err(refusal)
            }
            Ok((permit, None)) => Ok(permit),
            Ok((permit, Some(turn))) => {
                let class = permit.class();
                let waited = Waiting::new(permit, turn).await;
                waited.map_err(|rejected| {
                    let name = self.state.lock().name(class);
                    let refusal = Refusal::at_gate(rejected, name, arriving.claims.deadline);
                    self.books.refused(arriving.route, &refusal);
                    refusal
                })
            }
        }
    }

    /// Asks the algorithm and the gate. Gives the permit, and where its turn will be told if it has
    /// to wait for that.
    fn judge(
        self: &Arc<Self>,
        state: &mut State,
        now: Instant,
        arriving: &Arriving<'_>,
    ) -> Result<(Permit, Option<oneshot::Receiver<state::Turn>>), Refusal> {
        let now = state.advance(now);
        let (class, key) = match arriving.class {
            Some(class) => (class, None),
            None => {
                let (class, key) = self.classify(state, now, arriving.parts);
                (class, Some(key))
            }
        };
        self.books.arrived(state, class);
        let claims = &arriving.claims;
        let context = state.context(now, claims, class);
        let judged = state.ask(now, claims, class);
        if let Verdict::Refuse(refusal) = judged {
            state.forget_refused(now, &context, refusal.rejected.stage);
            let reason = match refusal.reason {
                RefusalReason::WindowExceeded | RefusalReason::PrivilegeExceeded => Reason::Quota,
                _ => Reason::Overload,
            };
            let refusal = Refusal::new(refusal.rejected, state.name(class), reason);
            if self.enforces {
                return Err(refusal);
            }
            self.books.unrefused(arriving.route, &refusal);
        }
        // What the algorithm refused and went on all the same is none of its requests.
        let is_counted = judged == Verdict::Admit;
        let (turn, told) = oneshot::channel();
        let answer = state.gate.on_arrival(now, class, &context, || turn);
        let (id, waits) = match answer {
            Ok(Answer::Go(id)) => (id, false),
            Ok(Answer::Wait(id)) => {
                state.note_limited(now, class);
                (id, true)
            }
            Ok(Answer::Would(id, rejected)) => {
                let refusal = Refusal::at_gate(rejected, state.name(class), claims.deadline);
                self.books.unrefused(arriving.route, &refusal);
                (id, false)
            }
            Err(rejected) => {
                if is_counted {
                    state.forget_refused(now, &context, rejected.stage);
                }
                return Err(Refusal::at_gate(rejected, state.name(class), claims.deadline));
            }
        };
        let entered = Entered { id, context, key, is_counted };
        Ok((Permit::new(self.clone(), entered), waits.then_some(told)))
    }

    fn classify(
        &self,
        state: &mut State,
        now: Instant,
        parts: &Parts,
    ) -> (Class, classes::Key) {
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
    fn after(&self, state: &mut State) {
        if state.settle() {
            self.books.forget();
        }
        if state.is_sooner() {
            self.sooner.notify_one();
        }
    }

    /// Puts what is measured now into the recorder.
    pub(crate) fn publish(&self) {
        let state = self.state.lock();
        self.books.publish(&state, clock::now());
    }

    /// Requests that are with the upstream or wait for it, and the age of the oldest that waits.
    pub(crate) fn load(&self) -> (u32, std::time::Duration) {
        let state = self.state.lock();
        (state.gate.in_flight() + state.gate.waiting(), state.gate.queue_delay(clock::now()))
    }
}
