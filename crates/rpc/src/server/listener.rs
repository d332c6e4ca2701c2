//! The listener for native clients: TLS, if it is on, and then the connection's driver.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use seawall_control::Instant;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

use super::books::Books;
use super::close::CloseReason;
use super::stats::add;
use super::{Shared, accept, connection};
use crate::clock;
use crate::net::{BouncedStream, Stream};
use crate::tls::Acceptor;

/// Serves whoever connects.
pub(super) fn start(
    shared: Arc<Shared>,
    listener: TcpListener,
    reactors: &[Handle],
    acceptor: Option<Acceptor>,
) {
    _ = accept::start(listener, reactors, move |tcp| {
        add(&shared.counters.accepted, 1);
        serve(tcp, clock::now(), shared.clone(), acceptor.clone())
    });
}

async fn serve(
    tcp: io::Result<TcpStream>,
    opened: Instant,
    shared: Arc<Shared>,
    acceptor: Option<Acceptor>,
) {
    let tcp = match tcp {
        Ok(tcp) => tcp,
        Err(error) => return shared.counters.gone(error),
    };
    shared.watch(&tcp);
    // Before the handshake, so that its work and its memory have the same bound.
    let books = Books::open(&shared);
    let Some(acceptor) = acceptor else {
        let stream = open(tcp, &shared);
        return match books {
            Ok(books) => connection::drive(stream, Vec::new(), opened, books, shared).await,
            Err(reason) => connection::turn_away(stream, &reason, &shared).await,
        };
    };
    let shake = async {
        let books = books?;
        let shaken = acceptor.accept(tcp).await?;
        Ok((books, shaken))
    };
    let reason = match tokio::time::timeout(shared.config.limits.hello_timeout, shake).await {
        Ok(Ok((books, (stream, certificate)))) => {
            return connection::drive(stream, certificate, opened, books, shared).await;
        }
        Ok(Err(reason)) => reason,
        Err(_) => CloseReason::HelloTimeout,
    };
    tracing::warn!(%reason, "closing a connection before its hello");
    shared.counters.closed(&reason);
}

/// A stream without TLS.
fn open(tcp: TcpStream, shared: &Shared) -> Stream {
    let Some(bouncer) = &shared.bouncer else {
        return Stream::plain(tcp, shared.config.receive_timestamps);
    };
    match bouncer.adopt(tcp.as_raw_fd()) {
        Ok(below) => Stream::Bounced(Box::new(BouncedStream::new(tcp, below))),
        Err(error) => {
            tracing::warn!(%error, "the kernel does not answer on a connection");
            Stream::plain(tcp, shared.config.receive_timestamps)
        }
    }
}
