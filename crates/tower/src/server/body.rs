//! The body of a response: a request is complete when that ended, failed, or was dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

use super::stats::End;
use super::ticket::Ticket;

pin_project! {
    /// The body of a response that passed a [`Service`](super::Service).
    ///
    /// Until its end the request holds its place in the server, in both directions of a stream.
    #[derive(Debug)]
    pub struct Body<B> {
        #[pin]
        inner: Option<B>,
        open: Option<Open>,
    }
}

/// What is to be done at the end.
#[derive(Debug)]
struct Open {
    ticket: Ticket,
    end: End,
    /// Bytes that are to come, if that is known: who has got them does not ask for more.
    left: Option<u64>,
}

impl<B> Body<B> {
    /// The body of a refusal.
    pub(super) fn none() -> Self {
        Self { inner: None, open: None }
    }

    /// A body of a request that is complete.
    pub(super) fn free(inner: B) -> Self {
        Self { inner: Some(inner), open: None }
    }
}

impl<B: http_body::Body> Body<B> {
    /// The body of a request that ends as `end` once all of it has been handed over: `announced`
    /// bytes, if that is known.
    pub(super) fn open(inner: B, ticket: Ticket, end: End, announced: Option<u64>) -> Self {
        let left = inner.size_hint().exact().or(announced);
        Self { inner: Some(inner), open: Some(Open { ticket, end, left }) }
    }
}

impl Open {
    /// True if these bytes were the last.
    fn pass(&mut self, bytes: usize) -> bool {
        self.left = self.left.map(|left| left.saturating_sub(bytes as u64));
        self.left == Some(0)
    }
}

impl<B: http_body::Body> http_body::Body for Body<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let Some(mut inner) = this.inner.as_pin_mut() else { return Poll::Ready(None) };
        // Of a stream it is the handler.
        let entered = this.open.as_ref().map(|open| open.ticket.context().enter());
        let polled = inner.as_mut().poll_frame(cx);
        drop(entered);
        let mut frame = ready!(polled);
        let Some(open) = this.open else { return Poll::Ready(frame) };
        let has_ended = match &mut frame {
            None => true,
            Some(Err(_)) => {
                open.end = End::Failed;
                true
            }
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_mut() {
                    open.ticket.trailers(trailers);
                    true
                } else {
                    let len = frame.data_ref().map_or(0, Buf::remaining);
                    open.pass(len) || inner.is_end_stream()
                }
            }
        };
        if has_ended && let Some(Open { mut ticket, end, .. }) = this.open.take() {
            ticket.end(end);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}

/// An empty body, as of a refusal.
impl<B> Default for Body<B> {
    fn default() -> Self {
        Self::none()
    }
}
