//! The response to come of one request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderValue, Response};
use pin_project_lite::pin_project;
use seawall_control::Instant;

use super::admission::Shared;
use super::answer::{Refusal, Said, Theirs, is_trailers_only};
use super::body::Body;
use super::stats::End;
use super::ticket::Ticket;
use crate::clock;

pin_project! {
    /// The future of a [`Service`](super::Service). Dropping it gives the request's place back.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProjection]
    enum State<F> {
        Running {
            #[pin]
            inner: F,
            ticket: Option<Ticket>,
        },
        Refused {
            answer: Option<Answer>,
        },
        Over,
    }
}

#[derive(Debug)]
struct Answer {
    shared: Arc<Shared>,
    refusal: Box<Refusal>,
    grpc: Option<HeaderValue>,
}

impl<F> ResponseFuture<F> {
    pub(super) fn running(inner: F, ticket: Ticket) -> Self {
        Self { state: State::Running { inner, ticket: Some(ticket) } }
    }

    pub(super) fn refused(
        shared: Arc<Shared>,
        refusal: Box<Refusal>,
        grpc: Option<HeaderValue>,
    ) -> Self {
        Self { state: State::Refused { answer: Some(Answer { shared, refusal, grpc }) } }
    }
}

impl<F, B, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: http_body::Body,
{
    type Output = Result<Response<Body<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const OVER: &str = "a future is not polled after its end";
        let mut state = self.project().state;
        let (inner, place) = match state.as_mut().project() {
            StateProjection::Running { inner, ticket } => (inner, ticket),
            StateProjection::Refused { answer } => {
                let Answer { shared, refusal, grpc } = answer.take().expect(OVER);
                return Poll::Ready(Ok(refused(&shared, &refusal, grpc.as_ref())));
            }
            StateProjection::Over => panic!("{OVER}"),
        };
        let ticket = place.as_mut().expect(OVER);
        let begun = clock::now();
        if let Err(rejected) = ticket.begin_poll(begun) {
            let ticket = place.take().expect("it was there");
            // The handler has not begun, and never will.
            state.set(State::Over);
            let shared = ticket.shared().clone();
            let (refusal, grpc) = ticket.refuse(begun, &rejected, Theirs::default());
            return Poll::Ready(Ok(refused(&shared, &refusal, grpc.as_ref())));
        }
        let entered = ticket.context().enter();
        let polled = inner.poll(cx);
        drop(entered);
        let now = clock::now();
        ticket.end_poll(begun, now);
        let Poll::Ready(result) = polled else { return Poll::Pending };
        let mut ticket = place.take().expect("it was there");
        state.set(State::Over);
        Poll::Ready(match result {
            Ok(response) => Ok(respond(now, ticket, response)),
            Err(error) => {
                ticket.end(End::Failed);
                Err(error)
            }
        })
    }
}

/// The response to a request that the service has not seen, or not begun with.
fn refused<B>(shared: &Shared, refusal: &Refusal, grpc: Option<&HeaderValue>) -> Response<Body<B>> {
    let mut response = Response::new(Body::none());
    refusal.write(&shared.config.status, grpc, &mut response);
    response
}

/// Adds what is to be told to a response of the service.
fn respond<B: http_body::Body>(
    now: Instant,
    mut ticket: Ticket,
    mut response: Response<B>,
) -> Response<Body<B>> {
    let end = match Said::by(&response) {
        Said::Served => End::Done,
        Said::Failed => End::Failed,
        Said::Refused(rejected) => {
            let shared = ticket.shared().clone();
            let (refusal, grpc) = ticket.refuse(now, &rejected, Theirs::default());
            refusal.write(&shared.config.status, grpc.as_ref(), &mut response);
            return response.map(Body::free);
        }
        Said::RefusedBehind(rejected, theirs) => {
            let (refusal, grpc) = ticket.refuse(now, &rejected, theirs);
            refusal.amend(response.headers_mut(), grpc.is_some());
            return response.map(Body::free);
        }
    };
    let status = response.status();
    let has_trailers = ticket.wants.grpc.is_some() && !is_trailers_only(response.headers());
    let has_body = !ticket.wants.no_body
        && !status.is_informational()
        && !matches!(status.as_u16(), 204 | 304)
        && !response.body().is_end_stream();
    // What can be told at the end is told there: by then more is known.
    let tells = !(has_trailers && has_body);
    let news = ticket.head(now, (!has_body).then_some(end), tells);
    if tells {
        ticket.tell(response.headers_mut(), &news);
    }
    if !has_body {
        return response.map(Body::free);
    }
    let announced = response.headers().get(http::header::CONTENT_LENGTH);
    let announced = announced.and_then(|len| len.to_str().ok()?.parse().ok());
    response.map(|body| Body::open(body, ticket, end, announced))
}
