//! One client's connection: TLS, the version of HTTP, and requests until it ends.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use seawall_tower::server::certificate_names;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::socket::{Stream, prepare};
use crate::config::Limits;
use crate::forward;
use crate::shared::Shared;
use crate::tls::H2;

/// Between two looks at a connection that has sent `P` or `PR`, which begins a method as well as
/// the preface of HTTP/2.
const LOOK: Duration = Duration::from_millis(1);

/// HTTP/2 connections are asked for a sign of life so often, and closed without one.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// What all requests of a connection have in common.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    /// Number of the thread that runs it.
    pub(crate) worker: usize,
    /// The client's address, as a header field.
    pub(crate) client: HeaderValue,
    /// Whether the client speaks TLS.
    pub(crate) is_tls: bool,
    /// The names in the certificate that it has shown, if one was asked for.
    pub(crate) certificate: Vec<String>,
}

/// Serves a client until it leaves, or the proxy stops.
pub(super) async fn serve(shared: Arc<Shared>, worker: usize, tcp: TcpStream, peer: SocketAddr) {
    let state = shared.state.load_full();
    let (patience, stall) = (state.config.timeouts.head, state.config.timeouts.stall);
    let stop = shared.stop.clone();
    let opening = timeout(patience, open(tcp, state.acceptor.as_ref(), stall));
    let opened = tokio::select! {
        opened = opening => opened,
        () = stop.cancelled() => return,
    };
    let Opened { stream, is_http2, is_tls, certificate } = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a connection did not open");
            return;
        }
        Err(_) => return,
    };
    let client = HeaderValue::from_str(&peer.ip().to_canonical().to_string());
    let client = client.expect("an address is plain text");
    let limits = state.config.limits.clone();
    drop(state);
    let connection = Arc::new(Connection { shared, worker, client, is_tls, certificate });
    let service = service_fn(move |request| forward::handle(connection.clone(), request));
    let io = TokioIo::new(stream);
    // Both arms: what was begun is finished after `stop`, and nothing new is accepted.
    let ended = if is_http2 {
        let mut serving = pin!(http2_builder(&limits).serve_connection(io, service));
        tokio::select! {
            ended = serving.as_mut() => ended,
            () = stop.cancelled() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        }
    } else {
        let builder = http1_builder(&limits, patience);
        let mut serving = pin!(builder.serve_connection(io, service).with_upgrades());
        tokio::select! {
            ended = serving.as_mut() => ended,
            () = stop.cancelled() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended");
    }
}

fn http1_builder(limits: &Limits, patience: Duration) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(patience);
    builder.max_header_size(limits.head_bytes);
    builder.max_buf_size((limits.head_bytes * 2).max(1 << 17));
    if limits.fields != Limits::default().fields {
        builder.max_headers(limits.fields); // takes memory where the default takes none
    }
    builder
}

fn http2_builder(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new());
    builder.keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
    builder.max_header_list_size(limits.head_bytes as u32);
    builder.max_concurrent_streams(limits.streams);
    builder
}

/// A connection on which HTTP can be spoken.
struct Opened {
    stream: Stream,
    is_http2: bool,
    is_tls: bool,
    /// Names in the client's certificate.
    certificate: Vec<String>,
}

/// Shakes hands where TLS is spoken, and finds out which version of HTTP is.
async fn open(
    tcp: TcpStream,
    acceptor: Option<&tokio_rustls::TlsAcceptor>,
    stall: Duration,
) -> io::Result<Opened> {
    prepare(&tcp)?;
    if let Some(acceptor) = acceptor {
        let tls = acceptor.accept(tcp).await?;
        let session = tls.get_ref().1;
        let is_http2 = session.alpn_protocol() == Some(H2);
        let shown = session.peer_certificates().unwrap_or_default();
        let certificate = shown.first().map_or_else(Vec::new, |own| certificate_names(own));
        return Ok(Opened { stream: Stream::tls(tls, stall), is_http2, is_tls: true, certificate });
    }
    let is_http2 = begins_as_http2(&tcp).await?;
    let (stream, certificate) = (Stream::tcp(tcp, stall), Vec::new());
    Ok(Opened { stream, is_http2, is_tls: false, certificate })
}

/// Whether the first bytes are those of HTTP/2 with prior knowledge (RFC 9113 §3.4). They are
/// looked at where they are, so that nobody has to hand them on.
async fn begins_as_http2(tcp: &TcpStream) -> io::Result<bool> {
    const PREFACE: &[u8] = b"PRI"; // no other method begins so
    let mut first = [0; PREFACE.len()];
    loop {
        let seen = tcp.peek(&mut first).await?;
        if seen == PREFACE.len() || seen == 0 || first[..seen] != PREFACE[..seen] {
            return Ok(first == *PREFACE);
        }
        sleep(LOOK).await;
    }
}
