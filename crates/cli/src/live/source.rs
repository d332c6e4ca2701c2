//! Where the text of `/metrics` comes from.

use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{mpsc, oneshot};

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

/// Where the text comes from: what this process records. Rates are differences between two
/// readings, so what is counted elsewhere is published when it is read, where there is somebody to
/// ask for it.
#[derive(Debug)]
pub(crate) struct Source {
    handle: PrometheusHandle,
    publisher: Option<Publisher>,
    start: Instant,
}

/// The metrics at one moment.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) text: String,
    /// Seconds on a clock that begins with the process: what counters' differences are divided by.
    pub(super) at: String,
}

impl Source {
    /// What this process records; `publisher` is asked to publish before each reading.
    pub(crate) fn recorder(handle: PrometheusHandle, publisher: Option<Publisher>) -> Self {
        Self { handle, publisher, start: Instant::now() }
    }

    /// Reads it.
    pub(super) async fn read(&self) -> Reading {
        if let Some(publisher) = &self.publisher {
            // Who does not come to publish is busy; what there is must do.
            let _ = tokio::time::timeout(PATIENCE, ask(publisher)).await;
        }
        let at = format!("{:.6}", self.start.elapsed().as_secs_f64());
        Reading { text: self.handle.render(), at }
    }

    /// Does what a recorder has to have done now and then.
    pub(super) fn keep_up(&self) {
        self.handle.run_upkeep();
    }
}

async fn ask(publisher: &Publisher) {
    let (told, done) = oneshot::channel();
    if publisher.send(told).await.is_ok() {
        let _ = done.await;
    }
}
