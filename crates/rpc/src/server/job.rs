//! One call on the run queue, from its first poll to its one reply.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seawall_control::Instant;
use seawall_control::controller::{Outcome, SessionId};
use seawall_control::request::{Rejected, Stage};
use seawall_control::wire;

use super::admission::Admission;
use super::context::Context;
use super::session::Session;
use crate::clock;
use crate::status::Status;

/// A call that was admitted. However it ends, it is answered exactly once: dropping it says
/// "cancelled", or that it was refused because the workers stand still.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) context: Context,
    session_id: SessionId,
    session: Option<Arc<Session>>,
}

/// The begin of a handler.
#[derive(Clone, Copy)]
struct Started {
    at: Instant,
    /// What the request had waited until then.
    charged: Duration,
}

/// The terminal reply of one call.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) context: Context,
    pub(super) end: End,
    /// From the start of the handler to its end, without its waits at stages.
    pub(super) service: Duration,
    /// What of it a worker was kept for.
    pub(super) worked: Duration,
    /// The handler has answered, and nobody before it.
    pub(super) handled: bool,
    /// It was refused here and handed to a replica, of which the controller knows already.
    pub(super) relayed: Option<Relayed>,
}

/// What a replica made of a call that was refused here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relayed {
    /// It ran it.
    Served,
    /// It did not: the refusal stands.
    Refused,
    /// Nobody knows, or wants to know any more.
    Lost,
}

/// How a call ended.
#[derive(Debug)]
pub(super) enum End {
    /// With a result.
    Done(Bytes),
    /// With the application's error.
    Failed {
        /// What went wrong.
        code: u16,
        /// In words.
        message: String,
    },
    /// A stage refused it.
    Rejected(Rejected),
    /// Nobody wants it any more.
    Cancelled,
}

impl Call {
    pub(super) fn new(context: Context, session: Arc<Session>) -> Self {
        Self { context, session_id: session.id, session: Some(session) }
    }

    fn end(mut self, end: End, handled: bool, started: Started, now: Instant) {
        if matches!(end, End::Rejected(_)) {
            self.context.set_refused();
        }
        let session = self.session.take();
        if let Some(session) = session.filter(|_| self.context.may_answer()) {
            // Budgets are for waits, which must not be taken for service (Protego §3.2). Waits of
            // branches that run at once may be longer than the handler.
            let waited = self.context.charged().saturating_sub(started.charged);
            let service = now.since(started.at).saturating_sub(waited);
            let worked = self.context.worked(now);
            let context = self.context.clone();
            session.reply(Reply { context, end, service, worked, handled, relayed: None });
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        if !self.context.may_answer() {
            return;
        }
        let end = if let Some(rejected) = self.context.outright_refusal() {
            self.context.set_refused();
            End::Rejected(rejected)
        } else if std::thread::panicking() {
            let message = "the handler panicked".into();
            End::Failed { code: Status::INTERNAL, message }
        } else {
            End::Cancelled
        };
        session.reply(Reply::unserved(self.context.clone(), end));
    }
}

/// Runs a handler, unless the call waited too long to be worth it.
pub(super) async fn serve<H>(call: Call, admission: Arc<Admission>, handler: H)
where
    H: Future<Output = Result<Bytes, Status>>,
{
    // The first poll: the request has just left the run queue, and its wait there is charged.
    let started = Started { at: call.context.polled_at(), charged: call.context.charged() };
    if let Err(rejected) = admission.dequeue(started.at, call.session_id, &call.context) {
        return call.end(End::Rejected(rejected), false, started, started.at);
    }
    let result = handler.await;
    let end = match result {
        Ok(payload) => End::Done(payload),
        Err(Status::Rejected(rejected)) => End::Rejected(rejected),
        Err(Status::Error { code, message }) => End::Failed { code, message },
    };
    call.end(end, true, started, clock::now());
}

impl Reply {
    /// The reply of a call whose handler did not run to its end.
    pub(super) fn unserved(context: Context, end: End) -> Self {
        let (service, worked) = (Duration::ZERO, Duration::ZERO);
        Self { context, end, service, worked, handled: false, relayed: None }
    }

    /// True if a stage refused it.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.end, End::Rejected(_))
    }

    /// What the controller is told.
    pub(super) fn outcome(&self) -> Outcome {
        match &self.end {
            End::Done(_) | End::Failed { .. } => Outcome::Done,
            End::Rejected(rejected) => Outcome::Refused(rejected.stage),
            End::Cancelled => Outcome::Cancelled,
        }
    }

    /// The frame, but for what is the same in all frames of one write.
    pub(super) fn frame(self) -> (wire::Response, Bytes) {
        let claims = self.context.claims();
        let mut frame = wire::Response::new(wire::ResponseOp::Reply);
        frame.id = claims.id;
        frame.sent_at_ns = claims.sent_at_ns;
        frame.service = self.service;
        let body = match self.end {
            End::Done(payload) => payload,
            End::Failed { code, message } => {
                frame.status = wire::Status::Error;
                frame.stage = Stage::HANDLER;
                Status::encode_error(code, &message)
            }
            End::Rejected(rejected) => {
                frame.status = wire::Status::Rejected;
                frame.stage = rejected.stage;
                frame.predicted_delay = rejected.predicted_delay;
                frame.retry_after = rejected.retry_after;
                Bytes::new()
            }
            End::Cancelled => {
                frame.status = wire::Status::Cancelled;
                Bytes::new()
            }
        };
        frame.body_len = body.len() as u32;
        (frame, body)
    }
}
