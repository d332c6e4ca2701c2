//! Accepts connections and hands them to the threads that read and write, in turns.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seawall_control::Instant;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

use super::Shared;
use super::close::CloseReason;
use super::connection;
use super::stats::add;
use crate::clock;
use crate::net::{Stream, keep_alive, listen};
use crate::tls::Acceptor;

/// How long to wait after the system refused another connection, for lack of descriptors mostly.
const BREATHER: Duration = Duration::from_millis(20);

/// Listens at the configured address, and gives the one it really is.
pub(super) fn start(
    shared: Arc<Shared>,
    reactors: &[Handle],
    acceptor: Option<Acceptor>,
) -> io::Result<SocketAddr> {
    let _in_runtime = reactors[0].enter();
    let listener = listen(shared.config.listen)?;
    let address = listener.local_addr()?;
    let others = reactors.to_vec();
    reactors[0].spawn(accept(listener, shared, others, acceptor));
    Ok(address)
}

async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    reactors: Vec<Handle>,
    acceptor: Option<Acceptor>,
) {
    for turn in 0.. {
        let tcp = match listener.accept().await {
            Ok((tcp, _)) => tcp,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(BREATHER).await;
                continue;
            }
        };
        add(&shared.counters.accepted, 1);
        let opened = clock::now();
        if let Err(error) = keep_alive(&tcp) {
            gone(&shared, error);
            continue;
        }
        let (shared, acceptor) = (shared.clone(), acceptor.clone());
        if reactors.len() == 1 {
            reactors[0].spawn(serve(tcp, opened, shared, acceptor));
            continue;
        }
        // A socket belongs to the reactor that it was registered with, so it moves as a plain one.
        let tcp = tcp.into_std();
        reactors[turn % reactors.len()].spawn(async move {
            match tcp.and_then(TcpStream::from_std) {
                Ok(tcp) => serve(tcp, opened, shared, acceptor).await,
                Err(error) => gone(&shared, error),
            }
        });
    }
}

async fn serve(tcp: TcpStream, opened: Instant, shared: Arc<Shared>, acceptor: Option<Acceptor>) {
    let Some(acceptor) = acceptor else {
        let stream = Stream::plain(tcp, shared.config.receive_timestamps);
        return connection::drive(stream, Vec::new(), opened, shared).await;
    };
    let shaken = tokio::time::timeout(shared.config.limits.hello_timeout, acceptor.accept(tcp));
    let reason = match shaken.await {
        Ok(Ok((stream, certificate))) => {
            return connection::drive(stream, certificate, opened, shared).await;
        }
        Ok(Err(error)) => CloseReason::Io(error),
        Err(_) => CloseReason::HelloTimeout,
    };
    tracing::warn!(%reason, "a TLS handshake failed");
    shared.counters.closed(&reason);
}

/// Counts a connection that ended before anybody could look at it.
fn gone(shared: &Shared, error: io::Error) {
    tracing::debug!(%error, "a connection was gone before it began");
    shared.counters.closed(&CloseReason::Io(error));
}
