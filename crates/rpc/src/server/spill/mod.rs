//! Spill-over: what this server refuses and a replica may serve (Svalinn §3.3).
//!
//! ```text
//!   client ── call ──► this server ── refuses ──► replica that gives credit for it
//!     ▲                    │    ▲                     │
//!     └──── one reply ─────┘    └─── its reply ───────┘    refused there, too: the first refusal
//! ```
//!
//! The controller is told of the refusal as of any other, and its credit is free at once: the
//! request holds nothing here any more but its payload's copy. In the client's own count it stays
//! outstanding until its reply, so that no client has more at replicas than its window.

mod config;
mod relay;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use seawall_control::Instant;

pub use config::{SpillAt, SpillConfig, SpillTls};
pub(super) use relay::Relays;

use super::context::Context;
use crate::client::{Client, Offered, Request};
use crate::tls::{Connector, TlsError};

/// The replicas that one server hands refused requests to.
#[derive(Debug)]
pub(super) struct Spill {
    client: Client,
    at: SpillAt,
    outstanding: AtomicU32,
    outstanding_max: u32,
}

/// Leave for one request to be at a replica; given back when it is dropped.
#[derive(Debug)]
struct Permit(Arc<Spill>);

impl Spill {
    /// The replicas of `config`, if it names any, none of which is connected to yet.
    ///
    /// # Errors
    ///
    /// Certificates or keys for them cannot be used.
    pub(super) fn new(config: &SpillConfig, rtt: Duration) -> Result<Option<Arc<Self>>, TlsError> {
        if config.replicas.is_empty() {
            return Ok(None);
        }
        let client = config.client(rtt);
        client.tls.as_ref().map(Connector::new).transpose()?;
        Ok(Some(Arc::new(Self {
            client: Client::new(config.replicas.iter().copied(), client),
            at: config.at,
            outstanding: AtomicU32::new(0),
            outstanding_max: config.outstanding,
        })))
    }

    /// Begins to connect to the replicas, on the runtime of the caller.
    pub(super) fn connect(&self) {
        self.client.sessions();
    }

    /// Replicas that are connected.
    pub(super) fn connected(&self) -> usize {
        self.client.connected()
    }

    /// Requests that are at replicas.
    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding.load(Relaxed)
    }

    /// Hands a refused request with this payload to a replica that lets it leave at once or soon,
    /// unless it has nothing left or too many are at replicas already.
    fn hand_on(
        self: &Arc<Self>,
        now: Instant,
        context: &Context,
        payload: Bytes,
    ) -> Option<(Permit, Offered)> {
        let request = request(now, context, payload)?;
        let permit = self.permit()?;
        Some((permit, self.client.offer(&request)?))
    }

    fn permit(self: &Arc<Self>) -> Option<Permit> {
        let more = |count: u32| (count < self.outstanding_max).then_some(count + 1);
        let reserved = self.outstanding.fetch_update(Relaxed, Relaxed, more);
        reserved.is_ok().then(|| Permit(self.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.outstanding.fetch_sub(1, Relaxed);
    }
}

/// The request as the replica gets it: with what it has left, and with its sender's claims as far
/// as they are believed here.
///
/// The budget that this server gave it is of this server's waits and stays here; the replica gives
/// its own.
fn request(now: Instant, context: &Context, payload: Bytes) -> Option<Request> {
    let claims = context.claims();
    let deadline = context.time_left(now);
    let budget = claims.budget.map(|budget| budget.saturating_sub(context.charged()));
    if deadline == Some(Duration::ZERO) || budget == Some(Duration::ZERO) {
        return None;
    }
    Some(Request {
        priority: claims.priority,
        droppable: claims.droppable,
        deadline,
        budget,
        attempt: claims.attempt.saturating_add(1),
        tenant: claims.tenant,
        // When its client sent it, if nobody said when its job began: not when it was handed on.
        start_time_ns: if claims.start_time_ns > 0 {
            claims.start_time_ns
        } else {
            claims.sent_at_ns
        },
        upscale_hops: claims.upscale_hops,
        path: claims.path,
        upstream_exec: claims.upstream_exec,
        ..Request::new(claims.method, payload)
    })
}
