//! memcached's text protocol on sockets.
//!
//! ```text
//!   socket ─► input ─► Parser ─► Pipeline ─► Guest ─► run queue ─► worker
//!                                   │ places in request order         │
//!   socket ◄─ output ◄──────────────┴───────────── replies ◄──────────┘
//! ```
//!
//! Each connection is one task. A command is submitted as soon as it is parsed, so that several of
//! one connection run side by side; replies leave in the order of the commands. Commands that touch
//! the same key, at least one of them to change it, take effect in their order, too: the later one
//! is submitted when the earlier one is done.

mod close;
mod connection;
mod footprint;
mod output;
mod pipeline;
mod surplus;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use seawall_rpc::{GuestListener, Guests, ServerConfig};

use super::config::KvConfig;
use crate::store::Store;

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    store: Arc<Store>,
    /// Commands that one connection may have unanswered.
    pipeline: usize,
    limits: seawall_rpc::Limits,
}

impl Shared {
    pub(super) fn new(config: &KvConfig, store: Arc<Store>) -> Arc<Self> {
        let ServerConfig { limits, .. } = config.server;
        Arc::new(Self { store, pipeline: config.pipeline(), limits })
    }
}

/// Listens at `address` for guests of a server.
pub(super) fn listen(
    address: SocketAddr,
    guests: &Guests,
    shared: Arc<Shared>,
) -> io::Result<GuestListener> {
    guests.listen(address, move |client| {
        let shared = shared.clone();
        async move {
            match client {
                Ok(guest) => connection::drive(guest, shared).await,
                Err(tcp) => connection::turn_away(tcp).await,
            }
        }
    })
}
