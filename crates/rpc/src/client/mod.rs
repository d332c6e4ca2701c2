//! The client: sessions with one or more replicas of a service.

mod answer;
mod call;
mod config;
mod downstream;
mod driver;
mod replicas;
mod session;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::retry::{Counts, End, Failed, Hedge, Policy, Verdict, Why};

pub use answer::{Answer, Failure};
pub use call::{CallError, CallFuture, CallResult, Reply, Request, Unsent};
pub use config::{ClientConfig, ConnectError};
pub use downstream::{Connections, Downstream};
pub use session::Session;

use crate::clock;
use answer::Attempts;
use replicas::{Picked, Replicas};

/// A client of a service with one or more replicas. Clones share its sessions and its retry budget.
///
/// Each call goes to the replica that [its configuration](seawall_control::replica::Config) says;
/// by default the less loaded of two picked at random, of those that have not told that they have
/// no time. A replica whose connection is lost is left out until a new one stands. What a replica
/// refuses, or gives no credit for in time, goes to another at once, and what it does not answer
/// soon may be sent to another as well, as far as [retries](seawall_control::retry::Config) are
/// wanted. The first reply counts, and what is still under way then is cancelled.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

/// A request that one replica has taken.
#[derive(Debug)]
pub(crate) struct Offered {
    picked: Picked,
    call: CallFuture,
    /// For how long it may wait for leave to be sent, if it was not sent at once.
    patience: Option<Duration>,
}

impl Offered {
    /// Waits for the result, but no longer than until `deadline`.
    pub(crate) async fn result(mut self, deadline: Instant) -> CallResult {
        let result = match self.patience {
            None => self.call.until(deadline).await,
            Some(patience) => self.call.unless_held(patience, deadline).await,
        };
        self.picked.on_result(&result);
        result
    }
}

#[derive(Debug)]
struct Inner {
    replicas: Arc<Replicas>,
    policy: Mutex<Policy>,
    /// A request that would wait longer for credits goes to another replica, if there is one.
    patience: Duration,
    rtt: Duration,
    /// Whether copies are ever sent.
    hedges: bool,
}

/// An attempt that has ended.
#[derive(Debug)]
struct Ended {
    index: usize,
    replica: SocketAddr,
    result: CallResult,
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
        let hedges = retry.hedge != Hedge::Never;
        Self { inner: Arc::new(Inner { replicas, policy, patience, rtt, hedges }) }
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
    pub async fn call_traced(&self, mut request: Request) -> Answer {
        let Inner { replicas, policy, rtt, .. } = &*self.inner;
        let begun = clock::now();
        let deadline = request.deadline.map_or(Instant::NEVER, |left| begun + left);
        let mut attempts = Attempts::new();
        let mut copy_at = self.begin(begun);
        let mut next = match self.pick(deadline, &[]).await {
            Ok(picked) => Some(picked),
            Err(error) => return attempts.answer(Err(error), None),
        };
        let mut flights = Vec::new(); // those that may have a copy beside them
        loop {
            let attempt = next.take().map(|picked| {
                attempts.tried.push(picked.index);
                let sent = attempts.sent.saturating_add(flights.len() as u8);
                self.attempt(picked, request.clone(), sent, deadline)
            });
            let ended = match attempt {
                Some(only) if copy_at.is_none() && flights.is_empty() => only.await,
                attempt => {
                    flights.extend(attempt.map(Box::pin));
                    let timer = clock::to_tokio(copy_at.unwrap_or(Instant::NEVER));
                    match tokio::time::timeout_at(timer, select_all(&mut flights)).await {
                        Ok((ended, place, _)) => {
                            drop(flights.swap_remove(place));
                            ended
                        }
                        Err(_) => {
                            copy_at = None;
                            let idempotent = request.idempotent;
                            next = self.copy(&attempts, flights.len(), idempotent, deadline);
                            continue;
                        }
                    }
                }
            };
            let Ended { index, replica, result } = ended;
            attempts.on_end(clock::now(), index, &result);
            let error = match result {
                Err(error) => error,
                Ok(reply) => {
                    self.served(begun, &attempts);
                    attempts.sent = attempts.sent.saturating_add(flights.len() as u8);
                    return attempts.answer(Ok(reply), None);
                }
            };
            let others = match &error {
                // Worth a connection of its own.
                CallError::NotSent(Unsent::Disconnected(_)) => {
                    replicas.len().saturating_sub(attempts.tried.len())
                }
                _ => replicas.connected_but(&attempts.tried),
            };
            let under_way = flights.len();
            let mut failed = attempts.failed(&error, others, request.idempotent, (deadline, *rtt));
            failed.sent = failed.sent.saturating_add(under_way as u8);
            let verdict = policy.lock().on_failure(clock::now(), &failed);
            match verdict {
                // While a copy is under way, nobody waits for a connection.
                Verdict::Again if under_way > 0 => {
                    attempts.push(replica, error);
                    next = replicas.pick(&attempts.tried);
                }
                Verdict::Again => {
                    attempts.push(replica, error);
                    match self.pick(deadline, &attempts.tried).await {
                        Ok(picked) => next = Some(picked),
                        Err(error) => return attempts.answer(Err(error), None),
                    }
                }
                // Another copy may still be served.
                Verdict::Enough(_) if under_way > 0 => attempts.push(replica, error),
                Verdict::Enough(why) => match self.last_resort(&mut request, &attempts, why) {
                    Some(picked) => {
                        attempts.push(replica, error);
                        next = Some(picked);
                    }
                    None => return attempts.answer(Err(error), Some(why)),
                },
            }
        }
    }

    /// A call begins. When it is time for a copy, if ever.
    fn begin(&self, now: Instant) -> Option<Instant> {
        let mut policy = self.inner.policy.lock();
        policy.on_call();
        policy.hedge_after().map(|after| now + after)
    }

    /// A call that has begun then is served.
    fn served(&self, begun: Instant, attempts: &Attempts) {
        if self.inner.hedges && attempts.is_first() {
            self.inner.policy.lock().on_latency(clock::now().since(begun));
        }
    }

    /// A replica for a copy of a request that so many others have not answered yet.
    fn copy(
        &self,
        attempts: &Attempts,
        under_way: usize,
        idempotent: bool,
        deadline: Instant,
    ) -> Option<Picked> {
        let Inner { replicas, policy, rtt, .. } = &*self.inner;
        let sent = attempts.sent.saturating_add(under_way as u8);
        let others = replicas.connected_but(&attempts.tried);
        let slow = Failed::new(End::Unknown, deadline);
        let slow = Failed { sent, others, idempotent, rtt: *rtt, ..slow };
        let verdict = policy.lock().on_slow(clock::now(), &slow);
        if verdict == Verdict::Again { replicas.pick(&attempts.tried) } else { None }
    }

    /// The replica that gets the request although all have refused it, if one does; it has no
    /// budget then.
    fn last_resort(&self, request: &mut Request, attempts: &Attempts, why: Why) -> Option<Picked> {
        let soonest = attempts.soonest().filter(|_| request.budget.is_some())?;
        let picked = self.inner.replicas.pick_again(soonest)?;
        let again = self.inner.policy.lock().on_refused_everywhere(why);
        again.then(|| {
            request.budget = None;
            picked
        })
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
        let mut picked = connected.map_err(|_| late())?.map_err(lost)?;
        if !tried.is_empty() {
            picked.others = 0; // where all were tried, one of them is tried again, and to its end
        }
        Ok(picked)
    }

    /// Calls one replica; the request was `sent` before.
    async fn attempt(
        &self,
        mut picked: Picked,
        mut request: Request,
        sent: u8,
        deadline: Instant,
    ) -> Ended {
        request.attempt = request.attempt.saturating_add(sent);
        request.deadline = request.deadline.map(|_| deadline.since(clock::now()));
        let patience = if picked.others > 0 { self.inner.patience } else { Duration::MAX };
        picked.on_asked();
        let result = match picked.session.offer(request, patience) {
            None => Err(Unsent::no_credit()),
            Some((false, call)) if patience < Duration::MAX => {
                call.unless_held(patience, deadline).await
            }
            Some((_, call)) => call.until(deadline).await,
        };
        picked.on_result(&result);
        Ended { index: picked.index, replica: picked.session.peer(), result }
    }

    /// Offers a request to the connected replicas, the less loaded first, until one lets it leave
    /// at once or soon; none if nobody does. It is sent at most once, and neither waits for a
    /// connection nor counts as a call that earns retries.
    pub(crate) fn offer(&self, request: &Request) -> Option<Offered> {
        let Inner { replicas, patience, .. } = &*self.inner;
        let mut tried = Vec::new();
        while let Some(mut picked) = replicas.pick(&tried) {
            tried.push(picked.index);
            picked.on_asked();
            if let Some((left, call)) = picked.session.offer(request.clone(), *patience) {
                return Some(Offered { picked, call, patience: (!left).then_some(*patience) });
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
        self.inner.replicas.connect().await.map(|picked| picked.session.clone())
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

    /// Calls, retries, copies, and what of them the budget forbade, so far.
    pub fn retries(&self) -> Counts {
        self.inner.policy.lock().counts()
    }
}
