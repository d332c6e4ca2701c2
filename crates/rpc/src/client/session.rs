//! One connection to one server: requests wait here for credits, and for their replies.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use seawall_control::client::{self, Outbox, Report};
use seawall_control::controller::{Demand, Feedback, Response};
use seawall_control::metrics::Metrics;
use seawall_control::request::{Claims, Rejected};
use seawall_control::wire::{self, RequestOp};
use seawall_control::{Instant, controller};
use slab::Slab;
use tokio::sync::oneshot;

use super::call::{CallError, CallFuture, CallResult, Reply, Request, Unsent};
use super::config::{ClientConfig, ConnectError};
use super::downstream::Errand;
use super::driver;
use crate::clock;
use crate::net::OutBuffer;
use crate::status::Status;

/// Bytes that may wait for the socket before calls are kept back: those that do not fit stay where
/// they can still expire.
const OUT_MAX: usize = 64 << 10;

/// Why nothing more is sent after a goaway.
const ASKED_TO_LEAVE: &str = "the server asked its clients to leave";

/// What is told the result of a call.
type Done = Box<dyn FnOnce(CallResult) + Send>;

/// A session with one server. Clones share it; when the last one is gone it says goodbye.
#[derive(Clone)]
pub struct Session {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
}

/// What the driver and all handles share.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) waker: AtomicWaker,
    pub(super) settings: wire::Settings,
    pub(super) peer: SocketAddr,
}

pub(super) struct State {
    outbox: Outbox<usize>,
    calls: Slab<Call>,
    /// Distinguishes successive calls of one place in `calls`.
    serial: u32,
    /// Frames on their way out; the driver takes them.
    pub(super) out: OutBuffer,
    /// Calls that the server lets any session have outstanding, whatever its window.
    outstanding_max: u32,
    /// Longest body that the server reads.
    body_max: u32,
    /// The handles are gone, or the server asked to leave: no new calls.
    pub(super) leaving: bool,
    /// A goodbye has to be said once all calls were sent.
    goodbye: bool,
    /// Why the connection ended.
    closed: Option<String>,
}

struct Call {
    serial: u32,
    request: Request,
    deadline: Instant,
    sent: Option<Instant>,
    /// For which request it is made, if for one.
    errand: Option<Errand>,
    /// `None` once the caller has lost interest.
    done: Option<Done>,
}

/// Results to hand out once the lock is released.
pub(super) type Results = Vec<(Done, CallResult)>;

/// Hands out results. A callback that panics takes no other result with it.
pub(super) fn finish(results: Results) {
    for (done, result) in results {
        if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
            tracing::error!("the callback of a call panicked");
        }
    }
}

impl Session {
    /// Connects to `address`, and starts a driver on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// What went wrong with the connection, the handshake or the server's settings.
    pub async fn connect(address: SocketAddr, config: &ClientConfig) -> Result<Self, ConnectError> {
        let (stream, settings) = driver::connect(address, config).await?;
        let mut init = controller::Init::new(clock::now(), seed());
        (init.slo, init.rtt) = (settings.slo, config.rtt);
        let controller = config.controller(&settings, init)?;
        let outbox = Outbox::new(controller, &config.admission.client, init);
        let state = State {
            outbox,
            calls: Slab::new(),
            serial: init.seed as u32, // so that sessions do not number their calls in step
            out: OutBuffer::default(),
            outstanding_max: settings.outstanding_max.max(1),
            body_max: settings.body_max,
            leaving: false,
            goodbye: false,
            closed: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            waker: AtomicWaker::new(),
            settings,
            peer: address,
        });
        tokio::spawn(driver::drive(stream, shared.clone()));
        Ok(Self { handle: Arc::new(Handle { shared }) })
    }

    /// Calls the server, and waits for the reply. Dropping the future cancels the call.
    pub fn call(&self, request: Request) -> CallFuture {
        self.call_for(None, request)
    }

    /// The same on behalf of another request, which is told when the call leaves and ends.
    pub(super) fn call_for(&self, errand: Option<Errand>, request: Request) -> CallFuture {
        let (sender, receiver) = oneshot::channel();
        // A caller that dropped its future has cancelled, so nobody misses what cannot be sent.
        let done = Box::new(move |result| _ = sender.send(result));
        let id = self.submit_for(errand, request, done);
        CallFuture::new(self.clone(), id, receiver)
    }

    /// Calls the server, and lets `done` be told the result: once, soon after it is known, on the
    /// thread of the session's driver or of whoever submits a call just then, which may be this
    /// one. It must not block.
    ///
    /// Gives the number by which the call can be [cancelled](Self::cancel).
    pub fn submit(&self, request: Request, done: Box<dyn FnOnce(CallResult) + Send>) -> u64 {
        self.submit_for(None, request, done)
    }

    fn submit_for(&self, errand: Option<Errand>, request: Request, done: Done) -> u64 {
        let shared = &self.handle.shared;
        let mut results = Results::new();
        let mut state = shared.state.lock();
        let now = clock::now(); // under the lock, so that the outbox's time never decreases
        let id = state.submit(now, errand, request, done, &mut results);
        state.pump(now, &mut results);
        let wake = !state.out.is_empty() || state.outbox.pending() > 0;
        drop(state);
        if wake {
            shared.waker.wake();
        }
        finish(results);
        id
    }

    /// Calls the server as [`call`](Self::call) does, unless the request would wait longer than
    /// `patience` for leave to be sent: it is not taken then, and the server knows that somebody
    /// waits for its credits. The first value is false if the request waits now.
    pub(super) fn offer(&self, request: Request, patience: Duration) -> Option<(bool, CallFuture)> {
        let (sender, receiver) = oneshot::channel();
        let done = Box::new(move |result| _ = sender.send(result));
        let shared = &self.handle.shared;
        let mut results = Results::new();
        let mut state = shared.state.lock();
        let now = clock::now();
        let id = state.submit(now, None, request, done, &mut results);
        state.pump(now, &mut results);
        let waits = state.find(id).is_some_and(|(_, call)| call.sent.is_none());
        let taken = !waits || !state.take_back(now, id, patience);
        let wake = !state.out.is_empty() || state.outbox.pending() > 0;
        drop(state);
        if wake {
            shared.waker.wake();
        }
        finish(results);
        taken.then(|| (!waits, CallFuture::new(self.clone(), id, receiver)))
    }

    /// Gives a call up if it was not sent; true if it never will be.
    pub(super) fn withdraw(&self, id: u64) -> bool {
        let withdrawn = self.handle.shared.state.lock().withdraw(id);
        withdrawn.is_some() // and dropped without the lock
    }

    /// Gives a call up: the server is told, and the result is thrown away. True if it was not sent,
    /// and never will be.
    pub fn cancel(&self, id: u64) -> bool {
        let cancelled = self.handle.shared.state.lock().cancel(id);
        // Dropped without the lock: the callback may own another call of this session.
        let Some((_done, _errand, sent)) = cancelled else { return false };
        if sent {
            self.handle.shared.waker.wake();
        }
        !sent
    }

    /// Calls that were sent and have no reply yet.
    pub fn outstanding(&self) -> u32 {
        self.handle.shared.state.lock().outbox.outstanding()
    }

    /// Calls that wait for leave to be sent.
    pub fn pending(&self) -> usize {
        self.handle.shared.state.lock().outbox.pending()
    }

    /// True while new calls are taken: the connection is there and the server has not asked to
    /// leave.
    pub fn is_open(&self) -> bool {
        let state = self.handle.shared.state.lock();
        state.closed.is_none() && !state.leaving
    }

    /// What the server told about itself.
    pub fn settings(&self) -> &wire::Settings {
        &self.handle.shared.settings
    }

    /// The server's address.
    pub fn peer(&self) -> SocketAddr {
        self.handle.shared.peer
    }

    /// The state of the algorithm's client half.
    pub fn metrics(&self) -> Metrics {
        self.handle.shared.state.lock().outbox.metrics()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("peer", &self.peer()).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.leaving = true;
        state.goodbye = true;
        drop(state);
        self.shared.waker.wake();
    }
}

impl State {
    fn submit(
        &mut self,
        now: Instant,
        errand: Option<Errand>,
        request: Request,
        done: Done,
        results: &mut Results,
    ) -> u64 {
        let (len, max) = (request.payload.len(), self.body_max);
        let unsent = match &self.closed {
            Some(reason) => Some(Unsent::disconnected(reason)),
            None if self.leaving => Some(Unsent::disconnected(ASKED_TO_LEAVE)),
            None if len > max as usize => Some(Unsent::TooLarge { len, max }.into()),
            None => None,
        };
        if let Some(error) = unsent {
            give(Some(done), errand, Err(error), results);
            return u64::MAX;
        }
        self.serial = self.serial.wrapping_add(1);
        let deadline = request.deadline.map_or(Instant::NEVER, |left| now + left);
        let mut demand = Demand::new(0);
        demand.priority = request.priority;
        demand.droppable = request.droppable;
        let serial = self.serial;
        let done = Some(done);
        let key = self.calls.insert(Call { serial, request, deadline, sent: None, errand, done });
        demand.id = call_id(key, serial);
        self.outbox.submit(now, client::Request { item: key, demand, deadline });
        demand.id
    }

    /// Sends all that may leave now, and ends what never will.
    pub(super) fn pump(&mut self, now: Instant, results: &mut Results) {
        let mut realtime = None; // read once for all that leaves now
        while self.may_send()
            && let Some(departed) = self.outbox.poll_send(now)
        {
            let key = departed.item;
            if self.calls[key].done.is_none() {
                // Its caller lost interest while it waited.
                self.calls.remove(key).end(Err(CallError::Cancelled), results);
                self.outbox.withdraw();
                continue;
            }
            let sent_at_ns = *realtime.get_or_insert_with(clock::realtime_ns);
            let call = &mut self.calls[key];
            call.sent = Some(now);
            if let Some(errand) = &mut call.errand {
                errand.sent(now);
            }
            let (mut frame, payload) = call.frame(key, now, sent_at_ns, departed.report);
            let room = self.body_max.saturating_sub(frame.body_len) as usize;
            match frame.extension_block().filter(|block| block.len() <= room) {
                Some(block) => {
                    frame.extension = true;
                    frame.body_len += block.len() as u32;
                    self.out.push(&[&frame.encode()[..], &block].concat(), payload);
                }
                None => self.out.push(&frame.encode(), payload),
            }
        }
        if self.may_send()
            && let Some(report) = self.outbox.poll_report()
        {
            let mut frame = wire::Request::new(RequestOp::Demand);
            (frame.demand, frame.window_ack) = (report.demand, report.window_ack);
            self.out.push(&frame.encode(), Bytes::new());
        }
        while let Some((key, reason)) = self.outbox.poll_dropped() {
            self.calls.remove(key).end(Err(Unsent::Dropped(reason).into()), results);
        }
        if self.goodbye && self.outbox.pending() == 0 {
            self.goodbye = false;
            let goodbye = wire::Request::new(RequestOp::Goodbye);
            self.out.push(&goodbye.encode(), Bytes::new());
        }
    }

    /// The server takes no more calls on this session: what was not sent never will be.
    pub(super) fn leave(&mut self, results: &mut Results) {
        self.leaving = true;
        for key in self.outbox.take_pending() {
            self.calls.remove(key).end(Err(Unsent::disconnected(ASKED_TO_LEAVE)), results);
        }
    }

    /// Gives back the callback of a call that was not cancelled before, its errand if that is over,
    /// and whether it was sent.
    #[must_use]
    fn cancel(&mut self, id: u64) -> Option<(Done, Option<Errand>, bool)> {
        let (key, call) = self.find(id)?;
        let (done, sent) = (call.done.take()?, call.sent.is_some());
        let errand = if sent {
            // The server may still be at it, so that the connection is not free.
            if let Some(errand) = &mut call.errand {
                errand.give_up();
            }
            None
        } else {
            call.errand.take()
        };
        if sent {
            let mut cancel = wire::Request::new(RequestOp::Cancel);
            cancel.claims.id = call_id(key, call.serial);
            self.out.push(&cancel.encode(), Bytes::new());
        }
        Some((done, errand, sent))
    }

    /// Forgets the newest call if it is predicted to wait longer than `patience`.
    fn take_back(&mut self, now: Instant, id: u64, patience: Duration) -> bool {
        let Some((key, call)) = self.find(id) else { return false };
        if !call.request.droppable || self.outbox.wait(now) <= patience {
            return false;
        }
        let taken = self.outbox.take_back();
        assert_eq!(taken, Some(key), "the newest call is the newest in the outbox");
        self.calls.remove(key);
        true
    }

    /// Gives back the callback of a call that was not sent; it never will be.
    #[must_use]
    fn withdraw(&mut self, id: u64) -> Option<Done> {
        let (_, call) = self.find(id)?;
        if call.sent.is_some() { None } else { call.done.take() }
    }

    /// A terminal reply came. One to a call that was not sent breaks the protocol.
    pub(super) fn on_reply(
        &mut self,
        now: Instant,
        frame: &wire::Response,
        body: Bytes,
        results: &mut Results,
    ) -> Result<(), String> {
        let Some((key, &mut Call { sent: Some(sent), .. })) = self.find(frame.id) else {
            return Err(format!("a reply to call {}, which is not outstanding", frame.id));
        };
        let call = self.calls.remove(key);
        let mut response = Response::new(now.since(sent), frame.feedback);
        response.served = frame.status != wire::Status::Rejected;
        self.outbox.on_response(now, &response);
        call.end(result(frame, body), results);
        Ok(())
    }

    /// The server told something outside of a reply.
    pub(super) fn on_push(&mut self, now: Instant, feedback: Feedback) {
        self.outbox.on_push(now, feedback);
    }

    /// Something may have become due.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.outbox.handle_timeout(now);
    }

    /// When something becomes due. What is overdue and must not be sent has to wait for a reply or
    /// the socket, not for the time.
    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.outbox.poll_timeout().filter(|at| *at > now || self.may_send())
    }

    fn may_send(&self) -> bool {
        self.outbox.outstanding() < self.outstanding_max && self.out.len() < OUT_MAX
    }

    /// True when nothing is on its way in either direction.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.out.is_empty()
    }

    /// The connection is gone, and every call with it.
    pub(super) fn close(&mut self, reason: &str, results: &mut Results) {
        self.closed = Some(reason.to_owned());
        self.outbox.take_pending().for_each(drop); // they are among the calls
        for call in self.calls.drain() {
            let error = match call.sent {
                Some(_) => CallError::ConnectionLost(reason.to_owned()),
                None => Unsent::disconnected(reason),
            };
            call.end(Err(error), results);
        }
    }

    fn find(&mut self, id: u64) -> Option<(usize, &mut Call)> {
        let (key, serial) = ((id & u64::from(u32::MAX)) as usize, (id >> 32) as u32);
        let call = self.calls.get_mut(key)?;
        (call.serial == serial).then_some((key, call))
    }
}

impl Call {
    fn end(self, result: CallResult, results: &mut Results) {
        give(self.done, self.errand, result, results);
    }

    fn frame(
        &mut self,
        key: usize,
        now: Instant,
        sent_at_ns: u64,
        report: Report,
    ) -> (wire::Request, Bytes) {
        let request = &mut self.request;
        let payload = std::mem::take(&mut request.payload);
        let mut frame = wire::Request::new(RequestOp::Call);
        frame.claims = Claims {
            id: call_id(key, self.serial),
            method: request.method,
            priority: request.priority,
            attempt: request.attempt,
            droppable: request.droppable,
            deadline: request.deadline.map(|_| self.deadline.since(now)),
            budget: request.budget,
            tenant: request.tenant,
            upscale_hops: request.upscale_hops,
            path: request.path,
            upstream_exec: request.upstream_exec,
            sent_at_ns,
            start_time_ns: if request.start_time_ns > 0 {
                request.start_time_ns
            } else {
                sent_at_ns
            },
        };
        (frame.demand, frame.window_ack) = (report.demand, report.window_ack);
        frame.body_len = payload.len() as u32;
        (frame, payload)
    }
}

/// Hands a result out. An errand ends at once, but is dropped without the lock, like callbacks: it
/// may own the connection itself.
fn give(done: Option<Done>, errand: Option<Errand>, result: CallResult, results: &mut Results) {
    let Some(mut errand) = errand else {
        return results.extend(done.map(|done| (done, result)));
    };
    errand.give_up();
    let told = move |result| {
        drop(errand);
        if let Some(done) = done {
            done(result);
        }
    };
    results.push((Box::new(told), result));
}

/// A seed of this session alone, whenever and in whichever process another one begins: what the
/// standard library keys a new hash map with.
fn seed() -> u64 {
    RandomState::new().hash_one(())
}

/// A call's number: its place in the table, and which of the successive calls of that place it is.
fn call_id(key: usize, serial: u32) -> u64 {
    (u64::from(serial) << 32) | key as u64
}

fn result(frame: &wire::Response, body: Bytes) -> CallResult {
    match frame.status {
        wire::Status::Ok => Ok(Reply::new(body, frame.service, frame.queue_delay)),
        wire::Status::Cancelled => Err(CallError::Cancelled),
        wire::Status::Rejected => {
            let rejected = Rejected::new(frame.stage, frame.predicted_delay, Duration::MAX);
            Err(rejected.with_retry_after(frame.retry_after).into())
        }
        wire::Status::Error => match Status::decode_error(&body) {
            Status::Error { code, message } => Err(CallError::Failed { code, message }),
            Status::Rejected(rejected) => Err(rejected.into()),
        },
    }
}
