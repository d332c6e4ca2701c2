//! Bodies, which pass through as they come: nothing is gathered, and who is slow slows the other
//! side down.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use seawall_control::Instant;
use seawall_tower::client::{Replay, ReplayError};
use seawall_tower::clock;
use seawall_tower::headers::GRPC_STATUS;
use tokio::time::{Sleep, sleep};

use super::exchange::Exchange;
use super::refusal;

/// What goes to a client.
#[derive(Debug)]
pub(crate) struct Body(Kind);

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are the large one")]
enum Kind {
    Empty,
    Text(Bytes),
    Upstream { incoming: Incoming, exchange: Option<Exchange> },
}

impl Body {
    pub(super) fn empty() -> Self {
        Self(Kind::Empty)
    }

    pub(super) fn text(text: Bytes) -> Self {
        Self(Kind::Text(text))
    }

    /// What an upstream sends; `exchange` is told how it ends.
    pub(super) fn upstream(incoming: Incoming, mut exchange: Exchange) -> Self {
        if incoming.is_end_stream() {
            exchange.finish();
            return Self(Kind::Empty);
        }
        Self(Kind::Upstream { incoming, exchange: Some(exchange) })
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.get_mut().0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Text(text) if text.is_empty() => Poll::Ready(None),
            Kind::Text(text) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(text))))),
            Kind::Upstream { incoming, exchange } => {
                let mut frame = std::task::ready!(Pin::new(&mut *incoming).poll_frame(cx));
                if let (Some(Ok(frame)), Some(exchange)) = (&mut frame, &mut *exchange)
                    && let Some(trailers) = frame.trailers_mut()
                    && trailers.contains_key(GRPC_STATUS)
                {
                    if let Some(end) = refusal::end_of_grpc(trailers) {
                        exchange.will_end(end);
                    }
                    exchange.tell(trailers);
                }
                match &frame {
                    Some(Err(_)) => {
                        if let Some(mut exchange) = exchange.take() {
                            exchange.break_off();
                        }
                    }
                    // What has ended is told at once, and not when the client has taken it.
                    Some(Ok(_)) if !incoming.is_end_stream() => {}
                    _ => {
                        if let Some(mut exchange) = exchange.take() {
                            exchange.finish();
                        }
                    }
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Text(text) => text.is_empty(),
            Kind::Upstream { incoming, .. } => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Text(text) => SizeHint::with_exact(text.len() as u64),
            Kind::Upstream { incoming, .. } => incoming.size_hint(),
        }
    }
}

/// What goes to an upstream.
#[derive(Debug)]
pub(crate) struct RequestBody(RequestKind);

#[derive(Debug)]
enum RequestKind {
    Empty,
    Once(Source),
    Replay(Replay<Source>),
}

impl RequestBody {
    pub(super) fn empty() -> Self {
        Self(RequestKind::Empty)
    }

    /// A body that is sent once.
    pub(super) fn once(source: Source) -> Self {
        Self(RequestKind::Once(source))
    }

    /// A body that is kept, to be sent again.
    pub(super) fn replay(replay: Replay<Source>) -> Self {
        Self(RequestKind::Replay(replay))
    }
}

/// A request's body could not be read to its end: the request cannot be either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Broken {
    /// The client sent nothing for too long.
    Stalled = 1,
    /// It is longer than is allowed.
    TooLong = 2,
    /// The client's connection broke.
    Gone = 3,
    /// Another attempt reads it now.
    Abandoned = 4,
}

impl Broken {
    /// Why a body cannot be sent again, or not on.
    fn of(error: &ReplayError) -> Self {
        match error {
            ReplayError::Superseded => Self::Abandoned,
            ReplayError::Inner(error) => error.downcast_ref().copied().unwrap_or(Self::Gone),
            _ => Self::Gone,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stalled => "the client sent nothing for too long",
            Self::TooLong => "the body is longer than is allowed",
            Self::Gone => "the client's connection broke",
            Self::Abandoned => "the request is sent elsewhere",
        })
    }
}

impl std::error::Error for Broken {}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.get_mut().0 {
            RequestKind::Empty => Poll::Ready(None),
            RequestKind::Once(source) => Pin::new(source).poll_frame(cx),
            RequestKind::Replay(replay) => {
                let read = Pin::new(replay).poll_frame(cx);
                read.map(|read| read.map(|frame| frame.map_err(|error| Broken::of(&error))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            RequestKind::Empty => true,
            RequestKind::Once(source) => source.is_end_stream(),
            RequestKind::Replay(replay) => replay.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            RequestKind::Empty => SizeHint::with_exact(0),
            RequestKind::Once(source) => source.size_hint(),
            RequestKind::Replay(replay) => replay.size_hint(),
        }
    }
}

/// How far the sending of a request's body has come.
#[derive(Debug, Default)]
pub(super) struct Upload {
    /// When it ended, in nanoseconds; 0 before.
    ended: AtomicU64,
    broken: AtomicU8,
}

impl Upload {
    /// When the whole body had been read.
    pub(super) fn ended(&self) -> Option<Instant> {
        match self.ended.load(Relaxed) {
            0 => None,
            at => Some(Instant::from_nanos(at)),
        }
    }

    /// Why it will never be whole.
    pub(super) fn broken(&self) -> Option<Broken> {
        let kinds = [Broken::Stalled, Broken::TooLong, Broken::Gone];
        let broken = self.broken.load(Relaxed);
        kinds.into_iter().find(|kind| *kind as u8 == broken)
    }
}

/// The body that a client sends, which must go on.
pub(super) struct Source {
    incoming: Incoming,
    upload: Arc<Upload>,
    stall: Duration,
    /// When the client counts as stalled; only while nothing comes.
    timer: Option<Pin<Box<Sleep>>>,
    /// Bytes that may still come.
    left: u64,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("upload", &self.upload).finish_non_exhaustive()
    }
}

impl Source {
    pub(super) fn new(incoming: Incoming, stall: Duration, most: Option<u64>) -> Self {
        let left = most.unwrap_or(u64::MAX);
        Self { incoming, upload: Arc::default(), stall, timer: None, left }
    }

    pub(super) fn upload(&self) -> &Arc<Upload> {
        &self.upload
    }

    fn break_off(&self, broken: Broken) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.upload.broken.store(broken as u8, Relaxed);
        Poll::Ready(Some(Err(broken)))
    }

    fn end(&self) {
        if self.upload.ended.load(Relaxed) == 0 {
            self.upload.ended.store(clock::now().as_nanos(), Relaxed);
        }
    }
}

impl HttpBody for Source {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
            let stall = self.stall;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(stall)));
            std::task::ready!(timer.as_mut().poll(cx));
            return self.break_off(Broken::Stalled);
        };
        self.timer = None;
        let frame = match frame {
            None => {
                self.end();
                return Poll::Ready(None);
            }
            Some(Err(_)) => return self.break_off(Broken::Gone),
            Some(Ok(frame)) => frame,
        };
        if let Some(data) = frame.data_ref() {
            match self.left.checked_sub(data.len() as u64) {
                Some(left) => self.left = left,
                None => return self.break_off(Broken::TooLong),
            }
        }
        if self.incoming.is_end_stream() {
            self.end();
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
