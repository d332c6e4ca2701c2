//! Bodies of requests that are kept as far as they were sent, to be sent again.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;

use super::body::{Broken, Source};

/// A body that several attempts can send, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    source: Source,
    /// What was read so far, unless it was more than may be kept.
    frames: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    has_ended: bool,
    /// Bytes that may still be kept; `None` once there were more.
    left: Option<usize>,
    /// Number of the attempt that may read.
    attempt: u32,
    /// Who waits for more.
    waker: Option<Waker>,
    size: SizeHint,
}

/// The body as one attempt sends it.
#[derive(Debug)]
pub(super) struct Replay {
    kept: Kept,
    attempt: u32,
    /// Frames that it has sent.
    at: usize,
    has_ended: bool,
}

impl Kept {
    /// Keeps at most so many bytes.
    pub(super) fn new(source: Source, most: usize) -> Self {
        let inner = Inner {
            size: source.size_hint(),
            source,
            frames: Vec::new(),
            trailers: None,
            has_ended: false,
            left: Some(most),
            attempt: 0,
            waker: None,
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// The body from its beginning, for the next attempt; what an earlier one still reads breaks
    /// off. `None` if the beginning was not kept.
    pub(super) fn again(&self) -> Option<Replay> {
        let mut inner = self.inner.lock();
        inner.left?;
        inner.attempt += 1;
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
        Some(Replay { kept: self.clone(), attempt: inner.attempt, at: 0, has_ended: false })
    }

    /// Whether it could be sent again now.
    pub(super) fn is_whole(&self) -> bool {
        self.inner.lock().left.is_some()
    }
}

impl Replay {
    pub(super) fn size_hint(&self) -> SizeHint {
        // Of what is left, but that is asked before anything is sent.
        self.kept.inner.lock().size
    }

    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let inner = &mut *self.kept.inner.lock();
        if inner.attempt != self.attempt {
            return Poll::Ready(Some(Err(Broken::Abandoned)));
        }
        if let Some(data) = inner.frames.get(self.at) {
            self.at += 1;
            return Poll::Ready(Some(Ok(Frame::data(data.clone()))));
        }
        if inner.has_ended {
            self.has_ended = true;
            return Poll::Ready(
                inner.trailers.clone().map(|trailers| Ok(Frame::trailers(trailers))),
            );
        }
        let frame = match inner.source.poll(cx) {
            Poll::Pending => {
                inner.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(Some(Err(broken))) => {
                inner.left = None; // nobody can send it whole
                return Poll::Ready(Some(Err(broken)));
            }
            Poll::Ready(None) => {
                (inner.has_ended, self.has_ended) = (true, true);
                return Poll::Ready(None);
            }
        };
        if let Some(data) = frame.data_ref() {
            inner.left = inner.left.and_then(|left| left.checked_sub(data.len()));
            if inner.left.is_some() {
                inner.frames.push(data.clone());
                self.at += 1;
            } else {
                inner.frames = Vec::new();
                self.at = 0;
            }
        } else if let Some(trailers) = frame.trailers_ref() {
            inner.trailers = Some(trailers.clone());
            (inner.has_ended, self.has_ended) = (true, true);
        }
        Poll::Ready(Some(Ok(frame)))
    }
}
