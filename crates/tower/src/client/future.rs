//! The future of a response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body::Body as HttpBody;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::attempt::{Attempt, Attempted};
use super::body::{Body, Call};
use super::config::Dropped;
use super::error::{BoxError, Error, Refused};
use super::session::Session;

pin_project! {
    /// The future of a response. Dropping it gives the request up, and its credit back.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        attempt: Attempt<S, B>,
        session: Session,
        dropped: Dropped,
    }
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn new(attempt: Attempt<S, B>, session: Session, dropped: Dropped) -> Self {
        Self { attempt, session, dropped }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: HttpBody,
{
    type Output = Result<Response<Body<R>>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let is_grpc = this.attempt.is_grpc();
        let attempted = ready!(this.attempt.poll(cx));
        Poll::Ready(match attempted {
            Attempted::Answered { response, flight, .. } => {
                let call = Call { flight, picked: None };
                Ok(response.map(|body| Body::new(body, Some(call))))
            }
            Attempted::Refused(refused) => {
                this.session.meters().on_drop(refused.reason);
                tell(refused, is_grpc, *this.dropped)
            }
            Attempted::DeadlineExceeded => Err(Error::DeadlineExceeded),
            Attempted::Unready(error) | Attempted::Failed(error) => Err(Error::Inner(error)),
        })
    }
}

/// What the caller gets for a request that was not sent.
pub(super) fn tell<R>(
    refused: Refused,
    is_grpc: bool,
    dropped: Dropped,
) -> Result<Response<Body<R>>, Error> {
    match dropped {
        Dropped::Error => Err(refused.into()),
        Dropped::Response => Ok(refused.response(is_grpc).map(|()| Body::empty())),
    }
}

impl<S, B> fmt::Debug for ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("session", &self.session).finish_non_exhaustive()
    }
}
