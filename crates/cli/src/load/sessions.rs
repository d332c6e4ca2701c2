//! Many sessions at once.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use seawall_rpc::{ClientConfig, Session};

/// Connections under way at the same time: enough to be quick, few enough for any server's backlog.
const AT_ONCE: usize = 256;

/// Opens `count` sessions with `servers` in turns.
///
/// # Errors
///
/// Why a session could not be opened.
pub(super) async fn open(
    servers: &[SocketAddr],
    count: usize,
    config: &ClientConfig,
) -> Result<Vec<Session>> {
    let mut sessions = Vec::with_capacity(count);
    while sessions.len() < count {
        let batch: Vec<_> = (sessions.len()..count.min(sessions.len() + AT_ONCE))
            .map(|index| {
                let (address, config) = (servers[index % servers.len()], config.clone());
                tokio::spawn(async move { (address, Session::connect(address, &config).await) })
            })
            .collect();
        for connecting in batch {
            let (address, session) = connecting.await.context("connecting was given up")?;
            let opened = sessions.len();
            sessions
                .push(session.with_context(|| {
                    format!("session {} of {count} with {address}", opened + 1)
                })?);
        }
    }
    Ok(sessions)
}
