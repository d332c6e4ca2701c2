//! Seawall's RPC: one worker, which also reads and writes, or has a dispatcher for that.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use seawall_control::admission;
use seawall_rpc::{
    ClientConfig, Context, GuardianWay, Request, Router, Server, ServerConfig, Session, StartError,
    Status,
};

use crate::closed_loop::Caller;

const METHOD: u16 = 1;

/// So far beyond what a closed loop can queue that nothing is held back or refused: measured is the
/// price of asking, not the answer.
const SLO: Duration = Duration::from_millis(500);

async fn echo(_ctx: Context, payload: Bytes) -> Result<Bytes, Status> {
    Ok(payload)
}

/// What a server has beside its one worker.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Nothing. It admits as this algorithm does.
    Plain(&'static str),
    /// A dispatcher.
    Dispatcher,
    /// A dispatcher, and a patrol.
    Guarded,
}

/// Starts a server.
pub(super) fn serve(kind: Kind) -> Result<Server, StartError> {
    let algorithm = if let Kind::Plain(algorithm) = kind { algorithm } else { "none" };
    let mut config = ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        slo: SLO,
        admission: admission::Config::named(algorithm),
        ..ServerConfig::default()
    };
    config.threads.workers = 1;
    config.threads.dispatchers = usize::from(!matches!(kind, Kind::Plain(_)));
    let guarded = matches!(kind, Kind::Guarded);
    config.guardian.way = if guarded { GuardianWay::Patrol } else { GuardianWay::Off };
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
