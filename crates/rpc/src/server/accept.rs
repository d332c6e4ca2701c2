//! Accepts connections and hands them to the threads that read and write, in turns.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::net::{keep_alive, listen};

/// How long to wait after the system refused another connection, for lack of descriptors mostly.
const BREATHER: Duration = Duration::from_millis(20);

/// Listens at `address`, of which it gives what it really is. Those who connect wait until
/// [`start`] is called.
pub(super) fn bind(
    address: SocketAddr,
    reactors: &[Handle],
) -> io::Result<(TcpListener, SocketAddr)> {
    let _in_runtime = reactors[0].enter();
    let listener = listen(address)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Runs `serve` for each connection, which may already be gone. Gives the task that accepts.
pub(super) fn start<S, F>(listener: TcpListener, reactors: &[Handle], serve: S) -> JoinHandle<()>
where
    S: Fn(io::Result<TcpStream>) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    reactors[0].spawn(accept(listener, reactors.to_vec(), serve))
}

async fn accept<S, F>(listener: TcpListener, reactors: Vec<Handle>, serve: S)
where
    S: Fn(io::Result<TcpStream>) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    for turn in 0.. {
        let tcp = match listener.accept().await {
            Ok((tcp, _)) => tcp,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(BREATHER).await;
                continue;
            }
        };
        let tcp = keep_alive(&tcp).map(|()| tcp);
        if reactors.len() == 1 {
            reactors[0].spawn(serve(tcp));
            continue;
        }
        // A socket belongs to the reactor that it was registered with, so it moves as a plain one.
        let (tcp, serve) = (tcp.and_then(TcpStream::into_std), serve.clone());
        reactors[turn % reactors.len()]
            .spawn(async move { serve(tcp.and_then(TcpStream::from_std)).await });
    }
}
