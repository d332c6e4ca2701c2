//! Connections that are open, of one worker to one replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_tower::clock;
use tokio::sync::oneshot;
use tokio::time::{Instant as TokioInstant, timeout_at};

use super::connect::{ConnectError, Stream};
use super::line::{Connected, Handed, Line};
use super::replica::Replica;
use crate::config::{Connections, Limits, Protocol};
use crate::forward::RequestBody;

/// An HTTP/2 connection is asked for a sign of life so often while requests are open on it, and
/// given up without one.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// What may be on the way to us on one HTTP/2 stream and connection before we take it.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// Open connections.
#[derive(Debug)]
pub(crate) struct Pool {
    config: Connections,
    /// The worker whose pool it is.
    worker: usize,
    /// Who waits for an HTTP/1.1 connection.
    line: Line,
    /// HTTP/1.1 connections without a request, the one used last at the end.
    idle: Mutex<Vec<Idle>>,
    shared: Mutex<Vec<Multiplexed>>,
    /// Held while an HTTP/2 connection is opened, so that many requests open one.
    opening: tokio::sync::Mutex<()>,
    /// When the last attempt to open one failed, and why.
    failed: Mutex<Option<(Instant, ConnectError)>>,
    /// Whether the replica last agreed on HTTP/1.1 although it could have had HTTP/2.
    prefers_http1: AtomicBool,
}

#[derive(Debug)]
struct Idle {
    sender: http1::SendRequest<RequestBody>,
    since: Instant,
}

#[derive(Clone, Debug)]
struct Multiplexed {
    sender: http2::SendRequest<RequestBody>,
    /// Requests that are open on it.
    open: Arc<AtomicU32>,
}

/// What a request needs of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Either version.
    Any,
    /// HTTP/1.1, to switch to another protocol.
    Http1,
    /// HTTP/2 where nothing else was agreed on: it is gRPC.
    Http2,
}

/// A connection for one request.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) sender: Sender,
    /// For how long nothing has happened on it; `None` if it is new.
    pub(crate) idle_for: Option<Duration>,
}

/// What sends a request.
#[derive(Debug)]
pub(crate) enum Sender {
    Http1(http1::SendRequest<RequestBody>),
    Http2(Stream2),
}

/// One request's place on an HTTP/2 connection.
#[derive(Debug)]
pub(crate) struct Stream2 {
    sender: http2::SendRequest<RequestBody>,
    open: Arc<AtomicU32>,
}

impl Drop for Stream2 {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Relaxed);
    }
}

impl Sender {
    pub(crate) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// Sends a request; gives it back if nothing of it was sent.
    pub(crate) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<RequestBody>>> {
        match self {
            Self::Http1(sender) => sender.try_send_request(request).await,
            Self::Http2(stream) => stream.sender.try_send_request(request).await,
        }
    }
}

impl Pool {
    pub(super) fn new(config: Connections, worker: usize) -> Self {
        Self {
            config,
            worker,
            line: Line::default(),
            idle: Mutex::default(),
            shared: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            failed: Mutex::default(),
            prefers_http1: AtomicBool::new(false),
        }
    }

    /// A connection for a request to `replica`, whose pool this is, within `patience`; none that
    /// has been idle if `is_fresh`.
    pub(crate) async fn lease(
        &self,
        replica: &Arc<Replica>,
        wants: Wants,
        is_fresh: bool,
        patience: Duration,
        limits: &Limits,
    ) -> Result<Lease, ConnectError> {
        let until = TokioInstant::now() + patience;
        let agrees = replica.dialer.speaks_tls();
        let is_http1 = match (replica.protocol(), wants) {
            (_, Wants::Http1) | (Protocol::Http1, _) => true,
            (Protocol::Auto, Wants::Any) => !agrees,
            _ => false,
        };
        loop {
            if !is_http1
                && !is_fresh
                && let Some(lease) = self.multiplexed()
            {
                return Ok(lease);
            }
            // Where versions are agreed on, there may be connections of the other one.
            let may_be_http1 = is_http1 || (agrees && replica.protocol() == Protocol::Auto);
            if may_be_http1
                && !is_fresh
                && let Some(lease) = self.idle().await
            {
                return Ok(lease);
            }
            let will_be_http1 = is_http1 || (may_be_http1 && self.prefers_http1.load(Relaxed));
            if !will_be_http1 {
                return self.open(replica, agrees, patience, limits).await;
            }
            let opening =
                Opening { replica: replica.clone(), is_http1, patience, limits: limits.clone() };
            let handed = self.wait_in_line(opening, until).await;
            let Some(Connected { mut sender, is_new }) = handed? else { continue };
            if sender.is_ready() || sender.ready().await.is_ok() {
                let idle_for = if is_new { None } else { Some(Duration::ZERO) };
                return Ok(Lease { sender: Sender::Http1(sender), idle_for });
            }
        }
    }

    /// Waits for a connection of HTTP/1.1, a new one or one whose request has ended.
    async fn wait_in_line(&self, opening: Opening, until: TokioInstant) -> Handed {
        let patience = opening.patience;
        let (told, opens) = self.line.join();
        let mut place = Place { pool: self, told };
        if opens {
            tokio::spawn(opening.run(self.worker));
        }
        match timeout_at(until, &mut place.told).await {
            Ok(Ok(handed)) => handed,
            Ok(Err(_)) => Ok(None),
            Err(_) => Err(ConnectError::TimedOut(patience)),
        }
    }

    /// An idle HTTP/1.1 connection that is still open: the one used last, so that those which are
    /// not needed grow old.
    async fn idle(&self) -> Option<Lease> {
        loop {
            let Idle { mut sender, since } = self.idle.lock().pop()?;
            let idle_for = clock::now().since(since);
            if idle_for > self.config.idle_time {
                self.idle.lock().clear(); // the others are older
                return None;
            }
            if sender.is_ready() || (!sender.is_closed() && sender.ready().await.is_ok()) {
                return Some(Lease { sender: Sender::Http1(sender), idle_for: Some(idle_for) });
            }
        }
    }

    /// A place on an HTTP/2 connection that is open.
    fn multiplexed(&self) -> Option<Lease> {
        let mut shared = self.shared.lock();
        shared.retain(|connection| !connection.sender.is_closed());
        let has_room =
            |connection: &&Multiplexed| connection.open.load(Relaxed) < self.config.streams;
        let connection = shared.iter().find(has_room)?;
        Some(connection.lease(Some(Duration::ZERO)))
    }

    /// A new connection, whose version of HTTP is agreed on or known to be 2.
    async fn open(
        &self,
        replica: &Replica,
        agrees: bool,
        patience: Duration,
        limits: &Limits,
    ) -> Result<Lease, ConnectError> {
        let asked = clock::now();
        let opening = self.opening.lock().await;
        if let Some(lease) = self.multiplexed() {
            return Ok(lease);
        }
        // Who has waited for an attempt that failed does not make one more each.
        if let Some((at, error)) = &*self.failed.lock()
            && *at > asked
        {
            return Err(error.clone());
        }
        let opened = self.open_agreed(replica, agrees, patience, limits).await;
        if let Err(error) = &opened {
            *self.failed.lock() = Some((clock::now(), error.clone()));
        }
        drop(opening);
        opened
    }

    async fn open_agreed(
        &self,
        replica: &Replica,
        agrees: bool,
        patience: Duration,
        limits: &Limits,
    ) -> Result<Lease, ConnectError> {
        let (stream, is_http2) = replica.dialer.dial(false, patience).await?;
        if agrees {
            self.prefers_http1.store(!is_http2, Relaxed);
        }
        if agrees && !is_http2 {
            return if replica.protocol() == Protocol::Http2 {
                Err(ConnectError::Http("the replica does not speak HTTP/2".into()))
            } else {
                let sender = open_http1(stream, limits).await?;
                Ok(Lease { sender: Sender::Http1(sender), idle_for: None })
            };
        }
        let connection = open_http2(stream, limits).await?;
        let lease = connection.lease(None);
        self.shared.lock().push(connection);
        Ok(lease)
    }

    /// Takes a connection back, whose request has ended.
    pub(crate) fn give_back(&self, sender: Sender) {
        let Sender::Http1(sender) = sender else { return };
        self.put(Connected { sender, is_new: false });
    }

    /// Gives a connection to the first who waits for one, or keeps it.
    fn put(&self, connected: Connected) {
        if connected.sender.is_closed() {
            return;
        }
        let Some(Ok(Some(Connected { sender, .. }))) = self.line.hand(Ok(Some(connected))) else {
            return;
        };
        let mut idle = self.idle.lock();
        if idle.len() < self.config.idle {
            idle.push(Idle { sender, since: clock::now() });
        }
    }
}

/// A place in the line. Who leaves it does not take a connection along.
struct Place<'a> {
    pool: &'a Pool,
    told: oneshot::Receiver<Handed>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.told.close();
        if let Ok(Ok(Some(connected))) = self.told.try_recv() {
            self.pool.put(connected);
        }
    }
}

/// Opens connections for those who wait in the line of a replica.
struct Opening {
    replica: Arc<Replica>,
    /// Only HTTP/1.1 will do; else it is agreed on.
    is_http1: bool,
    patience: Duration,
    limits: Limits,
}

impl Opening {
    async fn run(self, worker: usize) {
        let pool = self.replica.pool(worker);
        loop {
            match self.open(pool).await {
                Ok(Some(sender)) => pool.put(Connected { sender, is_new: true }),
                Ok(None) => pool.line.wake_all(),
                // Each who waits has a time of its own.
                Err(ConnectError::TimedOut(_)) => {}
                Err(error) => _ = pool.line.hand(Err(error)),
            }
            if !pool.line.goes_on() {
                return;
            }
        }
    }

    /// A new connection of HTTP/1.1; `None` if the replica agreed on HTTP/2 now.
    async fn open(
        &self,
        pool: &Pool,
    ) -> Result<Option<http1::SendRequest<RequestBody>>, ConnectError> {
        let dialer = &self.replica.dialer;
        let (stream, is_http2) = dialer.dial(self.is_http1, self.patience).await?;
        if is_http2 {
            pool.prefers_http1.store(false, Relaxed);
            let connection = open_http2(stream, &self.limits).await?;
            pool.shared.lock().push(connection);
            return Ok(None);
        }
        open_http1(stream, &self.limits).await.map(Some)
    }
}

impl Multiplexed {
    fn lease(&self, idle_for: Option<Duration>) -> Lease {
        self.open.fetch_add(1, Relaxed);
        let (sender, open) = (self.sender.clone(), self.open.clone());
        Lease { sender: Sender::Http2(Stream2 { sender, open }), idle_for }
    }
}

async fn open_http1(
    stream: Stream,
    limits: &Limits,
) -> Result<http1::SendRequest<RequestBody>, ConnectError> {
    let mut builder = http1::Builder::new();
    builder.max_header_size(limits.head_bytes);
    builder.max_buf_size((limits.head_bytes * 2).max(1 << 17));
    if limits.fields != Limits::default().fields {
        builder.max_headers(limits.fields);
    }
    let (sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| no_http(&error))?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a replica ended");
        }
    });
    Ok(sender)
}

async fn open_http2(stream: Stream, limits: &Limits) -> Result<Multiplexed, ConnectError> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new());
    builder.keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
    builder.initial_stream_window_size(STREAM_WINDOW);
    builder.initial_connection_window_size(CONNECTION_WINDOW);
    builder.max_header_list_size(limits.head_bytes as u32);
    let (sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| no_http(&error))?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a replica ended");
        }
    });
    Ok(Multiplexed { sender, open: Arc::default() })
}

fn no_http(error: &hyper::Error) -> ConnectError {
    ConnectError::Http(error.to_string())
}
