//! Connections that are open, of one worker to one replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_tower::clock;

use super::connect::{ConnectError, Stream};
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
    /// HTTP/1.1 connections without a request, the one used last at the end.
    idle: Mutex<Vec<Idle>>,
    shared: Mutex<Vec<Multiplexed>>,
    /// Held while an HTTP/2 connection is opened, so that many requests open one.
    opening: tokio::sync::Mutex<()>,
    /// When the last attempt to open one failed, in nanoseconds.
    failed_at: AtomicU64,
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
    pub(super) fn new(config: Connections) -> Self {
        Self {
            config,
            idle: Mutex::default(),
            shared: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            failed_at: AtomicU64::new(0),
            prefers_http1: AtomicBool::new(false),
        }
    }

    /// A connection for a request to `replica`, whose pool this is; a new one if `is_fresh`.
    pub(crate) async fn lease(
        &self,
        replica: &Replica,
        wants: Wants,
        is_fresh: bool,
        patience: Duration,
        limits: &Limits,
    ) -> Result<Lease, ConnectError> {
        let agrees = replica.dialer.speaks_tls();
        let is_http1 = match (replica.protocol(), wants) {
            (_, Wants::Http1) | (Protocol::Http1, _) => true,
            (Protocol::Auto, Wants::Any) => !agrees,
            _ => false,
        };
        if is_http1 {
            let idle = if is_fresh { None } else { self.idle().await };
            if let Some(lease) = idle {
                return Ok(lease);
            }
            let (stream, _) = replica.dialer.dial(true, patience).await?;
            return open_http1(stream, limits).await;
        }
        if !is_fresh {
            if let Some(lease) = self.multiplexed() {
                return Ok(lease);
            }
            // Where versions are agreed on, there may be connections of the other one.
            if agrees
                && replica.protocol() == Protocol::Auto
                && let Some(lease) = self.idle().await
            {
                return Ok(lease);
            }
        }
        self.open(replica, agrees, patience, limits).await
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
        if agrees && self.prefers_http1.load(Relaxed) {
            return self.open_agreed(replica, agrees, patience, limits).await;
        }
        let asked = clock::now();
        let opening = self.opening.lock().await;
        if let Some(lease) = self.multiplexed() {
            return Ok(lease);
        }
        // Who has waited for an attempt that failed does not make one more each.
        if self.failed_at.load(Relaxed) > asked.as_nanos() {
            return Err(ConnectError::Failed("the last attempt failed just now".into()));
        }
        let opened = self.open_agreed(replica, agrees, patience, limits).await;
        if opened.is_err() {
            self.failed_at.store(clock::now().as_nanos(), Relaxed);
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
                open_http1(stream, limits).await
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
        let mut idle = self.idle.lock();
        if !sender.is_closed() && idle.len() < self.config.idle {
            idle.push(Idle { sender, since: clock::now() });
        }
    }
}

impl Multiplexed {
    fn lease(&self, idle_for: Option<Duration>) -> Lease {
        self.open.fetch_add(1, Relaxed);
        let (sender, open) = (self.sender.clone(), self.open.clone());
        Lease { sender: Sender::Http2(Stream2 { sender, open }), idle_for }
    }
}

async fn open_http1(stream: Stream, limits: &Limits) -> Result<Lease, ConnectError> {
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
    Ok(Lease { sender: Sender::Http1(sender), idle_for: None })
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
