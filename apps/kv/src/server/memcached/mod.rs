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
mod listener;
mod output;
mod pipeline;

use std::sync::Arc;

use seawall_rpc::ServerConfig;

pub(super) use listener::Listener;

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
