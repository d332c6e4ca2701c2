//! The replicas of a service, and the sessions with them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::{Instant, Rng};
use tokio::sync::Notify;

use super::config::{ClientConfig, ConnectError};
use super::session::Session;
use crate::clock;

/// A replica is tried again this long after the last attempt, and twice as long after each one that
/// fails, up to the second.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_secs(5);

/// All replicas of one service.
#[derive(Debug)]
pub(super) struct Replicas {
    all: Box<[Replica]>,
    config: ClientConfig,
    picks: AtomicU64,
    /// Tells that an attempt to connect has ended.
    news: Notify,
}

/// A replica that was chosen.
pub(super) struct Picked {
    pub(super) index: usize,
    pub(super) session: Session,
    /// Other replicas that could have been chosen.
    pub(super) others: usize,
}

#[derive(Debug)]
struct Replica {
    address: SocketAddr,
    link: Mutex<Link>,
}

/// How things stand with one replica.
#[derive(Debug)]
struct Link {
    session: Option<Session>,
    /// An [`Attempt`] is under way.
    connecting: bool,
    /// Why the last one failed.
    error: Option<Arc<ConnectError>>,
    /// No attempt begins before this.
    retry_at: Instant,
    pause: Duration,
}

impl Replicas {
    pub(super) fn new(
        addresses: impl IntoIterator<Item = SocketAddr>,
        config: ClientConfig,
    ) -> Self {
        let replica = |address| Replica { address, link: Mutex::new(Link::new()) };
        let all: Box<[Replica]> = addresses.into_iter().map(replica).collect();
        assert!(!all.is_empty(), "a client needs the address of at least one replica");
        Self { all, config, picks: AtomicU64::new(0), news: Notify::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The less loaded of two connected replicas picked at random, its number, and how many others
    /// there are; none of those that were `tried`. Begins to connect those that are not.
    pub(super) fn pick(self: &Arc<Self>, tried: &[usize]) -> Option<Picked> {
        let open: Vec<(usize, Session)> = (0..self.len())
            .filter(|index| !tried.contains(index))
            .filter_map(|index| Some((index, self.session(index)?)))
            .collect();
        let others = open.len().saturating_sub(1);
        let picked = |(index, session)| Picked { index, session, others };
        if open.len() <= 1 {
            return open.into_iter().next().map(picked);
        }
        let mut rng = Rng::new(self.picks.fetch_add(1, Relaxed) ^ clock::realtime_ns());
        let one = rng.below(open.len() as u64) as usize;
        // Of the others, so that it is not the same again.
        let other = rng.below(open.len() as u64 - 1) as usize;
        let other = other + usize::from(other >= one);
        let load = |place: usize| {
            let session: &Session = &open[place].1;
            session.outstanding() as usize + session.pending()
        };
        let lighter = if load(one) <= load(other) { one } else { other };
        open.into_iter().nth(lighter).map(picked)
    }

    /// The sessions with all connected replicas. Begins to connect those that are not.
    pub(super) fn sessions(self: &Arc<Self>) -> Vec<Session> {
        (0..self.len()).filter_map(|index| self.session(index)).collect()
    }

    /// How many replicas are connected, but for those that were `tried`.
    pub(super) fn connected_but(&self, tried: &[usize]) -> usize {
        let untried = self.all.iter().enumerate().filter(|(index, _)| !tried.contains(index));
        untried.filter(|(_, replica)| replica.link.lock().open().is_some()).count()
    }

    /// Waits until a replica is connected.
    ///
    /// # Errors
    ///
    /// What the last replica said, once all have failed.
    pub(super) async fn connect(self: &Arc<Self>) -> Result<Picked, ConnectError> {
        loop {
            let news = self.news.notified(); // before looking, so that none is missed
            if let Some(picked) = self.pick(&[]) {
                return Ok(picked);
            }
            if let Some(error) = self.failure() {
                return Err(ConnectError::NoReplica(error));
            }
            news.await;
        }
    }

    /// The session with a replica. If there is none, an attempt to connect begins, unless there is
    /// one or the last was just before.
    fn session(self: &Arc<Self>, index: usize) -> Option<Session> {
        let mut link = self.all[index].link.lock();
        if let Some(session) = link.open() {
            return Some(session.clone());
        }
        if !link.connecting && link.retry_at <= clock::now() {
            link.connecting = true;
            drop(link);
            tokio::spawn(Attempt { replicas: self.clone(), index }.run());
        }
        None
    }

    /// Why no replica is connected; `None` while one is or may soon be.
    fn failure(&self) -> Option<Arc<ConnectError>> {
        let mut last = None;
        for replica in &self.all {
            let link = replica.link.lock();
            if link.connecting || link.open().is_some() {
                return None;
            }
            last = link.error.clone().or(last);
        }
        Some(last.unwrap_or_else(|| Arc::new(ConnectError::Refused("it left at once".into()))))
    }
}

impl Link {
    fn new() -> Self {
        Self {
            session: None,
            connecting: false,
            error: None,
            retry_at: Instant::ORIGIN,
            pause: PAUSE_FIRST,
        }
    }

    fn open(&self) -> Option<&Session> {
        self.session.as_ref().filter(|session| session.is_open())
    }

    /// An attempt has ended.
    fn end(&mut self, connected: Result<Session, ConnectError>) {
        let now = clock::now();
        *self = match connected {
            Ok(session) => {
                Self { session: Some(session), retry_at: now + PAUSE_FIRST, ..Self::new() }
            }
            Err(error) => Self {
                error: Some(Arc::new(error)),
                retry_at: now + self.pause,
                pause: (self.pause * 2).min(PAUSE_MOST),
                ..Self::new()
            },
        };
    }
}

/// An attempt to connect to one replica. It ends however its task does, so that others can begin.
struct Attempt {
    replicas: Arc<Replicas>,
    index: usize,
}

impl Attempt {
    async fn run(self) {
        let replica = &self.replicas.all[self.index];
        let connected = Session::connect(replica.address, &self.replicas.config).await;
        if let Err(error) = &connected {
            tracing::debug!(address = %replica.address, %error, "cannot connect to a replica");
        }
        replica.link.lock().end(connected);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut link = self.replicas.all[self.index].link.lock();
        if link.connecting {
            link.end(Err(io::Error::other("the runtime that connected has ended").into()));
        }
        drop(link);
        self.replicas.news.notify_waiters();
    }
}
