//! The client: sessions with one or more replicas of a service.

mod call;
mod config;
mod driver;
mod replicas;
mod session;

use std::net::SocketAddr;
use std::sync::Arc;

use seawall_control::Instant;

pub use call::{CallError, CallFuture, CallResult, Reply, Request, Unsent};
pub use config::{ClientConfig, ConnectError};
pub use session::Session;

use crate::clock;
use replicas::Replicas;

/// A client of a service with one or more replicas. Clones share its sessions.
///
/// Each call goes to the less loaded of two replicas picked at random. A replica whose connection
/// is lost is left out until a new one stands.
#[derive(Clone, Debug)]
pub struct Client {
    replicas: Arc<Replicas>,
}

impl Client {
    /// A client of the replicas at `addresses`, none of which is connected to yet.
    ///
    /// # Panics
    ///
    /// If there are no addresses.
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>, config: ClientConfig) -> Self {
        Self { replicas: Arc::new(Replicas::new(addresses, config)) }
    }

    /// Calls the service; connects first if no replica is connected. A call that its session could
    /// not send any more goes to another replica.
    ///
    /// # Errors
    ///
    /// Why there is no reply.
    pub async fn call(&self, request: Request) -> CallResult {
        let deadline = request.deadline.map_or(Instant::NEVER, |left| clock::now() + left);
        for _another in 1..self.replicas.len() {
            match self.try_call(request.clone(), deadline).await {
                Err(CallError::NotSent(Unsent::Disconnected(_))) => {}
                result => return result,
            }
        }
        self.try_call(request, deadline).await
    }

    async fn try_call(&self, mut request: Request, deadline: Instant) -> CallResult {
        let session = match self.replicas.pick() {
            Some(session) => session,
            None => {
                let connecting = self.replicas.connect();
                let connected =
                    tokio::time::timeout_at(clock::to_tokio(deadline), connecting).await;
                let late = || Unsent::disconnected("no replica was connected in time");
                let lost = |error: ConnectError| Unsent::disconnected(error.to_string());
                connected.map_err(|_| late())?.map_err(lost)?
            }
        };
        request.deadline = request.deadline.map(|_| deadline.since(clock::now()));
        session.call(request).until(deadline).await
    }

    /// Connects to all replicas that are not connected; gives a session once there is one.
    ///
    /// # Errors
    ///
    /// What the last replica said, if none can be reached. For a while after that nobody is asked
    /// again.
    pub async fn connect(&self) -> Result<Session, ConnectError> {
        self.replicas.connect().await
    }
}
