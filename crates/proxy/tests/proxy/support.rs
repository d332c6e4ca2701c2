//! Upstreams that do as they are told, clients, and a proxy between them.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body as HttpBody, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use seawall_proxy::config::Endpoint;
use seawall_proxy::{Config, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// How long anything may take before a test gives up: far longer than it ever takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Any body as one type.
pub(crate) fn body<B>(body: B) -> Body
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    body.map_err(Into::into).boxed_unsync()
}

pub(crate) fn empty() -> Body {
    body(Empty::new())
}

pub(crate) fn text(text: &'static str) -> Body {
    body(Full::new(Bytes::from_static(text.as_bytes())))
}

/// A server of HTTP/1.1 and HTTP/2 that counts what it has to do.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Upstream {
    pub(crate) async fn start<F, A>(answer: F) -> Self
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response<Body>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (connections.clone(), requests.clone());
        let accepting = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                counts.0.fetch_add(1, SeqCst);
                let (answer, requests) = (answer.clone(), counts.1.clone());
                let service = service_fn(move |request| {
                    requests.fetch_add(1, SeqCst);
                    let answer = answer(request);
                    async move { Ok::<_, Infallible>(answer.await) }
                });
                open.spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ =
                        builder.serve_connection_with_upgrades(TokioIo::new(tcp), service).await;
                });
            }
        });
        Self { address, connections, requests, accepting }
    }

    /// A server that answers everything with this text.
    pub(crate) async fn saying(words: &'static str) -> Self {
        Self::start(move |_| async move { Response::new(text(words)) }).await
    }

    /// A server that answers everything with this status.
    pub(crate) async fn with_status(status: StatusCode, fields: &'static [(&str, &str)]) -> Self {
        Self::start(move |_| async move {
            let mut response = Response::builder().status(status);
            for (name, value) in fields {
                response = response.header(*name, *value);
            }
            response.body(empty()).unwrap()
        })
        .await
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }

    /// Ends it with all its connections.
    pub(crate) fn kill(&self) {
        self.accepting.abort();
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        endpoint(self.address)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An upstream that answers as many requests as it is given permits, and knows how many it has had
/// at once.
pub(crate) struct Held {
    pub(crate) upstream: Upstream,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) most: Arc<AtomicUsize>,
}

impl Held {
    pub(crate) async fn start() -> Self {
        let permits = Arc::new(Semaphore::new(0));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (held, high) = (permits.clone(), most.clone());
        let upstream = Upstream::start(move |_| {
            let (held, now, high) = (held.clone(), now.clone(), high.clone());
            async move {
                high.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                held.acquire().await.unwrap().forget();
                now.fetch_sub(1, SeqCst);
                Response::new(text("served"))
            }
        })
        .await;
        Self { upstream, permits, most }
    }
}

/// A server that does with each connection what it is told; the number of the connection counts
/// from 0.
pub(crate) async fn raw<F, A>(serve: F) -> SocketAddr
where
    F: Fn(TcpStream, usize) -> A + Send + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for number in 0.. {
            let Ok((tcp, _)) = listener.accept().await else { return };
            tokio::spawn(serve(tcp, number));
        }
    });
    address
}

/// Reads the head of a message.
pub(crate) async fn read_head(tcp: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match tcp.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

pub(crate) fn endpoint(address: SocketAddr) -> Endpoint {
    format!("http://{address}").parse().unwrap()
}

/// An address at which nobody listens.
pub(crate) async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// The defaults for these replicas, at any port, on one thread.
pub(crate) fn config(replicas: &[SocketAddr]) -> Config {
    let mut config = Config::for_upstream(replicas.iter().copied().map(endpoint).collect());
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.threads = 1;
    config
}

pub(crate) fn proxy(replicas: &[SocketAddr]) -> Proxy {
    Proxy::start(config(replicas)).unwrap()
}

/// The only upstream of a configuration.
pub(crate) fn upstream(config: &mut Config) -> &mut seawall_proxy::config::Upstream {
    config.upstreams.get_mut("default").unwrap()
}

/// A client of HTTP/1.1 on one connection.
pub(crate) struct Client(http1::SendRequest<Body>);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let tcp = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(tcp)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        Self(sender)
    }

    pub(crate) async fn send(&mut self, request: Request<Body>) -> Response<Incoming> {
        self.try_send(request).await.expect("there is an answer")
    }

    pub(crate) async fn try_send(
        &mut self,
        request: Request<Body>,
    ) -> hyper::Result<Response<Incoming>> {
        self.0.ready().await?;
        let sent = tokio::time::timeout(PATIENCE, self.0.send_request(request));
        sent.await.expect("the answer comes")
    }

    pub(crate) async fn get(&mut self, path: &str) -> Response<Incoming> {
        self.send(get(path)).await
    }
}

/// A client of HTTP/2 on one connection.
pub(crate) async fn http2(address: SocketAddr) -> http2::SendRequest<Body> {
    let tcp = TcpStream::connect(address).await.unwrap();
    let executor = TokioExecutor::new();
    let (sender, connection) = http2::handshake(executor, TokioIo::new(tcp)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) fn get(path: &str) -> Request<Body> {
    Request::builder().uri(path).header("host", "a.example").body(empty()).unwrap()
}

pub(crate) fn post(path: &str, content: Body) -> Request<Body> {
    let request = Request::builder().method("POST").uri(path).header("host", "a.example");
    request.body(content).unwrap()
}

/// The whole body as a text.
pub(crate) async fn said(response: Response<Incoming>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "never: {what}");
}

/// Sends bytes and gives all that comes back until the other side closes.
pub(crate) async fn talk(address: SocketAddr, bytes: &[u8]) -> String {
    let mut tcp = TcpStream::connect(address).await.unwrap();
    tcp.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, tcp.read_to_end(&mut answer)).await;
    let _ = read.expect("the other side closes");
    String::from_utf8_lossy(&answer).into_owned()
}
