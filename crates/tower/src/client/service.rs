//! The service that keeps to a server's credits.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body as HttpBody;
use seawall_control::metrics::Metrics;

use super::attempt::Attempt;
use super::body::Body;
use super::config::Config;
use super::error::{BoxError, Error};
use super::future::ResponseFuture;
use super::outgoing::Outgoing;
use super::session::Session;
use crate::clock;

/// A client of one server. Clones share its credits and its queue.
///
/// It is always ready: requests wait in its own queue, which is bounded, and in which they are
/// given up when it is too late for them. Each waits for its turn first, and then for the service
/// behind. Responses have to be read to their end or dropped: only then is the credit free.
#[derive(Clone, Debug)]
pub struct Service<S> {
    inner: S,
    session: Session,
    config: Arc<Config>,
}

impl<S> Service<S> {
    pub(super) fn new(inner: S, session: Session, config: Arc<Config>) -> Self {
        Self { inner, session, config }
    }

    /// Requests that were sent and whose responses have not ended.
    pub fn outstanding(&self) -> u32 {
        self.session.outstanding()
    }

    /// Requests that wait for leave to be sent.
    pub fn pending(&self) -> usize {
        self.session.pending()
    }

    /// The state of the algorithm's client half.
    pub fn metrics(&self) -> Metrics {
        self.session.metrics()
    }

    /// The service behind.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S, B, R> tower_service::Service<Request<B>> for Service<S>
where
    S: tower_service::Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    R: HttpBody,
{
    type Response = Response<Body<R>>;
    type Error = Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<S, B> {
        let custom = self.config.custom();
        let (method, headers) = (request.method(), request.headers());
        let outgoing = Outgoing::of(clock::now(), method, headers, request.extensions(), custom);
        let ticket = self.session.submit(&outgoing, Duration::MAX);
        let ticket = ticket.expect("who has all the time is taken");
        let attempt =
            Attempt::new(ticket, self.inner.clone(), request, outgoing, (0, Duration::MAX));
        ResponseFuture::new(attempt, self.session.clone(), self.config.dropped)
    }
}
