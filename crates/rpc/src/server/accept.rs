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

/// Listens at `address`, and runs `serve` for each connection, which may already be gone. Gives the
/// address it really is, and the task that accepts.
pub(super) fn start<S, F>(
    address: SocketAddr,
    reactors: &[Handle],
    serve: S,
) -> io::Result<(SocketAddr, JoinHandle<()>)>
where
    S: Fn(io::Result<TcpStream>) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let _in_runtime = reactors[0].enter();
    let listener = listen(address)?;
    let address = listener.local_addr()?;
    let accepting = accept(listener, reactors.to_vec(), serve);
    Ok((address, reactors[0].spawn(accepting)))
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
