//! One client's dealings with one server: requests wait here for credits, and those that were sent
//! are counted until their responses have ended.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::client::{self, Outbox, Report};
use seawall_control::config::ConfigError;
use seawall_control::controller::{Demand, DropReason, Feedback, Init, Response};
use seawall_control::fields::Name;
use seawall_control::metrics::Metrics;
use slab::Slab;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::config::Config;
use super::meters::{Meters, Outcome};
use super::outgoing::Outgoing;
use crate::clock;

/// The session of a client with a server. Clones share it.
#[derive(Clone)]
pub(super) struct Session {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Something is due sooner than the driver knows.
    news: Notify,
    /// Whose credits the requests use.
    client: Name,
    meters: Arc<Meters>,
}

struct State {
    outbox: Outbox<usize>,
    calls: Slab<Place>,
    serial: u64,
    /// A task sleeps until what waits expires or may leave; until when it does.
    driven_until: Option<Instant>,
    /// Requests that were given up, and when the server has surely heard of it: until then their
    /// credits are used, or it might have more requests at once than it allowed.
    leaving: VecDeque<(Instant, Option<Response>)>,
    rtt: Duration,
    /// What the gauges count of this session: requests outstanding, and waiting.
    shown: (f64, f64),
}

/// Where a request stands that has not been taken out of the session.
#[derive(Debug)]
enum Place {
    Waiting(Option<Waker>),
    /// It may leave, and its future does not know yet.
    Leaving(Report),
    Dropped(DropReason),
    /// Nobody wants it any more.
    Abandoned,
}

/// A request's place in the queue. Dropping it gives the place up.
#[derive(Debug)]
pub(super) struct Ticket {
    session: Session,
    key: usize,
    since: Instant,
    outgoing: Outgoing,
    taken: bool,
}

/// A request that has leave to be sent, and then was. Dropping it gives the credit back, a round
/// trip later if it was sent.
#[derive(Debug)]
pub(super) struct Flight {
    session: Session,
    pub(super) report: Report,
    sent: Option<Instant>,
    /// How long the head of its response took.
    latency: Option<Duration>,
    outcome: Option<Outcome>,
    /// What its trailers told.
    feedback: Feedback,
    ended: bool,
}

impl Session {
    /// A session under a random name.
    pub(super) fn new(config: &Config, meters: Arc<Meters>) -> Result<Self, ConfigError> {
        let mut init = Init::new(clock::now(), random());
        (init.slo, init.rtt) = (config.slo, config.rtt);
        let outbox = Outbox::new(config.controller(init)?, &config.admission.client, init);
        let state = State {
            outbox,
            calls: Slab::new(),
            serial: init.seed,
            driven_until: None,
            leaving: VecDeque::new(),
            rtt: config.rtt,
            shown: (0.0, 0.0),
        };
        let client = Name::lossy(&format!("{:016x}{:016x}", random(), random()));
        let shared = Shared { state: Mutex::new(state), news: Notify::new(), client, meters };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Puts a request into the queue. Unless it can leave within `patience`, as far as can be told,
    /// it is not taken.
    pub(super) fn submit(&self, outgoing: &Outgoing, patience: Duration) -> Option<Ticket> {
        let mut state = self.shared.state.lock();
        let now = clock::now(); // under the lock, so that the outbox's time never decreases
        let key = state.submit(now, outgoing);
        let mut wakers = state.pump(now);
        let waits = matches!(state.calls[key], Place::Waiting(_));
        let taken = !waits || !state.take_back(now, key, outgoing, patience);
        self.settle(state, &mut wakers);
        let (session, outgoing) = (self.clone(), *outgoing);
        taken.then(|| Ticket { session, key, since: now, outgoing, taken: false })
    }

    pub(super) fn meters(&self) -> &Meters {
        &self.shared.meters
    }

    /// Requests that were sent and whose responses have not ended.
    pub(super) fn outstanding(&self) -> u32 {
        self.shared.state.lock().outbox.outstanding()
    }

    /// Requests that wait for leave to be sent.
    pub(super) fn pending(&self) -> usize {
        self.shared.state.lock().outbox.pending()
    }

    /// The state of the algorithm's client half.
    pub(super) fn metrics(&self) -> Metrics {
        self.shared.state.lock().outbox.metrics()
    }

    /// Reports something, and carries out what follows.
    fn update(&self, change: impl FnOnce(&mut State, Instant)) {
        let mut state = self.shared.state.lock();
        let now = clock::now();
        change(&mut state, now);
        let mut wakers = state.pump(now);
        self.settle(state, &mut wakers);
    }

    /// Sees to it that what is due later will be done, and wakes those whose turn it is, without
    /// the lock.
    fn settle(&self, mut state: parking_lot::MutexGuard<'_, State>, wakers: &mut Vec<Waker>) {
        let due = state.due();
        let spawn = match (due, state.driven_until) {
            (Some(due), None) => {
                state.driven_until = Some(due);
                true
            }
            (Some(due), Some(until)) if due < until => {
                state.driven_until = Some(due);
                self.shared.news.notify_one();
                false
            }
            _ => false,
        };
        let shown = (f64::from(state.outbox.outstanding()), state.outbox.pending() as f64);
        let before = std::mem::replace(&mut state.shown, shown);
        drop(state);
        self.shared.meters.show(before, shown);
        wakers.drain(..).for_each(Waker::wake);
        if spawn {
            let driving = Driving { session: self.clone(), ended: false };
            // Without a runtime there are no timers: what waits then leaves or expires when
            // something else happens.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(driving.run());
            }
        }
    }
}

/// The task of a session in which something waits.
struct Driving {
    session: Session,
    ended: bool,
}

impl Driving {
    async fn run(mut self) {
        while let Some(due) = self.step() {
            let news = self.session.shared.news.notified();
            _ = tokio::time::timeout_at(clock::to_tokio(due), news).await;
        }
    }

    /// Does what is due. When something is next, if anything waits.
    fn step(&mut self) -> Option<Instant> {
        let mut state = self.session.shared.state.lock();
        let now = clock::now();
        state.outbox.handle_timeout(now);
        let mut wakers = state.pump(now);
        state.driven_until = state.due();
        let due = state.driven_until;
        self.ended = due.is_none();
        self.session.settle(state, &mut wakers);
        due
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        // A runtime that ends drops its tasks. Another task may begin then.
        if !self.ended {
            self.session.shared.state.lock().driven_until = None;
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.meters.show(self.state.get_mut().shown, (0.0, 0.0));
    }
}

impl State {
    fn submit(&mut self, now: Instant, outgoing: &Outgoing) -> usize {
        self.serial = self.serial.wrapping_add(1);
        let mut demand = Demand::new(0);
        demand.id = self.serial;
        demand.priority = outgoing.claims.priority;
        demand.droppable = outgoing.claims.droppable;
        let key = self.calls.insert(Place::Waiting(None));
        let deadline = outgoing.deadline;
        self.outbox.submit(now, client::Request { item: key, demand, deadline });
        key
    }

    /// Lets all go that may leave now or never will; their futures are to be woken.
    fn pump(&mut self, now: Instant) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some((_, response)) = self.leaving.pop_front_if(|(at, _)| *at <= now) {
            match response {
                Some(response) => self.outbox.on_response(now, &response),
                None => self.outbox.on_given_up(),
            }
        }
        while let Some(departed) = self.outbox.poll_send(now) {
            let place = &mut self.calls[departed.item];
            if let Place::Abandoned = place {
                self.calls.remove(departed.item);
                self.outbox.withdraw();
                continue;
            }
            wakers.extend(place.end(Place::Leaving(departed.report)));
        }
        while let Some((key, reason)) = self.outbox.poll_dropped() {
            let place = &mut self.calls[key];
            if let Place::Abandoned = place {
                self.calls.remove(key);
                continue;
            }
            wakers.extend(place.end(Place::Dropped(reason)));
        }
        wakers
    }

    /// Forgets the newest request if it is predicted to wait longer than `patience`.
    fn take_back(
        &mut self,
        now: Instant,
        key: usize,
        outgoing: &Outgoing,
        patience: Duration,
    ) -> bool {
        if !outgoing.claims.droppable || self.outbox.wait(now) <= patience {
            return false;
        }
        let taken = self.outbox.take_back();
        assert_eq!(taken, Some(key), "the newest call is the newest in the outbox");
        self.calls.remove(key);
        true
    }

    /// When something becomes due, if anything waits.
    fn due(&self) -> Option<Instant> {
        let leaving = self.leaving.front().map(|(at, _)| *at);
        let waiting = if self.outbox.pending() > 0 { self.outbox.poll_timeout() } else { None };
        leaving.into_iter().chain(waiting).min()
    }
}

impl Place {
    /// It waits no more; its waker, if it has been polled.
    fn end(&mut self, end: Self) -> Option<Waker> {
        match std::mem::replace(self, end) {
            Self::Waiting(waker) => waker,
            _ => None,
        }
    }
}

impl Ticket {
    /// Waits for leave to be sent.
    pub(super) fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<Flight, DropReason>> {
        let mut state = self.session.shared.state.lock();
        match &mut state.calls[self.key] {
            Place::Waiting(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
                return Poll::Pending;
            }
            Place::Leaving(_) | Place::Dropped(_) | Place::Abandoned => {}
        }
        let place = state.calls.remove(self.key);
        drop(state);
        self.taken = true;
        Poll::Ready(match place {
            Place::Leaving(report) => Ok(Flight::new(self.session.clone(), report)),
            Place::Dropped(reason) => Err(reason),
            Place::Waiting(_) | Place::Abandoned => unreachable!("a ticket that is held"),
        })
    }

    /// How long it has waited, and what is left of its deadline.
    pub(super) fn waited(&self) -> (Duration, Duration) {
        let now = clock::now();
        (now.since(self.since), self.outgoing.left(now))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut state = self.session.shared.state.lock();
        let place = &mut state.calls[self.key];
        if let Place::Waiting(_) = place {
            let waker = place.end(Place::Abandoned);
            drop(state);
            drop(waker); // which may be anything, without the lock
            return;
        }
        let place = state.calls.remove(self.key);
        drop(state);
        if let Place::Leaving(report) = place {
            drop(Flight::new(self.session.clone(), report));
        }
    }
}

impl Flight {
    fn new(session: Session, report: Report) -> Self {
        let feedback = Feedback::None;
        let (sent, latency, outcome) = (None, None, None);
        Self { session, report, sent, latency, outcome, feedback, ended: false }
    }

    /// Whose credits it uses.
    pub(super) fn client(&self) -> Name {
        self.session.shared.client
    }

    pub(super) fn meters(&self) -> &Meters {
        self.session.meters()
    }

    /// It is sent now.
    pub(super) fn on_sent(&mut self, now: Instant) {
        self.sent = Some(now);
    }

    /// The head of its response has come, after the time that this gives. What it tells counts at
    /// once; the credit is free when the response has ended, which `is_all` says that it has.
    pub(super) fn on_head(
        &mut self,
        now: Instant,
        feedback: Feedback,
        outcome: Outcome,
        is_all: bool,
    ) -> Duration {
        let latency = now.since(self.sent.unwrap_or(now));
        (self.latency, self.outcome) = (Some(latency), Some(outcome));
        if is_all {
            self.feedback = feedback;
            self.end(None);
        } else if feedback != Feedback::None {
            self.session.update(|state, now| state.outbox.on_push(now, feedback));
        }
        latency
    }

    /// Its trailers have come.
    pub(super) fn on_trailers(&mut self, feedback: Feedback, refused: Option<Outcome>) {
        self.feedback = feedback;
        self.outcome = refused.or(self.outcome);
    }

    /// Its response has ended, or it has failed: so, unless the head said otherwise.
    pub(super) fn end(&mut self, outcome: Option<Outcome>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let Some(_) = self.sent else {
            return self.session.update(|state, _| state.outbox.withdraw());
        };
        let outcome = outcome.or(self.outcome).unwrap_or(Outcome::Cancelled);
        self.session.meters().on_end(outcome);
        let response = self.latency.map(|latency| {
            let mut response = Response::new(latency, self.feedback);
            response.served = matches!(outcome, Outcome::Served | Outcome::Cancelled);
            response
        });
        let given_up = matches!(outcome, Outcome::Cancelled | Outcome::Expired);
        self.session.update(|state, now| match &response {
            _ if given_up => state.leaving.push_back((now + state.rtt, response)),
            Some(response) => state.outbox.on_response(now, response),
            None => state.outbox.on_given_up(),
        });
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let given_up = matches!(self.outcome, None | Some(Outcome::Served));
        self.end(given_up.then_some(Outcome::Cancelled));
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("client", &self.shared.client).finish_non_exhaustive()
    }
}

/// A number of this process and moment alone: what the standard library keys a new hash map with.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(())
}
