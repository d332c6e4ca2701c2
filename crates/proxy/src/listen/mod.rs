//! Where clients connect.

mod connection;
mod socket;

pub(crate) use connection::Connection;
pub(crate) use socket::{listen, prepare};

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

use crate::shared::Shared;

/// How long to wait after the system refused another connection, for lack of descriptors mostly.
const BREATHER: Duration = Duration::from_millis(20);

/// Accepts connections until the proxy stops, and hands them to the workers in turns.
pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener, workers: Vec<Handle>) {
    let stop = shared.stop.clone();
    for turn in 0_usize.. {
        let room = shared.room.clone();
        let accepted = async {
            let room = room.acquire_owned().await.expect("the semaphore is never closed");
            (listener.accept().await, room)
        };
        let (accepted, room) = tokio::select! {
            accepted = accepted => accepted,
            () = stop.cancelled() => return,
        };
        let (tcp, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(BREATHER).await;
                continue;
            }
        };
        let worker = turn % workers.len();
        let tracker = shared.tasks.clone();
        let shared = shared.clone();
        if workers.len() == 1 {
            tracker.spawn(async move {
                connection::serve(shared, worker, tcp, peer).await;
                drop(room);
            });
            continue;
        }
        // A socket belongs to the reactor that it was registered with, so it moves as a plain one.
        let tcp = tcp.into_std();
        tracker.spawn_on(
            async move {
                if let Ok(tcp) = tcp.and_then(TcpStream::from_std) {
                    connection::serve(shared, worker, tcp, peer).await;
                }
                drop(room);
            },
            &workers[worker],
        );
    }
}
