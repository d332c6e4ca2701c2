//! A service whose requests are admitted, or refused.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};

use super::admission::{Arrived, Shared};
use super::body::Body;
use super::future::ResponseFuture;
use super::keeper;

/// A service behind a [`Layer`](super::Layer). Its clones, and those of the layer, share everything
/// that decides.
///
/// A request that is refused does not reach the inner service, or, if that was already called, its
/// future is dropped without a poll: what a service does in `call` itself is done then.
#[derive(Clone, Debug)]
pub struct Service<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> Service<S> {
    pub(super) fn new(inner: S, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }
}

impl<S, A, B> tower_service::Service<Request<A>> for Service<S>
where
    S: tower_service::Service<Request<A>, Response = Response<B>>,
    B: http_body::Body,
{
    type Response = Response<Body<B>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        keeper::keep(&self.shared);
        match self.shared.arrive(&mut request) {
            Arrived::Admitted(ticket) => {
                request.extensions_mut().insert(ticket.context().clone());
                ResponseFuture::running(self.inner.call(request), ticket)
            }
            Arrived::Refused(refusal, grpc) => {
                ResponseFuture::refused(self.shared.clone(), refusal, grpc)
            }
        }
    }
}
