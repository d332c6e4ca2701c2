//! What all threads of the proxy share.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use metrics::gauge;
use seawall_measure::names;
use seawall_tower::server::parts::Senders;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admit::GATE;
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
    pub(crate) senders: Senders,
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
        for name in config.upstreams.keys() {
            let same = known.iter().find(|known| known.is(name, &config));
            upstreams.push(match same {
                Some(same) => same.clone(),
                None => Upstream::start(name, &config, workers, runtime, known)?,
            });
        }
        let routes = Route::all(&config, &upstreams);
        let senders = Senders::new(&config.trust);
        Ok(Self { config, acceptor, senders, routes, upstreams })
    }

    /// Requests that wait, or are with an upstream.
    pub(crate) fn outstanding(&self) -> u32 {
        self.upstreams.iter().map(|upstream| upstream.admission.outstanding()).sum()
    }

    /// Tells the recorder what is so now.
    pub(crate) fn publish(&self) {
        let (mut outstanding, mut queue_delay, mut waited) = (0, Duration::ZERO, Duration::ZERO);
        let mut sessions = 0;
        for upstream in &self.upstreams {
            let load = upstream.publish();
            outstanding += load.outstanding;
            queue_delay = queue_delay.max(load.queue_delay);
            waited += load.waited;
            sessions += load.sessions;
        }
        gauge!(names::OUTSTANDING.name).set(f64::from(outstanding));
        gauge!(names::SESSIONS.name).set(sessions as f64);
        gauge!(names::QUEUEING_DELAY.name).set(queue_delay.as_secs_f64());
        gauge!(names::STAGE_DELAY.name, "stage" => GATE).set(queue_delay.as_secs_f64());
        gauge!(names::STAGE_WAITED.name, "stage" => GATE).set(waited.as_secs_f64());
    }
}
