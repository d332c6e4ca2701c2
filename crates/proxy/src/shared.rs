//! What all threads of the proxy share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::route::Route;
use crate::tls::{self, TlsError};
use crate::upstream::Upstream;

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What counts now; each request looks at it once.
    pub(crate) state: ArcSwap<State>,
    /// Told when no more connections and requests are to be taken.
    pub(crate) stop: CancellationToken,
    /// Connections, and tunnels that have come out of them.
    pub(crate) tasks: TaskTracker,
    /// Room for connections.
    pub(crate) room: Arc<Semaphore>,
}

/// A configuration, ready to be used.
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) acceptor: Option<TlsAcceptor>,
    pub(crate) routes: Vec<Route>,
    upstreams: Vec<Arc<Upstream>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("config", &self.config).finish_non_exhaustive()
    }
}

impl State {
    /// Reads the files that `config` names. What it has in common with `before` goes on as it is:
    /// connections, health, and what was learned.
    pub(crate) fn new(
        config: Config,
        workers: usize,
        runtime: &Handle,
        before: Option<&Self>,
    ) -> Result<Self, TlsError> {
        let acceptor = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let known = before.map_or(&[][..], |before| &before.upstreams);
        let mut upstreams = Vec::with_capacity(config.upstreams.len());
        for (name, upstream) in &config.upstreams {
            let same = known.iter().find(|known| known.is(name, upstream));
            upstreams.push(match same {
                Some(same) => same.clone(),
                None => Upstream::start(name, upstream, workers, runtime, known)?,
            });
        }
        let routes = Route::all(&config, &upstreams);
        Ok(Self { config, acceptor, routes, upstreams })
    }
}
