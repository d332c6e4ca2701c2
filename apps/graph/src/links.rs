//! Connections to the services that this one calls.

use std::net::SocketAddr;

use bytes::Bytes;
use seawall_rpc::{
    CallError, CallResult, Client, ClientConfig, ConnectError, Context, Request, Session, Status,
    Unsent, clock,
};
use seawall_sync::Pool;

use crate::activity::Activity;
use crate::service::JOB;

/// One service that is called.
#[derive(Debug)]
pub(crate) struct Link {
    callee: String,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// One request on each connection at a time, and so many connections.
    Pool(Pool<Session, ConnectError>),
    /// All requests side by side, as streams of one connection.
    Streams(Client),
}

impl Link {
    /// A link to the service at an address, of a pool of connections or of one for all.
    pub(crate) fn new(callee: &str, address: SocketAddr, pool: Option<u32>) -> Self {
        let config = ClientConfig { name: callee.into(), ..ClientConfig::default() };
        let way = match pool {
            None => Way::Streams(Client::new([address], config)),
            Some(size) => Way::Pool(Pool::new(size, move || {
                let config = config.clone();
                async move { Session::connect(address, &config).await }
            })),
        };
        Self { callee: callee.into(), way }
    }

    /// Calls the service for a request that is served here, and waits for its answer.
    ///
    /// # Errors
    ///
    /// What the service said, or why it said nothing.
    pub(crate) async fn call(
        &self,
        ctx: &Context,
        hint: u16,
        activity: &Activity,
    ) -> Result<(), Status> {
        let mut request = Request::new(JOB, Bytes::new());
        let claims = ctx.claims();
        request.start_time_ns = match claims.start_time_ns {
            // The job begins here (SurgeGuard §III-A).
            0 => clock::realtime_ns() - clock::now().since(ctx.arrived()).as_nanos() as u64,
            begun => begun,
        };
        request.path = claims.path;
        request.upscale_hops = claims.upscale_hops.saturating_sub(1).max(hint);
        request.deadline = ctx.time_left(clock::now());
        let result = match &self.way {
            Way::Streams(client) => activity.replied(client.call(request)).await,
            Way::Pool(pool) => match activity.pooled(pool.get_plain()).await {
                Err(error) => Err(Unsent::Disconnected(error.to_string()).into()),
                Ok(session) => {
                    let result = activity.replied(session.call(request)).await;
                    if is_lost(&result) {
                        session.discard();
                    }
                    result
                }
            },
        };
        match result {
            Ok(_) => Ok(()),
            Err(CallError::Rejected(rejected)) => Err(Status::Rejected(rejected)),
            Err(error) => Err(Status::error(Status::INTERNAL, format!("{}: {error}", self.callee))),
        }
    }
}

/// Whether nobody should use this connection any more.
fn is_lost(result: &CallResult) -> bool {
    use CallError::{ConnectionLost, NotSent};
    matches!(result, Err(ConnectionLost(_) | NotSent(Unsent::Disconnected(_))))
}
