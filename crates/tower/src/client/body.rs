//! A response's body, which holds the request's credit until it has ended.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::answer::{Fate, News};
use super::meters::Outcome;
use super::replicas::Picked;
use super::session::Flight;

pin_project! {
    /// The body of a response. The request's credit is free again when it has ended, has failed, or
    /// is dropped.
    #[derive(Debug)]
    pub struct Body<B> {
        // `None` for a response of the client's own.
        #[pin]
        inner: Option<B>,
        call: Option<Call>,
    }
}

/// What ends with the body.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) flight: Flight,
    /// The replica whose load it is.
    pub(super) picked: Option<Picked>,
}

impl<B> Body<B> {
    /// The body of a request that is under way until it has ended.
    pub(super) fn new(inner: B, call: Option<Call>) -> Self {
        Self { inner: Some(inner), call }
    }

    /// No body.
    pub(super) fn empty() -> Self {
        Self { inner: None, call: None }
    }
}

fn end(call: &mut Option<Call>, outcome: Option<Outcome>) {
    if let Some(Call { mut flight, picked }) = call.take() {
        flight.end(outcome);
        drop(picked);
    }
}

impl<B: HttpBody> HttpBody for Body<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let Some(mut inner) = this.inner.as_pin_mut() else { return Poll::Ready(None) };
        let frame = ready!(inner.as_mut().poll_frame(cx));
        match &frame {
            None => end(this.call, None),
            Some(Err(_)) => end(this.call, Some(Outcome::Failed)),
            Some(Ok(frame)) => {
                if let (Some(trailers), Some(call)) = (frame.trailers_ref(), &mut *this.call) {
                    let news = News::of_trailers(trailers);
                    let refused = match news.fate {
                        Fate::Refused(refusal) => {
                            call.flight.meters().on_refusal(&refusal);
                            Some(Outcome::Refused)
                        }
                        Fate::Unsure => Some(Outcome::Failed),
                        Fate::Served => None,
                    };
                    call.flight.on_trailers(news.feedback, refused);
                }
                // Not every caller asks once more for what it knows to be the end.
                if frame.is_trailers() || inner.is_end_stream() {
                    end(this.call, None);
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or(SizeHint::with_exact(0), HttpBody::size_hint)
    }
}
