//! A bounded number of connections, on each of which one call is under way at a time.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::estimate::Ewma;
use seawall_control::lanes::Lanes;
use seawall_control::predict::lock::{Backlog, Estimate};
use seawall_control::request::{Rejected, Stage};
use seawall_control::time::nanos;
use tokio::sync::oneshot;

use crate::client::Session;
use crate::clock;
use crate::server::Context;

/// Weight of the newest call in the mean time that calls keep their connections.
const HOLD_WEIGHT: f64 = 0.05;

/// Requests wait here for a connection to be free, those that may not be dropped ahead of the
/// others.
#[derive(Debug)]
pub(super) struct Pool {
    state: Mutex<State>,
    size: u32,
}

#[derive(Debug)]
struct State {
    /// Connections that nobody uses; what was used last is used next.
    idle: Vec<Session>,
    /// Connections in use, those that are being made included.
    taken: u32,
    waiters: Lanes<oneshot::Sender<Held>>,
    /// How long a call keeps its connection, in nanoseconds.
    hold: Ewma,
}

/// The right to one connection. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    /// Whose it is, while it is somebody's.
    pool: Option<Arc<Pool>>,
    /// The connection, once there is one.
    pub(super) session: Option<Session>,
    since: Instant,
}

impl Pool {
    pub(super) fn new(size: u32) -> Arc<Self> {
        let hold = Ewma::new(HOLD_WEIGHT);
        let state = State { idle: Vec::new(), taken: 0, waiters: Lanes::default(), hold };
        Arc::new(Self { state: Mutex::new(state), size })
    }

    /// Waits for a connection.
    ///
    /// # Errors
    ///
    /// The request cannot afford the wait; it is refused at once then.
    pub(super) async fn get(
        self: &Arc<Self>,
        ctx: &Context,
        stage: Stage,
    ) -> Result<Held, Rejected> {
        let waiter = {
            let mut state = self.state.lock();
            let now = clock::now();
            // Those who gave up while they waited are ahead of nobody.
            let gone = state.waiters.take_ordinary(usize::MAX, |_, waiter| waiter.is_closed());
            drop(gone);
            if state.taken < self.size && state.waiters.is_empty() {
                state.taken += 1;
                let session = state.idle.pop();
                return Ok(Held { pool: Some(self.clone()), session, since: now });
            }
            let predicted = Estimate::Larger.wait(&state.backlog(now, self.size));
            ctx.admit(stage, now, predicted)
                .map_err(|rejected| rejected.with_retry_after(predicted))?;
            let (sender, waiter) = oneshot::channel();
            state.waiters.push(now, ctx.claims().droppable, sender);
            waiter
        };
        Ok(waiter.await.expect("a pool hands its connections on as long as somebody waits"))
    }

    /// Requests that wait for a connection.
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiters.len()
    }

    /// Connections that are in use.
    pub(super) fn in_use(&self) -> u32 {
        self.state.lock().taken
    }
}

impl State {
    /// What is ahead of a request that would wait now.
    fn backlog(&self, now: Instant, size: u32) -> Backlog {
        let ahead = self.waiters.len() + 1;
        Backlog {
            age: self.waiters.oldest().map_or(Duration::ZERO, |since| now.since(since)),
            turns: ahead as f64 / f64::from(size),
            hold: Duration::from_nanos(self.hold.value().unwrap_or_default() as u64),
            ..Backlog::default()
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        let now = clock::now();
        // A connection that has ended is made anew by whoever is next.
        let mut session = self.session.take().filter(Session::is_open);
        pool.state.lock().hold.observe(nanos(now.since(self.since)) as f64);
        loop {
            let mut state = pool.state.lock();
            let Some((_, waiter)) = state.waiters.pop() else {
                state.taken -= 1;
                state.idle.extend(session);
                return;
            };
            drop(state); // whoever waits is woken without it
            let held = Self { pool: Some(pool.clone()), session, since: now };
            let Err(mut held) = waiter.send(held) else { return };
            // It has given up: on to the next.
            (held.pool, session) = (None, held.session.take());
        }
    }
}
