//! gRPC: unary calls and streams by tonic, and how failures are told.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http_body_util::BodyExt;
use hyper::http::uri::PathAndQuery;
use seawall_control::fields::timeout;
use seawall_proxy::Proxy;
use seawall_proxy::config::Probe;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{NamedService, StreamingService, UnaryService};
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::support::*;

/// Messages are bytes as they are.
#[derive(Clone, Copy, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let left = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(left)))
    }
}

/// Answers `fail` with a status, `hang` never, the rest with the same; streams alike, message by
/// message.
#[derive(Clone)]
struct Echo;

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<Bytes>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        Box::pin(async move {
            let message = request.into_inner();
            match &message[..] {
                b"fail" => Err(Status::aborted("as was asked for")),
                b"hang" => std::future::pending().await,
                _ => Ok(Response::new(message)),
            }
        })
    }
}

impl StreamingService<Bytes> for Echo {
    type Response = Bytes;
    type ResponseStream = ReceiverStream<Result<Bytes, Status>>;
    type Future = std::pin::Pin<
        Box<dyn Future<Output = Result<Response<Self::ResponseStream>, Status>> + Send>,
    >;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        Box::pin(async move {
            let (messages, stream) = mpsc::channel(1);
            tokio::spawn(async move {
                let mut asked = request.into_inner();
                while let Some(message) = asked.next().await {
                    if messages.send(message).await.is_err() {
                        return;
                    }
                }
            });
            Ok(Response::new(ReceiverStream::new(stream)))
        })
    }
}

impl NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

impl tower_service::Service<hyper::Request<tonic::body::Body>> for Echo {
    type Response = hyper::Response<tonic::body::Body>;
    type Error = std::convert::Infallible;
    type Future =
        std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(
        &mut self,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: hyper::Request<tonic::body::Body>) -> Self::Future {
        let mut grpc = tonic::server::Grpc::new(Plain);
        Box::pin(async move {
            Ok(if request.uri().path().ends_with("/Stream") {
                grpc.streaming(Self, request).await
            } else {
                grpc.unary(Self, request).await
            })
        })
    }
}

async fn echo() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().add_service(Echo);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

async fn client(address: SocketAddr) -> Grpc<Channel> {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    Grpc::new(endpoint.connect().await.unwrap())
}

async fn call(client: &mut Grpc<Channel>, request: Request<Bytes>) -> Result<Bytes, Status> {
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/test.Echo/Call");
    client.unary(request, path, Plain).await.map(Response::into_inner)
}

#[tokio::test]
async fn unary_calls_pass_with_their_status() {
    let proxy = proxy(&[echo().await]);
    let mut client = client(proxy.address()).await;
    for _ in 0..10 {
        let answer = call(&mut client, Request::new(Bytes::from_static(b"hello"))).await;
        assert_eq!(answer.unwrap(), "hello");
    }
    let failed = call(&mut client, Request::new(Bytes::from_static(b"fail"))).await.unwrap_err();
    assert_eq!((failed.code(), failed.message()), (Code::Aborted, "as was asked for"));
}

#[tokio::test]
async fn streams_pass_message_by_message() {
    let proxy = proxy(&[echo().await]);
    let mut client = client(proxy.address()).await;
    client.ready().await.unwrap();
    let (messages, stream) = mpsc::channel(1);
    let path = PathAndQuery::from_static("/test.Echo/Stream");
    let request = Request::new(ReceiverStream::new(stream));
    let mut answers = client.streaming(request, path, Plain).await.unwrap().into_inner();
    for number in 0..20_u8 {
        messages.send(Bytes::from(vec![number; 3])).await.unwrap();
        assert_eq!(answers.message().await.unwrap().unwrap(), vec![number; 3]);
    }
    drop(messages);
    assert!(answers.message().await.unwrap().is_none());
}

#[tokio::test]
async fn a_deadline_that_passes_is_told_in_grpcs_way() {
    let proxy = proxy(&[echo().await]);
    let mut sender = http2(proxy.address()).await;
    let request = hyper::Request::post("http://a.example/test.Echo/Call")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", "20m")
        .body(body(http_body_util::Full::new(Bytes::from_static(b"\0\0\0\0\x04hang"))))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    // Either side may notice first.
    assert_eq!(response.status(), 200);
    let status = response.headers().get("grpc-status").unwrap();
    assert!(["1", "4"].contains(&status.to_str().unwrap()), "{response:?}");
}

/// A server of HTTP/2 that resets what it was asked once the deadline has passed, as grpc-go does:
/// calls of `/test.Reset/Call` before it has said anything, others after the head.
async fn resetting() -> SocketAddr {
    raw(|tcp, _| async move {
        let mut connection = h2::server::handshake(tcp).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let left = timeout::parse(request.headers()["grpc-timeout"].as_bytes()).unwrap();
            let head = hyper::Response::builder().header("content-type", "application/grpc");
            let head = head.body(()).unwrap();
            let begins = !request.uri().path().ends_with("/Call");
            let stream = begins.then(|| respond.send_response(head, false).unwrap());
            // A timer of the runtime would be later than the proxy's own.
            std::thread::spawn(move || {
                std::thread::sleep(left);
                match stream {
                    Some(mut stream) => stream.send_reset(h2::Reason::CANCEL),
                    None => respond.send_reset(h2::Reason::CANCEL),
                }
            });
        }
    })
    .await
}

#[tokio::test]
async fn an_upstream_that_lets_go_at_the_deadline_is_not_lost() {
    let other = Upstream::saying("never asked").await;
    let mut config = config(&[resetting().await, other.address]);
    let upstream = upstream(&mut config);
    upstream.balance.choose = seawall_control::replica::Selection::First;
    upstream.health.eject_after = 1;
    let proxy = Proxy::start(config).unwrap();
    let mut sender = http2(proxy.address()).await;
    for method in ["Call", "Stream"].repeat(10) {
        let request = hyper::Request::post(format!("http://a.example/test.Reset/{method}"))
            .header("content-type", "application/grpc")
            .header("grpc-timeout", "10m")
            .body(text("content"))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.headers().get("grpc-status").map(|status| status.to_str().unwrap());
        assert_eq!(status, (method == "Call").then_some("4"), "{response:?}");
        let rest = response.into_body().collect().await;
        assert_eq!(rest.is_ok(), method == "Call");
    }
    assert_eq!(other.requests(), 0);
}

#[tokio::test]
async fn nobody_there_is_unavailable() {
    let proxy = proxy(&[nobody().await]);
    let mut client = client(proxy.address()).await;
    let status = call(&mut client, Request::new(Bytes::new())).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}

#[tokio::test]
async fn the_standard_health_service_is_asked() {
    let serving = Upstream::start(|request| async move {
        let is_check = request.uri().path() == "/grpc.health.v1.Health/Check";
        assert!(is_check && request.headers()["content-type"] == "application/grpc");
        let frame = Bytes::from_static(&[0, 0, 0, 0, 2, 8, 2]);
        hyper::Response::new(body(http_body_util::Full::new(frame)))
    })
    .await;
    let well = Upstream::saying("well").await;
    let mut config = config(&[serving.address, well.address]);
    let upstream = upstream(&mut config);
    upstream.balance.choose = seawall_control::replica::Selection::First;
    upstream.health.probe = Probe::Grpc(String::new());
    upstream.health.interval = Duration::from_millis(5);
    let proxy = Proxy::start(config).unwrap();
    until("both were asked", async || serving.requests() > 1 && well.requests() > 1).await;
    assert_eq!(proxy.shutdown(), Ok(()));
}
