//! A call, as the caller sees it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use seawall_control::Instant;
use seawall_control::controller::DropReason;
use seawall_control::request::{Priority, Rejected, Tenant};
use thiserror::Error;
use tokio::sync::oneshot;

use super::session::Session;
use crate::clock;

/// What is asked of the server.
#[derive(Clone, Debug)]
pub struct Request {
    /// Number of the method.
    pub method: u16,
    /// The argument; may be empty.
    pub payload: Bytes,
    /// Business importance, if the server believes it.
    pub priority: Priority,
    /// False if no stage may refuse it, if the server believes it.
    pub droppable: bool,
    /// After this long the reply is worthless: the server does not start on it in vain.
    pub deadline: Option<Duration>,
    /// Queueing delay that the request may meet at the server.
    pub budget: Option<Duration>,
    /// 0 for the first try. A client of several replicas counts on from here.
    pub attempt: u8,
    /// Whom the work is charged to, if the server believes it and does not know better.
    pub tenant: Tenant,
    /// When the job began that the request is a part of, at its first service, in nanoseconds of
    /// the realtime clock; 0 if it begins with this request.
    pub start_time_ns: u64,
    /// Services downstream that should be given more CPU.
    pub upscale_hops: u16,
    /// The path through the service graph that the job takes; 0 if unknown.
    pub path: u16,
    /// Execution at this service and those before it, without waits for connections and replies.
    pub upstream_exec: Duration,
    /// It may run twice without harm: it is sent to another replica even when nobody knows whether
    /// the first one has run it. What was refused has not run, and needs no such leave.
    pub idempotent: bool,
}

impl Request {
    /// A call of `method` with default importance, no deadline and no budget.
    pub fn new(method: u16, payload: impl Into<Bytes>) -> Self {
        Self {
            method,
            payload: payload.into(),
            priority: Priority::default(),
            droppable: true,
            deadline: None,
            budget: None,
            attempt: 0,
            tenant: Tenant::default(),
            start_time_ns: 0,
            upscale_hops: 0,
            path: 0,
            upstream_exec: Duration::ZERO,
            idempotent: false,
        }
    }

    /// The same request with a deadline.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The same request, which may run twice.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }
}

/// A successful reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The result.
    pub payload: Bytes,
    /// Time that the handler took, without its waits at stages: for locks, and for a worker after
    /// each.
    pub service: Duration,
    /// The server's queueing delay when the reply left.
    pub queue_delay: Duration,
}

impl Reply {
    pub(super) fn new(payload: Bytes, service: Duration, queue_delay: Duration) -> Self {
        Self { payload, service, queue_delay }
    }
}

/// Why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server refused it, without effect: another replica may take it at once.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// It was never sent, and so had no effect: another session may take it at once.
    #[error("the request was not sent: {0}")]
    NotSent(#[from] Unsent),
    /// The server gave it up, because the caller did or because its deadline had passed.
    #[error("the request was cancelled")]
    Cancelled,
    /// The application failed it.
    #[error("error {code}: {message}")]
    Failed {
        /// What went wrong: see [`Status`](crate::Status).
        code: u16,
        /// In words.
        message: String,
    },
    /// It was sent, and the deadline passed without a reply; whether it had an effect is unknown.
    #[error("no reply before the deadline")]
    DeadlineExceeded,
    /// It was sent, and the connection ended without a reply; whether it had an effect is unknown.
    #[error("the connection was lost: {0}")]
    ConnectionLost(String),
}

/// Why a request was not sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unsent {
    /// It waited for leave to be sent, and was given up.
    #[error("{}", reason(*.0))]
    Dropped(DropReason),
    /// There is no session to send it on: none could be opened, or it ended while the request
    /// waited, or the server asked to leave.
    #[error("{0}")]
    Disconnected(String),
    /// The payload is larger than the server reads.
    #[error("a payload of {len} bytes; the server reads up to {max}")]
    TooLarge {
        /// Bytes of the payload.
        len: usize,
        /// Bytes that the server allows.
        max: u32,
    },
}

impl Unsent {
    pub(super) fn disconnected(why: impl Into<String>) -> CallError {
        Self::Disconnected(why.into()).into()
    }

    /// It was not even queued, because it would have waited too long for leave to be sent.
    pub(super) fn no_credit() -> CallError {
        Self::Dropped(DropReason::Expired).into()
    }
}

fn reason(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Expired => "it could not leave in time",
        DropReason::QueueFull => "too many wait for credits",
        _ => "the server would refuse it",
    }
}

/// What a caller gets.
pub type CallResult = Result<Reply, CallError>;

/// A call under way. Dropping it cancels the call.
#[derive(Debug)]
pub struct CallFuture {
    session: Session,
    id: Option<u64>,
    result: oneshot::Receiver<CallResult>,
}

impl CallFuture {
    pub(super) fn new(session: Session, id: u64, result: oneshot::Receiver<CallResult>) -> Self {
        Self { session, id: Some(id), result }
    }

    /// Waits for the result, but no longer than until `deadline`.
    pub(super) async fn until(mut self, deadline: Instant) -> CallResult {
        if deadline == Instant::NEVER {
            return self.await;
        }
        match tokio::time::timeout_at(clock::to_tokio(deadline), &mut self).await {
            Ok(result) => result,
            Err(_) if self.cancel() => Err(Unsent::Dropped(DropReason::Expired).into()),
            Err(_) => Err(CallError::DeadlineExceeded),
        }
    }

    /// Waits for the result for `patience`, and then on unless the request has still not left: it
    /// is given up then.
    ///
    /// Tokio's timers make it a millisecond at least: whoever must know sooner asks for the
    /// predicted wait.
    pub(super) async fn unless_held(mut self, patience: Duration, deadline: Instant) -> CallResult {
        let patience = (clock::now() + patience).min(deadline);
        if let Ok(result) = tokio::time::timeout_at(clock::to_tokio(patience), &mut self).await {
            return result;
        }
        if self.id.is_some_and(|id| self.session.withdraw(id)) {
            self.id = None;
            return Err(Unsent::no_credit());
        }
        self.until(deadline).await
    }

    /// Gives the call up; true if it was not sent, and never will be.
    fn cancel(&mut self) -> bool {
        self.id.take().is_some_and(|id| self.session.cancel(id))
    }
}

impl Future for CallFuture {
    type Output = CallResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallResult> {
        let result = std::task::ready!(Pin::new(&mut self.result).poll(cx));
        self.id = None;
        // Only a cancelled call goes without a result.
        Poll::Ready(result.unwrap_or(Err(CallError::Cancelled)))
    }
}

impl Drop for CallFuture {
    fn drop(&mut self) {
        self.cancel();
    }
}
