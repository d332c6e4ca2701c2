//! Servers over loopback.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Collected, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

/// The body of a response.
pub(crate) type Sent = BoxBody<Bytes, Infallible>;

/// A request whose body has been read.
pub(crate) type Seen = Request<Bytes>;

/// A server of HTTP/1 and HTTP/2 that answers as the test says.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<AtomicU32>,
    connections: Arc<AtomicU32>,
}

impl Server {
    pub(crate) async fn start<A>(answer: A) -> Self
    where
        A: Fn(&Seen) -> Response<Sent> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { address, requests: Arc::default(), connections: Arc::default() };
        tokio::spawn(server.clone().serve(listener, Arc::new(answer)));
        server
    }

    async fn serve<A>(self, listener: TcpListener, answer: Arc<A>)
    where
        A: Fn(&Seen) -> Response<Sent> + Send + Sync + 'static,
    {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            self.connections.fetch_add(1, Relaxed);
            let (answer, requests) = (answer.clone(), self.requests.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (answer, requests) = (answer.clone(), requests.clone());
                async move {
                    requests.fetch_add(1, Relaxed);
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.map(Collected::to_bytes);
                    let seen = Request::from_parts(parts, body.unwrap_or_default());
                    Ok::<_, Infallible>(answer(&seen))
                }
            });
            tokio::spawn(async move {
                let builder = auto::Builder::new(TokioExecutor::new());
                _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> u32 {
        self.requests.load(Relaxed)
    }

    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }
}

/// An origin where nobody listens.
pub(crate) async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

pub(crate) fn response(
    status: u16,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Response<Sent> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Full::new(body.into()).boxed()).unwrap()
}
