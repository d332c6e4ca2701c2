//! Calls to another service on behalf of a request, and what of its time they take.
//!
//! ```text
//!   handler ── call(&ctx, request) ──► a connection? ──► leave to send? ──► reply
//!                                      └ waits here are the request's own: ┘ └ this one is not
//!                                        they hide that the service behind is slow
//! ```

mod errand;
mod pool;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use seawall_control::Instant;
use seawall_control::controller::DropReason;
use seawall_control::request::Stage;

pub(crate) use errand::Errand;
use pool::{Held, Pool};

use super::call::{CallError, CallResult, Request, Unsent};
use super::config::ClientConfig;
use super::session::Session;
use crate::clock;
use crate::server::Context;

/// How many connections a service has to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// At most so many, with one call at a time on each: what a client of Thrift or of a database
    /// does. A request waits until one is free.
    Pool(u32),
    /// One to each replica, shared by all calls: what gRPC does. A request waits only while there
    /// are no credits.
    Shared,
}

/// Another service, which handlers call. Clones share its connections.
///
/// What is sent carries the job's start, path, hint, and what the request has left
/// ([`Context::onward`]). The waits for a connection and for credits count as the request's own
/// (`timeWaitingForFreeConn`, SurgeGuard §III-A), and the wait for the reply as the other
/// service's: the page of metrics tells them apart.
///
/// ```
/// use bytes::Bytes;
/// use seawall_rpc::{ClientConfig, Connections, Context, Downstream, Request, Status};
///
/// # let address = ([127, 0, 0, 1], 7200).into();
/// let stock = Downstream::new("stock", [address], Connections::Pool(16), ClientConfig::default());
///
/// let order = move |ctx: Context, payload: Bytes| {
///     let stock = stock.clone();
///     async move { Ok::<_, Status>(stock.call(&ctx, Request::new(1, payload)).await?.payload) }
/// };
/// # seawall_rpc::Router::new().method(1, "order", order);
/// ```
#[derive(Clone, Debug)]
pub struct Downstream {
    inner: Arc<Inner>,
    stage: Stage,
}

#[derive(Debug)]
struct Inner {
    name: String,
    addresses: Vec<SocketAddr>,
    config: ClientConfig,
    ways: Ways,
    /// Replicas take turns.
    next: AtomicUsize,
}

#[derive(Debug)]
enum Ways {
    Pool(Arc<Pool>),
    /// One for each replica, once it is there. Whoever finds none makes it, and others wait.
    Shared(Vec<tokio::sync::Mutex<Option<Session>>>),
}

impl Downstream {
    /// A service with replicas at `addresses`, none of which is connected to yet.
    ///
    /// # Panics
    ///
    /// If there are no addresses, or a pool of none.
    pub fn new(
        name: impl Into<String>,
        addresses: impl IntoIterator<Item = SocketAddr>,
        connections: Connections,
        config: ClientConfig,
    ) -> Self {
        let (name, addresses) = (name.into(), Vec::from_iter(addresses));
        assert!(!addresses.is_empty(), "{name} has no address");
        let ways = match connections {
            Connections::Pool(size) => {
                assert!(size > 0, "a pool of no connections to {name}: nobody could ever call");
                Ways::Pool(Pool::new(size))
            }
            Connections::Shared => {
                Ways::Shared(addresses.iter().map(|_| Default::default()).collect())
            }
        };
        let next = AtomicUsize::new(0);
        let inner = Inner { name, addresses, config, ways, next };
        Self { inner: Arc::new(inner), stage: Stage::CONNECTION }
    }

    /// Refuses under the name of this stage, in place of [`Stage::CONNECTION`].
    #[must_use]
    pub fn at(mut self, stage: Stage) -> Self {
        self.stage = stage;
        self
    }

    /// Calls the service on behalf of a request, and waits for the reply. Dropping the future
    /// cancels the call.
    ///
    /// # Errors
    ///
    /// Why there is no reply. [`CallError::Rejected`] also when the request cannot afford to wait
    /// for a connection.
    pub async fn call(&self, ctx: &Context, request: Request) -> CallResult {
        let begun = clock::now();
        let errand = Errand::begin(ctx.clone(), begun);
        let left = request.deadline.into_iter().chain(ctx.time_left(begun)).min();
        let deadline = left.map_or(Instant::NEVER, |left| begun + left);
        let connecting = self.connection(ctx);
        let connected = match deadline {
            Instant::NEVER => connecting.await,
            _ => tokio::time::timeout_at(clock::to_tokio(deadline), connecting)
                .await
                .unwrap_or_else(|_| Err(Unsent::Dropped(DropReason::Expired).into())),
        };
        let (session, held) = connected?;
        let mut request = request;
        request.deadline = left.map(|_| deadline.since(clock::now()));
        let errand = errand.on(held.map(|held| Box::new(held) as _));
        session.call_for(Some(errand), ctx.onward(request)).until(deadline).await
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Requests that wait for a connection of the pool.
    pub fn waiting(&self) -> usize {
        match &self.inner.ways {
            Ways::Pool(pool) => pool.waiting(),
            Ways::Shared(_) => 0,
        }
    }

    /// Connections of the pool that are in use.
    pub fn in_use(&self) -> u32 {
        match &self.inner.ways {
            Ways::Pool(pool) => pool.in_use(),
            Ways::Shared(_) => 0,
        }
    }

    /// A connection to send on, and the right to it if it is not everybody's.
    async fn connection(&self, ctx: &Context) -> Result<(Session, Option<Held>), CallError> {
        match &self.inner.ways {
            Ways::Pool(pool) => {
                let mut held = pool.get(ctx, self.stage).await?;
                let session = match held.session.take().filter(Session::is_open) {
                    Some(session) => session,
                    None => self.inner.connect().await?,
                };
                held.session = Some(session.clone());
                Ok((session, Some(held)))
            }
            Ways::Shared(sessions) => {
                let turn = self.inner.next.fetch_add(1, Relaxed) % sessions.len();
                let mut session = sessions[turn].lock().await;
                if let Some(session) = session.as_ref().filter(|session| session.is_open()) {
                    return Ok((session.clone(), None));
                }
                let made = self.inner.connect_to(self.inner.addresses[turn]).await?;
                *session = Some(made.clone());
                Ok((made, None))
            }
        }
    }
}

impl Inner {
    /// Connects to the replica whose turn it is, or to the next one that can be reached.
    async fn connect(&self) -> Result<Session, CallError> {
        let turn = self.next.fetch_add(1, Relaxed);
        let mut last = None;
        for offset in 0..self.addresses.len() {
            let address = self.addresses[turn.wrapping_add(offset) % self.addresses.len()];
            match self.connect_to(address).await {
                Ok(session) => return Ok(session),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("there are addresses"))
    }

    async fn connect_to(&self, address: SocketAddr) -> Result<Session, CallError> {
        let connected = Session::connect(address, &self.config).await;
        connected.map_err(|error| Unsent::disconnected(format!("{}: {error}", self.name)))
    }
}
