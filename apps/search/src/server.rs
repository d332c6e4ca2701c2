//! The server: an engine behind the native protocol.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seawall_control::config::ConfigError;
use seawall_control::controller::Signal;
use seawall_rpc::{Context, Router, Server, ServerConfig, Stats, Status};
use seawall_sync::contention;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::engine::{Engine, EngineConfig, Query, SEGMENT, SearchError, TERM};
use crate::index::IndexError;
use crate::native;

/// Most stages of the report of contention that is logged at the end.
const REPORTED: usize = 12;

/// A search server: its index, its locks and caches, its native listener.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchConfig {
    /// The folder that `seawall-search build` built. Default: the current one.
    pub folder: PathBuf,
    /// Locks and caches.
    pub engine: EngineConfig,
    /// The native listener, and how requests are admitted.
    pub server: ServerConfig,
}

/// A search server that runs on threads of its own. Dropping it stops it at once;
/// [`shutdown`](Self::shutdown) answers first what it has accepted.
#[derive(Debug)]
pub struct SearchServer {
    server: Server,
    engine: Arc<Engine>,
}

/// Why a server did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no index, or it cannot be read.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The native server did not start.
    #[error(transparent)]
    Server(#[from] seawall_rpc::StartError),
}

impl SearchConfig {
    /// Checks every field against its range.
    ///
    /// # Errors
    ///
    /// Names the first field that lies outside of its range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.engine.validate()?;
        self.server.validate()
    }
}

impl SearchServer {
    /// Opens the index and starts to serve it.
    ///
    /// # Errors
    ///
    /// Names what is wrong with the configuration, the index, the certificates or the address.
    pub fn start(config: SearchConfig) -> Result<Self, StartError> {
        config.validate()?;
        let engine = Arc::new(Engine::open(&config.folder, &config.engine)?);
        let segments: Vec<u32> = engine.segments().collect();
        tracing::info!(documents = engine.documents(), ?segments, "opened the index");
        let server = Server::start(config.server, router(&engine))?;
        Ok(Self { server, engine })
    }

    /// Where it listens: the configured address, with the port that the system chose if that was 0.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What happened so far.
    pub fn stats(&self) -> Stats {
        self.server.stats()
    }

    /// Tells the controller what the program has measured, such as power or memory bandwidth, for
    /// utilities that value them.
    pub fn signal(&self, signal: Signal) {
        self.server.signal(signal);
    }

    /// The engine, which may be used beside the server.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Stops: lets nothing new in, and waits up to `grace` for what was accepted to be answered and
    /// for clients to go. What is left then is cancelled. Where requests have waited is logged.
    pub fn shutdown(self, grace: Duration) {
        self.server.shutdown(grace);
        let mut report = contention::report();
        report.stages.truncate(REPORTED);
        tracing::info!("where requests waited:\n{report}");
        for (segment, caches) in self.engine.caches().into_iter().enumerate() {
            tracing::info!(segment = segment + 1, ?caches, "what the reader kept");
        }
    }
}

fn router(engine: &Arc<Engine>) -> Router {
    let engine = engine.clone();
    let router = Router::new().stage(TERM, "term_lock").stage(SEGMENT, "segment_lock");
    router.method(native::SEARCH, "search", move |ctx, payload| {
        let engine = engine.clone();
        async move { search(&engine, &ctx, &payload).await }
    })
}

async fn search(engine: &Engine, ctx: &Context, payload: &Bytes) -> Result<Bytes, Status> {
    let invalid = |error: &dyn ToString| Status::error(Status::INVALID, error.to_string());
    let (words, limit) = native::decode_request(payload).map_err(|error| invalid(&error))?;
    let query = Query::new(words, limit).map_err(|error| invalid(&error))?;
    match engine.search(ctx, &query).await {
        Ok(found) => Ok(native::encode_reply(&found)),
        Err(SearchError::Rejected(rejected)) => Err(rejected.into()),
        Err(error) => Err(Status::error(Status::INTERNAL, error.to_string())),
    }
}
