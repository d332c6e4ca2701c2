//! The replicas of a service, and the sessions with them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::replica::{Answered, Selector};
use tokio::sync::Notify;

use super::call::{CallError, CallResult};
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
    selector: Mutex<Selector>,
    /// Tells that an attempt to connect has ended.
    news: Notify,
}

/// A replica that was chosen for a request. While this lives, the request counts as its load.
#[derive(Debug)]
pub(super) struct Picked {
    pub(super) index: usize,
    pub(super) session: Session,
    /// Other replicas that could have been chosen.
    pub(super) others: usize,
    /// When it was asked, if it has not answered.
    asked: Option<Instant>,
    replicas: Arc<Replicas>,
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
        let choice = &config.admission.client.replicas;
        let selector = Mutex::new(Selector::new(choice, all.len(), clock::realtime_ns()));
        Self { all, config, selector, news: Notify::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// One of the connected replicas, but none of those that were `tried`. Begins to connect those
    /// that are not.
    pub(super) fn pick(self: &Arc<Self>, tried: &[usize]) -> Option<Picked> {
        let mut open: Vec<(usize, Session)> = (0..self.len())
            .filter(|index| !tried.contains(index))
            .filter_map(|index| Some((index, self.session(index)?)))
            .collect();
        let mut selector = self.selector.lock();
        let is_open = |index| open.iter().any(|(open, _)| *open == index);
        let chosen = selector.choose(clock::now(), is_open)?;
        selector.on_submit(chosen);
        drop(selector);
        let others = open.len() - 1;
        let place = open.iter().position(|(index, _)| *index == chosen);
        let (index, session) = open.swap_remove(place.expect("only these may be chosen"));
        Some(Picked { index, session, others, asked: None, replicas: self.clone() })
    }

    /// The replica of this number, and no other, if it is connected.
    pub(super) fn pick_again(self: &Arc<Self>, index: usize) -> Option<Picked> {
        let session = self.session(index)?;
        self.selector.lock().on_submit(index);
        Some(Picked { index, session, others: 0, asked: None, replicas: self.clone() })
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

impl Picked {
    /// The replica is asked now.
    pub(super) fn on_asked(&mut self) {
        self.asked = Some(clock::now());
    }

    /// It has answered so.
    pub(super) fn on_result(&mut self, result: &CallResult) {
        let now = clock::now();
        let Some(asked) = self.asked else { return };
        let mut selector = self.replicas.selector.lock();
        match result {
            Ok(reply) => {
                let latency = now.since(asked);
                let (service, queue_delay) = (reply.service, reply.queue_delay);
                selector.on_reply(now, self.index, Answered { latency, service, queue_delay });
            }
            Err(CallError::Rejected(rejected)) => {
                let (stage, delay) = (rejected.stage, rejected.predicted_delay);
                selector.on_refusal(now, self.index, stage, delay);
            }
            Err(CallError::DeadlineExceeded) => return, // as if it was given up
            Err(_) => {}
        }
        self.asked = None;
    }
}

impl Drop for Picked {
    fn drop(&mut self) {
        let mut selector = self.replicas.selector.lock();
        if let Some(asked) = self.asked {
            let now = clock::now();
            selector.on_silence(now, self.index, now.since(asked));
        }
        selector.on_end(self.index);
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
