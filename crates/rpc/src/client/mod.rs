//! The client: sessions with one or more replicas of a service.

mod call;
mod config;
mod driver;
mod session;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::Rng;

pub use call::{CallError, CallFuture, CallResult, Reply, Request};
pub use config::{ClientConfig, ConnectError};
pub use session::Session;

use crate::clock;

/// A lost replica is tried again after this long, and twice as long after each failure, up to the
/// second.
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
const RECONNECT_MOST: Duration = Duration::from_secs(5);

/// A client of a service with one or more replicas. Clones share its sessions.
///
/// Each call goes to the less loaded of two replicas picked at random. A replica whose connection
/// is lost is left out until a new one stands.
#[derive(Clone, Debug)]
pub struct Client {
    replicas: Arc<[Replica]>,
    config: Arc<ClientConfig>,
    calls: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Replica {
    address: SocketAddr,
    session: Mutex<Option<Session>>,
    connecting: Mutex<bool>,
}

impl Client {
    /// A client of the replicas at `addresses`, none of which is connected to yet.
    ///
    /// # Panics
    ///
    /// If there are no addresses.
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>, config: ClientConfig) -> Self {
        let replica =
            |address| Replica { address, session: Mutex::default(), connecting: Mutex::default() };
        let replicas: Arc<[Replica]> = addresses.into_iter().map(replica).collect();
        assert!(!replicas.is_empty(), "a client needs the address of at least one replica");
        Self { replicas, config: Arc::new(config), calls: Arc::default() }
    }

    /// Calls the service; connects first if no replica is connected.
    ///
    /// # Errors
    ///
    /// Why there is no reply.
    pub async fn call(&self, request: Request) -> CallResult {
        let session = match self.pick() {
            Some(session) => session,
            None => {
                let lost = |error: ConnectError| CallError::ConnectionLost(error.to_string());
                self.connect().await.map_err(lost)?
            }
        };
        let deadline = request.deadline;
        let call = session.call(request);
        match deadline {
            None => call.await,
            // Dropping the call when time is up also cancels it at the server.
            Some(deadline) => match tokio::time::timeout(deadline, call).await {
                Ok(result) => result,
                Err(_) => Err(CallError::DeadlineExceeded),
            },
        }
    }

    /// Connects to all replicas that are not connected; gives a session once there is one.
    ///
    /// # Errors
    ///
    /// What the last replica said, if none can be reached.
    pub async fn connect(&self) -> Result<Session, ConnectError> {
        let mut last = None;
        for replica in self.replicas.iter() {
            if replica.open_session().is_some() {
                continue;
            }
            match Session::connect(replica.address, &self.config).await {
                Ok(session) => *replica.session.lock() = Some(session),
                Err(error) => last = Some(error),
            }
        }
        let no_replica = || {
            let last = last.unwrap_or_else(|| ConnectError::Refused("it left at once".into()));
            ConnectError::NoReplica(Box::new(last))
        };
        self.pick().ok_or_else(no_replica)
    }

    /// The less loaded of two connected replicas picked at random.
    fn pick(&self) -> Option<Session> {
        let open: Vec<Session> = self.replicas.iter().filter_map(Replica::open_session).collect();
        for replica in self.replicas.iter().filter(|replica| replica.open_session().is_none()) {
            // Only one that was connected before: the first connection is the caller's to wait for.
            if replica.session.lock().is_some() {
                self.reconnect(replica.address);
            }
        }
        if open.len() <= 1 {
            return open.into_iter().next();
        }
        let mut rng = Rng::new(self.calls.fetch_add(1, Relaxed) ^ clock::realtime_ns());
        let draw = |rng: &mut Rng| &open[rng.below(open.len() as u64) as usize];
        let (one, other) = (draw(&mut rng), draw(&mut rng));
        let load = |session: &Session| session.outstanding() as usize + session.pending();
        Some(if load(one) <= load(other) { one.clone() } else { other.clone() })
    }

    /// Tries in the background to connect to a lost replica, until it succeeds or the client is
    /// gone.
    fn reconnect(&self, address: SocketAddr) {
        let replica = self.replicas.iter().find(|replica| replica.address == address);
        let replica = replica.expect("only known replicas are reconnected");
        if std::mem::replace(&mut *replica.connecting.lock(), true) {
            return;
        }
        let (replicas, config) = (Arc::downgrade(&self.replicas), self.config.clone());
        tokio::spawn(async move {
            let mut pause = RECONNECT_FIRST;
            while let Some(replicas) = replicas.upgrade() {
                let replica = replicas.iter().find(|replica| replica.address == address);
                let Some(replica) = replica else { return };
                match Session::connect(address, &config).await {
                    Ok(session) => {
                        *replica.session.lock() = Some(session);
                        *replica.connecting.lock() = false;
                        return;
                    }
                    Err(error) => tracing::debug!(%address, %error, "a replica is still lost"),
                }
                drop(replicas);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RECONNECT_MOST);
            }
        });
    }
}

impl Replica {
    fn open_session(&self) -> Option<Session> {
        self.session.lock().clone().filter(Session::is_open)
    }
}
