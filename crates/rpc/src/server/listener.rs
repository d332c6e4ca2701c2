//! The listener for native clients: TLS, if it is on, and then the connection's driver.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use seawall_control::Instant;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use super::close::CloseReason;
use super::stats::add;
use super::{Shared, accept, connection};
use crate::clock;
use crate::net::Stream;
use crate::tls::Acceptor;

/// Listens at the configured address, and gives the one it really is.
pub(super) fn start(
    shared: Arc<Shared>,
    reactors: &[Handle],
    acceptor: Option<Acceptor>,
) -> io::Result<SocketAddr> {
    let address = shared.config.listen;
    let (address, _accepting) = accept::start(address, reactors, move |tcp| {
        add(&shared.counters.accepted, 1);
        serve(tcp, clock::now(), shared.clone(), acceptor.clone())
    })?;
    Ok(address)
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
