//! Seawall's RPC: one worker, which also reads and writes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use seawall_control::admission;
use seawall_rpc::{
    ClientConfig, Context, Request, Router, Server, ServerConfig, Session, StartError, Status,
};

use crate::closed_loop::Caller;

const METHOD: u16 = 1;

/// So far beyond what a closed loop can queue that nothing is held back or refused: measured is the
/// price of asking, not the answer.
const SLO: Duration = Duration::from_millis(500);

async fn echo(_ctx: Context, payload: Bytes) -> Result<Bytes, Status> {
    Ok(payload)
}

/// Starts a server that admits as `algorithm` does.
pub(super) fn serve(algorithm: &str) -> Result<Server, StartError> {
    let mut config = ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        slo: SLO,
        admission: admission::Config::named(algorithm),
        ..ServerConfig::default()
    };
    config.threads.workers = 1;
    Server::start(config, Router::new().method(METHOD, "echo", echo))
}

/// A session.
#[derive(Clone)]
pub(super) struct Client {
    session: Session,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self { session: Session::connect(address, &ClientConfig::default()).await? })
    }
}

impl Caller for Client {
    async fn call(&mut self, payload: Bytes) -> Result<Bytes> {
        Ok(self.session.call(Request::new(METHOD, payload)).await?.payload)
    }
}
