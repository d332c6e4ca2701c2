//! The page of metrics: what servers publish of themselves, and what they do as an agent orders.

mod agent;
mod chain;
mod faults;
mod replies;
mod shed;

use std::path::Path;
use std::sync::Arc;

use crate::support::{config, until};
use bytes::Bytes;
use seawall_abi::clock::monotonic_ns;
use seawall_abi::page::{Counters, Orders, Reader};
use seawall_rpc::{Context, Router, Server, ServerConfig, Status};
use tokio::sync::Semaphore;

/// A server under no algorithm that publishes in `folder`, and believes whatever it is told.
pub(crate) fn paged(folder: &Path, service: &str) -> ServerConfig {
    let mut config = config("none");
    config.page.folder = Some(folder.into());
    config.page.service = Some(service.into());
    config.trust.everybody = true;
    config
}

pub(crate) fn reader(server: &Server) -> Reader {
    Reader::open(server.page().expect("it publishes").path()).unwrap()
}

/// What a server has counted, once nothing is in it any more.
pub(crate) async fn settled(server: &Server) -> Counters {
    let reader = reader(server);
    until(|| reader.counters().unwrap().in_flight == 0).await;
    reader.counters().unwrap()
}

/// Orders that stand for a minute from now.
pub(crate) fn orders() -> Orders {
    Orders { heartbeat_ns: monotonic_ns(), lease_ns: 60_000_000_000, ..Orders::default() }
}

/// A method whose handler waits for a permit of `gate` each time.
pub(crate) fn gated(gate: &Arc<Semaphore>) -> Router {
    let gate = gate.clone();
    Router::new().method(1, "gated", move |_: Context, payload: Bytes| {
        let gate = gate.clone();
        async move {
            gate.acquire().await.expect("it is never closed").forget();
            Ok::<_, Status>(payload)
        }
    })
}
