//! A server whose part the test plays: it sees each request and answers it when it likes.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use seawall_control::fields;
use seawall_tower::client::{self, Config, Error, Layer};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tower::{Service, ServiceExt};
use tower_layer::Layer as _;

pub(crate) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A connection to the server.
pub(crate) struct Mock<B> {
    to: mpsc::UnboundedSender<Arrived<B>>,
}

/// The server.
pub(crate) struct Server<B> {
    arrivals: mpsc::UnboundedReceiver<Arrived<B>>,
}

/// A request at the server.
pub(crate) struct Arrived<B> {
    pub(crate) request: Request<B>,
    reply: oneshot::Sender<io::Result<Answer>>,
}

pub(crate) fn mock<B>() -> (Mock<B>, Server<B>) {
    let (to, arrivals) = mpsc::unbounded_channel();
    (Mock { to }, Server { arrivals })
}

impl<B> Clone for Mock<B> {
    fn clone(&self) -> Self {
        Self { to: self.to.clone() }
    }
}

impl<B: Send + 'static> Service<Request<B>> for Mock<B> {
    type Response = Answer;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Answer>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (reply, replied) = oneshot::channel();
        let sent = self.to.send(Arrived { request, reply });
        Box::pin(async move {
            sent.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            replied.await.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionReset.into()))
        })
    }
}

impl<B> Server<B> {
    /// The next request, for which the test waits.
    pub(crate) async fn next(&mut self) -> Arrived<B> {
        self.arrivals.recv().await.expect("the client is there")
    }

    /// All that has arrived once nobody can do anything more without time passing.
    pub(crate) async fn arrived(&mut self) -> Vec<Arrived<B>> {
        settle().await;
        std::iter::from_fn(|| self.arrivals.try_recv().ok()).collect()
    }
}

impl<B> Arrived<B> {
    /// What its header says.
    pub(crate) fn told(&self) -> fields::Request {
        let lines = self.request.headers().get_all(fields::NAME).into_iter();
        let reading = fields::Request::read(lines.map(http::HeaderValue::as_bytes));
        assert!(!reading.malformed && reading.ignored == 0, "{reading:?}");
        reading.fields
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        Some(self.request.headers().get(name)?.to_str().unwrap())
    }

    pub(crate) fn answer(self, answer: Answer) {
        _ = self.reply.send(Ok(answer)); // unless the client is gone
    }

    /// An empty response with this `seawall` field.
    pub(crate) fn serve(self, told: &str) {
        self.answer(response(200, &[("seawall", told)]));
    }

    /// A refusal at the run queue, with what else its header says.
    pub(crate) fn refuse(self, told: &str) {
        let told = format!("stage=\"run_queue\", predicted=5000{told}");
        self.answer(response(503, &[("seawall", &told)]));
    }

    /// The connection fails so.
    pub(crate) fn fail(self, kind: io::ErrorKind) {
        _ = self.reply.send(Err(kind.into()));
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.reply.is_closed()
    }
}

/// A response without a body.
pub(crate) fn response(status: u16, headers: &[(&str, &str)]) -> Answer {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        if !value.is_empty() {
            response = response.header(*name, *value);
        }
    }
    response.body(Empty::new().boxed()).unwrap()
}

/// A gRPC response of trailers only.
pub(crate) fn trailers_only(headers: &[(&str, &str)]) -> Answer {
    response(200, &[&[("content-type", "application/grpc")], headers].concat())
}

/// A response whose body the test sends, frame by frame.
pub(crate) fn streaming(headers: &[(&str, &str)]) -> (mpsc::UnboundedSender<Frame<Bytes>>, Answer) {
    let (to, mut frames) = mpsc::unbounded_channel();
    let frames = futures_util::stream::poll_fn(move |cx| {
        frames.poll_recv(cx).map(|frame| frame.map(Ok::<_, Infallible>))
    });
    let body = BodyExt::boxed(StreamBody::new(frames));
    (to, response(200, headers).map(|_| body))
}

/// A client with an SLO of 100 ms (so that requests wait for 20 ms) of a server that the test
/// plays.
pub(crate) fn client(config: Config) -> (client::Service<Mock<()>>, Server<()>) {
    let (mock, server) = mock();
    (Layer::new(config).unwrap().layer(mock), server)
}

/// A request, sent from a task of its own.
pub(crate) fn send<S, B>(client: &S, request: Request<B>) -> JoinHandle<Result<S::Response, Error>>
where
    S: Service<Request<B>, Error = Error> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    B: Send + 'static,
{
    let client = client.clone();
    tokio::spawn(async move { client.oneshot(request).await })
}

pub(crate) fn get() -> Request<()> {
    Request::new(())
}

/// Lets all tasks do what they can without time passing.
pub(crate) async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
