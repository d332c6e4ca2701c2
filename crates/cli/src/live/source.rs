//! Where the text of `/metrics` comes from.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusHandle;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::fetch::{self, AT};

/// How long to wait for those who publish before what they published last is shown.
const PATIENCE: Duration = Duration::from_millis(100);

/// How many may ask at once; more wait for their turn within [`PATIENCE`].
const ASKS: usize = 8;

/// Somebody is about to read: publish, and say when that is done.
pub(crate) type Ask = oneshot::Sender<()>;

/// Those who publish hear here that somebody is about to read.
pub(crate) type Asks = mpsc::Receiver<Ask>;

/// Whom to ask to publish.
pub(crate) type Publisher = mpsc::Sender<Ask>;

/// The two ends of the line between who reads and who publishes.
pub(crate) fn asks() -> (Publisher, Asks) {
    mpsc::channel(ASKS)
}

/// Where the text comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// What this process records. Rates are differences between two readings, so what is counted
    /// elsewhere is published when it is read, where there is somebody to ask for it.
    Recorder { handle: PrometheusHandle, publisher: Option<Publisher>, start: Instant },
    /// What another listener shows, if there is one now.
    Elsewhere(Screen),
}

/// Which listener is shown now, if any. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Screen(Arc<Mutex<Option<SocketAddr>>>);

impl Screen {
    pub(crate) fn show(&self, listener: Option<SocketAddr>) {
        *self.0.lock() = listener;
    }
}

/// The metrics at one moment.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) text: String,
    /// Seconds on a clock that begins with the process: what counters' differences are divided by.
    /// `None` if nobody says.
    pub(super) at: Option<String>,
}

impl Source {
    /// What this process records; `publisher` is asked to publish before each reading.
    pub(crate) fn recorder(handle: PrometheusHandle, publisher: Option<Publisher>) -> Self {
        Self::Recorder { handle, publisher, start: Instant::now() }
    }

    /// Reads it. Nothing comes of a server that is not there.
    pub(super) async fn read(&self) -> Reading {
        match self {
            Self::Recorder { handle, publisher, start } => {
                if let Some(publisher) = publisher {
                    // Who does not come to publish is busy; what there is must do.
                    let _ = tokio::time::timeout(PATIENCE, ask(publisher)).await;
                }
                let at = format!("{:.6}", start.elapsed().as_secs_f64());
                Reading { text: handle.render(), at: Some(at) }
            }
            Self::Elsewhere(screen) => {
                let address = *screen.0.lock();
                let Some(address) = address else { return Reading::default() };
                match fetch::get(&address.to_string(), "/metrics").await {
                    Ok(reply) => Reading { at: reply.header(AT), text: reply.body },
                    Err(error) => {
                        tracing::debug!(%address, %error, "no metrics from there");
                        Reading::default()
                    }
                }
            }
        }
    }

    /// Does what a recorder has to have done now and then.
    pub(super) fn keep_up(&self) {
        if let Self::Recorder { handle, .. } = self {
            handle.run_upkeep();
        }
    }
}

async fn ask(publisher: &Publisher) {
    let (told, done) = oneshot::channel();
    if publisher.send(told).await.is_ok() {
        let _ = done.await;
    }
}
