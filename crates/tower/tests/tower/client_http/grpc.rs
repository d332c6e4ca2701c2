//! tonic's channels, whose messages are bytes as they are.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes};
use http::HeaderMap;
use http::uri::PathAndQuery;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use seawall_control::replica::Selection;
use seawall_tower::client::{BoxError, Config, Dropped, Error, Layer, Replay, Replicas};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tower::Service;
use tower::util::MapRequest;
use tower_layer::Layer as _;

use super::servers::{Seen, Sent, Server, response};

/// Messages that are their own encoding.
#[derive(Clone, Copy, Default)]
struct AsIs;

impl Codec for AsIs {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, payload: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(payload);
        Ok(())
    }
}

impl Decoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, input: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(input.copy_to_bytes(input.remaining())))
    }
}

async fn call<S, R>(client: S, message: &'static str) -> Result<Bytes, Status>
where
    S: Service<http::Request<Body>, Response = http::Response<R>, Error = Error>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError> + Send,
{
    let mut grpc = Grpc::new(client);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let mut request = Request::new(Bytes::from_static(message.as_bytes()));
    request.set_timeout(Duration::from_secs(5));
    let path = PathAndQuery::from_static("/shop.Orders/Get");
    Ok(grpc.unary(request, path, AsIs).await?.into_inner())
}

fn channel(server: &Server) -> Channel {
    Endpoint::from_shared(server.origin()).unwrap().connect_lazy()
}

/// The message comes back, and at the end a window.
fn echo(request: &Seen) -> http::Response<Sent> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    trailers.insert("seawall", "window=4, seq=1".parse().unwrap());
    let frames = [Frame::data(request.body().clone()), Frame::trailers(trailers)];
    let frames = futures_util::stream::iter(frames.map(Ok::<_, Infallible>));
    response(200, &[("content-type", "application/grpc")], "")
        .map(|_| BodyExt::boxed(StreamBody::new(frames)))
}

fn refuse(pushback: &str) -> http::Response<Sent> {
    let headers = [
        ("content-type", "application/grpc"),
        ("grpc-status", "14"),
        ("grpc-retry-pushback-ms", pushback),
        ("grpc-message", "too much to do"),
    ];
    response(200, &headers, "")
}

/// A channel takes tonic's own bodies only.
type Member = MapRequest<Channel, fn(http::Request<Replay<Body>>) -> http::Request<Body>>;

fn boxed(request: http::Request<Replay<Body>>) -> http::Request<Body> {
    request.map(Body::new)
}

/// Channels to several servers, the first of which is asked first.
fn replicas(config: Config, servers: &[&Server]) -> Replicas<Member> {
    let mut config = config;
    config.admission.client.replicas.choose = Selection::First;
    let replicas = Replicas::new(config).unwrap();
    for server in servers {
        replicas.insert(server.origin(), MapRequest::new(channel(server), boxed as fn(_) -> _));
    }
    replicas
}

#[tokio::test]
async fn a_channel_behind_the_layer() {
    let server = Server::start(|request| {
        let headers = request.headers();
        assert!(headers["grpc-timeout"].to_str().unwrap().ends_with('u'));
        assert!(headers["seawall"].to_str().unwrap().contains("deadline=4"), "{headers:?}");
        echo(request)
    })
    .await;
    let client = Layer::new(Config::named("orders")).unwrap().layer(channel(&server));
    for message in ["one", "two", ""] {
        assert_eq!(call(client.clone(), message).await.unwrap(), message);
    }
    assert_eq!(client.outstanding(), 0);
    let window = client.metrics().iter().find(|(name, _)| *name == "credit_window");
    assert_eq!(window.unwrap().1, 4.0, "the trailers told it");
}

#[tokio::test]
async fn what_is_not_sent_is_unavailable() {
    let server = Server::start(echo).await;
    let mut config = Config { dropped: Dropped::Response, ..Config::named("orders") };
    config.rtt = Duration::from_secs(10); // longer than the call's own timeout
    let client = Layer::new(config).unwrap().layer(channel(&server));
    let status = call(client, "late").await.unwrap_err();
    assert_eq!((status.code(), server.requests()), (Code::Unavailable, 0));
}

#[tokio::test]
async fn a_call_that_one_server_pushes_back_another_one_serves() {
    let busy = Server::start(|_| refuse("60000")).await;
    let free = Server::start(|request| {
        assert_eq!(request.headers()["grpc-previous-rpc-attempts"], "1");
        echo(request)
    })
    .await;
    let client = replicas(Config::named("orders"), &[&busy, &free]);
    assert_eq!(call(client, "hello").await.unwrap(), "hello");
    assert_eq!((busy.requests(), free.requests()), (1, 1));
}

#[tokio::test]
async fn a_server_that_wants_no_retry_gets_none_and_neither_does_another() {
    let busy = Server::start(|_| refuse("-1")).await;
    let free = Server::start(echo).await;
    let client = replicas(Config::named("orders"), &[&busy, &free]);
    let status = call(client, "hello").await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "too much to do"));
    assert_eq!((busy.requests(), free.requests()), (1, 0));
}

#[tokio::test]
async fn the_only_server_is_asked_again_after_its_pushback() {
    let times = AtomicU32::new(0);
    let server =
        Server::start(
            move |request| {
                if times.fetch_add(1, Relaxed) == 0 { refuse("30") } else { echo(request) }
            },
        )
        .await;
    let config = Config { in_place: true, ..Config::named("orders") };
    let begun = Instant::now();
    assert_eq!(call(replicas(config, &[&server]), "hello").await.unwrap(), "hello");
    assert!(begun.elapsed() >= Duration::from_millis(30));
    assert_eq!(server.requests(), 2);
}
