//! Accepts memcached's clients, and hands them to the threads that read and write, in turns.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seawall_rpc::Guests;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use super::{Shared, connection};

/// Connections that may wait to be accepted, as at the native listener.
const BACKLOG: u32 = 16_384;

/// How long to wait after the system refused another connection, for lack of descriptors mostly.
const BREATHER: Duration = Duration::from_millis(20);

/// A listener at work.
#[derive(Debug)]
pub(in crate::server) struct Listener {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Listener {
    /// Listens at `address` for guests of a server.
    pub(in crate::server) fn start(
        address: SocketAddr,
        guests: Guests,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        let reactor = guests.reactors()[0].clone();
        let _in_runtime = reactor.enter();
        let listener = listen(address)?;
        let address = listener.local_addr()?;
        let accepting = reactor.spawn(accept(listener, guests, shared));
        Ok(Self { address, accepting })
    }

    /// Where it listens.
    pub(in crate::server) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections. Those that stand are not touched.
    pub(in crate::server) fn stop(&self) {
        self.accepting.abort();
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, guests: Guests, shared: Arc<Shared>) {
    for turn in 0.. {
        let tcp = match listener.accept().await {
            Ok((tcp, _)) => tcp,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(BREATHER).await;
                continue;
            }
        };
        // A socket belongs to the reactor that it was registered with, so it moves as a plain one.
        let Ok(tcp) = tcp.into_std() else { continue };
        let reactors = guests.reactors();
        let (guests, shared) = (guests.clone(), shared.clone());
        reactors[turn % reactors.len()].spawn(async move {
            let Ok(tcp) = TcpStream::from_std(tcp) else { return };
            match guests.open_with(tcp) {
                Ok(guest) => connection::drive(guest, shared).await,
                Err(tcp) => connection::turn_away(tcp).await,
            }
        });
    }
}
