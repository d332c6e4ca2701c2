//! Replicas on this host that stand still while a collector stops their world (LIBROS §V).
//!
//! ```text
//!   Java service ── agent ──► page: since when, until when ──► who sends requests there
//! ```
//!
//! Who is about to be sent a request is looked at then, which takes a microsecond; who has some,
//! each millisecond.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_abi::clock::monotonic_ns;
use seawall_abi::page::Reader;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::replica::Replica;

/// How often those are looked at who have requests.
const LOOK: Duration = Duration::from_millis(1);

/// How often it is seen whether there are some, else.
const IDLE: Duration = Duration::from_millis(20);

/// How often the pages are looked for of those who have none.
const SEARCH: Duration = Duration::from_secs(1);

/// What one replica says of itself.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    page: Mutex<Option<Reader>>,
    has_page: AtomicBool,
    stands: Notify,
}

impl Pause {
    /// How long the replica will still stand still, as it says; `None` if it does not, or nobody
    /// knows. Zero for one that does so for longer than was predicted.
    pub(crate) fn rest(&self) -> Option<Duration> {
        if !self.has_page.load(Relaxed) {
            return None;
        }
        let now_ns = monotonic_ns();
        let pause = self.page.lock().as_ref()?.pause(now_ns).ok().flatten()?;
        Some(Duration::from_nanos(pause.ends_ns.saturating_sub(now_ns)))
    }

    /// Waits until the replica stands still; it does so again while that lasts.
    pub(crate) async fn stands(&self) {
        self.stands.notified().await;
    }

    /// Whether its process lives, and says something.
    fn is_told(&self) -> bool {
        self.has_page.load(Relaxed) && self.page.lock().as_ref().is_some_and(Reader::is_alive)
    }

    fn set(&self, page: Option<Reader>) {
        self.has_page.store(page.is_some(), Relaxed);
        *self.page.lock() = page;
    }
}

/// Begins to watch those of `replicas` whose pages are in `folder`.
pub(super) fn start(
    folder: Option<&Path>,
    replicas: &[Arc<Replica>],
    runtime: &Handle,
) -> Option<AbortHandle> {
    let Some(folder) = folder else {
        replicas.iter().for_each(|replica| replica.pause.set(None));
        return None;
    };
    Some(runtime.spawn(watch(folder.to_owned(), replicas.to_vec())).abort_handle())
}

async fn watch(folder: PathBuf, replicas: Vec<Arc<Replica>>) {
    let mut search_at = Instant::now();
    loop {
        if Instant::now() >= search_at {
            search_at = Instant::now() + SEARCH;
            search(&folder, &replicas);
        }
        let mut is_busy = false;
        for replica in &replicas {
            if replica.books.is_busy() && replica.pause.has_page.load(Relaxed) {
                is_busy = true;
                if replica.pause.rest().is_some() {
                    replica.pause.stands.notify_waiters();
                }
            }
        }
        sleep(if is_busy { LOOK } else { IDLE }).await;
    }
}

/// Finds pages by the ports at which replicas listen.
fn search(folder: &Path, replicas: &[Arc<Replica>]) {
    let untold: Vec<_> = replicas.iter().filter(|replica| !replica.pause.is_told()).collect();
    if untold.is_empty() {
        return;
    }
    untold.iter().for_each(|replica| replica.pause.set(None));
    // A folder that is not there yet may be soon.
    let Ok(files) = folder.read_dir() else { return };
    let pages = files.filter_map(|file| Reader::open(file.ok()?.path()).ok());
    for page in pages {
        let port = page.description().port;
        if let Some(replica) = untold.iter().find(|replica| replica.dialer.endpoint().port == port)
        {
            tracing::info!(%replica, page = %page.path().display(), "its pauses are known");
            replica.pause.set(Some(page));
        }
    }
}
