//! Connections that have switched to another protocol, such as WebSocket.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_util::task::TaskTracker;

/// Copies bytes both ways, once both sides have switched, until either side closes or the proxy
/// stops.
pub(super) fn start(tasks: &TaskTracker, client: OnUpgrade, upstream: OnUpgrade) {
    tasks.spawn(async move {
        let (client, upstream) = match tokio::try_join!(client, upstream) {
            Ok(both) => both,
            Err(error) => {
                tracing::debug!(%error, "a connection did not switch");
                return;
            }
        };
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut upstream).await {
            tracing::debug!(%error, "a connection that had switched broke");
        }
    });
}
