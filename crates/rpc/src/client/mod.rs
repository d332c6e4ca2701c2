//! The client: sessions with one or more replicas of a service.

mod answer;
mod call;
mod config;
mod driver;
mod replicas;
mod session;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::retry::{Counts, Policy, Verdict};

pub use answer::{Answer, Failure};
pub use call::{CallError, CallFuture, CallResult, Reply, Request, Unsent};
pub use config::{ClientConfig, ConnectError};
pub use session::Session;

use crate::clock;
use answer::Attempts;
use replicas::{Picked, Replicas};

/// A client of a service with one or more replicas. Clones share its sessions and its retry budget.
///
/// Each call goes to the less loaded of two replicas picked at random. A replica whose connection
/// is lost is left out until a new one stands. What a replica refuses, or gives no credit for in
/// time, goes to another at once, as far as [`Config`](seawall_control::retry::Config) lets it.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

/// A request that one replica has taken.
#[derive(Debug)]
pub(crate) struct Offered {
    call: CallFuture,
    /// For how long it may wait for leave to be sent, if it was not sent at once.
    patience: Option<Duration>,
}

impl Offered {
    /// Waits for the result, but no longer than until `deadline`.
    pub(crate) async fn result(self, deadline: Instant) -> CallResult {
        match self.patience {
            None => self.call.until(deadline).await,
            Some(patience) => self.call.unless_held(patience, deadline).await,
        }
    }
}

#[derive(Debug)]
struct Inner {
    replicas: Arc<Replicas>,
    policy: Mutex<Policy>,
    /// A request that would wait longer for credits goes to another replica, if there is one.
    patience: Duration,
    rtt: Duration,
}

impl Client {
    /// A client of the replicas at `addresses`, none of which is connected to yet.
    ///
    /// # Panics
    ///
    /// If there are no addresses.
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>, config: ClientConfig) -> Self {
        let (retry, rtt) = (config.admission.client.retry, config.rtt);
        let patience = if retry.is_on() { retry.patience(rtt) } else { Duration::MAX };
        let replicas = Arc::new(Replicas::new(addresses, config));
        let policy = Mutex::new(Policy::new(&retry));
        Self { inner: Arc::new(Inner { replicas, policy, patience, rtt }) }
    }

    /// Calls the service; connects first if no replica is connected. A call that a replica could
    /// not take goes to another, if it may.
    ///
    /// # Errors
    ///
    /// Why there is no reply: what the last replica said that was tried.
    pub async fn call(&self, request: Request) -> CallResult {
        self.call_traced(request).await.result
    }

    /// [`call`](Self::call), and what was tried.
    pub async fn call_traced(&self, request: Request) -> Answer {
        let Inner { replicas, policy, rtt, .. } = &*self.inner;
        let deadline = request.deadline.map_or(Instant::NEVER, |left| clock::now() + left);
        let mut attempts = Attempts::new();
        policy.lock().on_call();
        loop {
            let picked = match self.pick(deadline, &attempts.tried).await {
                Ok(picked) => picked,
                Err(error) => return attempts.answer(Err(error), None),
            };
            let replica = picked.session.peer();
            attempts.tried.push(picked.index);
            let result = self.attempt(picked, &request, attempts.sent, deadline).await;
            let error = match result {
                Err(error) => error,
                Ok(reply) => {
                    attempts.sent = attempts.sent.saturating_add(1);
                    return attempts.answer(Ok(reply), None);
                }
            };
            attempts.sent = attempts.sent.saturating_add(u8::from(error.was_sent()));
            let others = match &error {
                // Worth a connection of its own.
                CallError::NotSent(Unsent::Disconnected(_)) => {
                    replicas.len().saturating_sub(attempts.tried.len())
                }
                _ => replicas.connected_but(&attempts.tried),
            };
            let failed = attempts.failed(&error, others, request.idempotent, (deadline, *rtt));
            match policy.lock().on_failure(clock::now(), &failed) {
                Verdict::Again => attempts.push(replica, error),
                Verdict::Enough(why) => return attempts.answer(Err(error), Some(why)),
            }
        }
    }

    /// A replica that was not tried; one that is connected first if there is none.
    async fn pick(&self, deadline: Instant, tried: &[usize]) -> Result<Picked, CallError> {
        if let Some(picked) = self.inner.replicas.pick(tried) {
            return Ok(picked);
        }
        let connecting = self.inner.replicas.connect();
        let connected = tokio::time::timeout_at(clock::to_tokio(deadline), connecting).await;
        let late = || Unsent::disconnected("no replica was connected in time");
        let lost = |error: ConnectError| Unsent::disconnected(error.to_string());
        let picked = connected.map_err(|_| late())?.map_err(lost)?;
        // Where all were tried, one of them is tried again, and to its end.
        let others = if tried.is_empty() { picked.others } else { 0 };
        Ok(Picked { others, ..picked })
    }

    /// Calls one replica, of which `others` could take its place; the request was `sent` before.
    async fn attempt(
        &self,
        Picked { session, others, .. }: Picked,
        request: &Request,
        sent: u8,
        deadline: Instant,
    ) -> CallResult {
        let mut request = request.clone();
        request.attempt = request.attempt.saturating_add(sent);
        request.deadline = request.deadline.map(|_| deadline.since(clock::now()));
        let patience = if others > 0 { self.inner.patience } else { Duration::MAX };
        match session.offer(request, patience) {
            None => Err(Unsent::no_credit()),
            Some((false, call)) if patience < Duration::MAX => {
                call.unless_held(patience, deadline).await
            }
            Some((_, call)) => call.until(deadline).await,
        }
    }

    /// Offers a request to the connected replicas, the less loaded first, until one lets it leave
    /// at once or soon; none if nobody does. It is sent at most once, and neither waits for a
    /// connection nor counts as a call that earns retries.
    pub(crate) fn offer(&self, request: &Request) -> Option<Offered> {
        let Inner { replicas, patience, .. } = &*self.inner;
        let mut tried = Vec::new();
        while let Some(Picked { index, session, .. }) = replicas.pick(&tried) {
            tried.push(index);
            if let Some((left, call)) = session.offer(request.clone(), *patience) {
                return Some(Offered { call, patience: (!left).then_some(*patience) });
            }
        }
        None
    }

    /// Connects to all replicas that are not connected; gives a session once there is one.
    ///
    /// # Errors
    ///
    /// What the last replica said, if none can be reached. For a while after that nobody is asked
    /// again.
    pub async fn connect(&self) -> Result<Session, ConnectError> {
        self.inner.replicas.connect().await.map(|picked| picked.session)
    }

    /// Replicas that are connected now.
    pub(crate) fn connected(&self) -> usize {
        self.inner.replicas.connected_but(&[])
    }

    /// The sessions that stand now, one for each replica that is connected. Begins to connect the
    /// others.
    pub fn sessions(&self) -> Vec<Session> {
        self.inner.replicas.sessions()
    }

    /// Calls, retries, and retries that the budget forbade, so far.
    pub fn retries(&self) -> Counts {
        self.inner.policy.lock().counts()
    }
}
