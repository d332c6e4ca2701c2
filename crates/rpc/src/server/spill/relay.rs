//! The requests of one client that are at replicas.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use seawall_control::Instant;
use seawall_control::request::{Class, Rejected};
use tokio::task::AbortHandle;

use super::{Permit, Spill};
use crate::client::{CallError, CallResult, Offered};
use crate::clock;
use crate::server::context::Context;
use crate::server::job::{End, Relayed, Reply};
use crate::server::session::Session;
use crate::status::Status;

/// What of one client's may be handed on, and what was. Dropping it gives all of it up.
#[derive(Debug)]
pub(in crate::server) struct Relays {
    spill: Arc<Spill>,
    /// Payloads of calls that may still be refused, by number.
    payloads: HashMap<u64, Bytes>,
    /// Calls at replicas, and their classes.
    calls: HashMap<u64, (Class, AbortHandle)>,
}

/// A call at a replica. However that ends, the client is answered exactly once: dropping it says
/// "cancelled".
#[derive(Debug)]
struct Relay {
    context: Context,
    /// What the client is told if the replica does not serve it either.
    rejected: Rejected,
    session: Option<Arc<Session>>,
    permit: Option<Permit>,
}

impl Relays {
    pub(in crate::server) fn new(spill: Arc<Spill>) -> Self {
        Self { spill, payloads: HashMap::new(), calls: HashMap::new() }
    }

    /// Keeps the payload of a call, which entry has `refused` or let in, if it can be handed on.
    pub(in crate::server) fn keep(
        &mut self,
        id: u64,
        refused: bool,
        payload: impl FnOnce() -> Bytes,
    ) {
        let at = self.spill.at;
        let may_be_handed_on = if refused { at.entry() } else { at.stages() };
        if may_be_handed_on {
            self.payloads.insert(id, payload());
        }
    }

    /// Hands on what was refused among `replies`, all of which the controller knows of, as far as
    /// replicas take it; leaves the others. `count` is told the classes of those that it took.
    pub(in crate::server) fn hand_on(
        &mut self,
        session: &Arc<Session>,
        replies: &mut Vec<Reply>,
        count: impl Fn(Class),
    ) {
        let now = clock::now();
        replies.retain(|reply| {
            let id = reply.context.claims().id;
            if reply.relayed.is_some() {
                self.calls.remove(&id);
                return true;
            }
            let Some(payload) = self.payloads.remove(&id) else { return true };
            let End::Rejected(rejected) = reply.end else { return true };
            let handed = self.spill.hand_on(now, &reply.context, payload);
            let Some((permit, offered)) = handed else { return true };
            let deadline = reply.context.time_left(now).map_or(Instant::NEVER, |left| now + left);
            let relay = Relay {
                context: reply.context.clone(),
                rejected,
                session: Some(session.clone()),
                permit: Some(permit),
            };
            let task = tokio::spawn(relay.run(offered, deadline));
            let class = reply.context.class();
            self.calls.insert(id, (class, task.abort_handle()));
            count(class);
            false
        });
    }

    /// Hands nothing on any more.
    pub(in crate::server) fn stop(&mut self) {
        self.payloads.clear();
    }

    /// Gives a call up, if it is at a replica. It gets its reply all the same.
    pub(in crate::server) fn cancel(&self, id: u64) {
        if let Some((_, call)) = self.calls.get(&id) {
            call.abort();
        }
    }

    /// True if a call of this number is at a replica.
    pub(in crate::server) fn contains(&self, id: u64) -> bool {
        self.calls.contains_key(&id)
    }

    /// The classes of calls at replicas.
    pub(in crate::server) fn classes(&self) -> impl Iterator<Item = Class> {
        self.calls.values().map(|(class, _)| *class)
    }

    /// Calls at replicas whose replies were not handed out.
    pub(in crate::server) fn len(&self) -> u32 {
        self.calls.len() as u32
    }
}

impl Drop for Relays {
    fn drop(&mut self) {
        self.calls.values().for_each(|(_, call)| call.abort());
    }
}

impl Relay {
    async fn run(self, offered: Offered, deadline: Instant) {
        let result = offered.result(deadline).await;
        self.end(result);
    }

    fn end(mut self, result: CallResult) {
        let mut reply = Reply::unserved(self.context.clone(), End::Cancelled);
        let (end, relayed) = match result {
            Ok(served) => {
                reply.service = served.service;
                (End::Done(served.payload), Relayed::Served)
            }
            Err(CallError::Failed { code, message }) => {
                (End::Failed { code, message }, Relayed::Served)
            }
            Err(CallError::Rejected(_) | CallError::NotSent(_)) => {
                (End::Rejected(self.rejected), Relayed::Refused)
            }
            Err(CallError::Cancelled | CallError::DeadlineExceeded) => {
                (End::Cancelled, Relayed::Lost)
            }
            Err(CallError::ConnectionLost(reason)) => {
                // It may have run: to call that a refusal would let the client send it again.
                let message = format!("the replica that was to serve it was lost: {reason}");
                (End::Failed { code: Status::UNAVAILABLE, message }, Relayed::Lost)
            }
        };
        (reply.end, reply.relayed) = (end, Some(relayed));
        self.answer(reply);
    }

    fn answer(&mut self, reply: Reply) {
        drop(self.permit.take()); // before anybody is told
        if let Some(session) = self.session.take() {
            session.reply(reply);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if self.session.is_some() {
            let mut reply = Reply::unserved(self.context.clone(), End::Cancelled);
            reply.relayed = Some(Relayed::Lost);
            self.answer(reply);
        }
    }
}
