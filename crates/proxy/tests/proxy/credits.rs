//! Clients that name themselves, whose credits the proxy gives where its algorithm has some.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::{HeaderMap, Request, Response, StatusCode};
use parking_lot::Mutex;
use seawall_control::controller::Feedback;
use seawall_control::fields;
use seawall_proxy::config::Mode;
use seawall_proxy::{Config, Proxy};
use seawall_tower::client;
use seawall_tower::headers::lines;
use tower::{ServiceExt, service_fn};
use tower_layer::Layer;

use crate::support::*;

/// What an upstream with credits of its own says.
const THEIRS: &str = "window=99, seq=7000, queue=70000, service=30";

/// An upstream that has credits of its own, and keeps the fields that it is told.
async fn upstream_with_credits() -> (Upstream, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let fields = seen.clone();
    let upstream = Upstream::start(move |request| {
        let field = request.headers().get("seawall").map(|it| it.to_str().unwrap().to_owned());
        fields.lock().push(field.unwrap_or_default());
        async { Response::builder().header("seawall", THEIRS).body(text("served")).unwrap() }
    })
    .await;
    (upstream, seen)
}

fn with_credits(mut config: Config) -> Config {
    config.mode = Mode::Enforce;
    let upstream = upstream(&mut config);
    upstream.admission.algorithm = "breakwater".into();
    upstream.slo = Some(Duration::from_secs(10));
    config
}

fn named(field: &'static str) -> Request<Body> {
    let mut request = get("/");
    request.headers_mut().insert("seawall", field.parse().unwrap());
    request
}

fn told(headers: &HeaderMap) -> fields::Response {
    fields::Response::read(lines(headers)).fields
}

#[tokio::test]
async fn a_client_that_names_itself_gets_its_credits_here() {
    let (upstream, seen) = upstream_with_credits().await;
    let proxy = Proxy::start(with_credits(config(&[upstream.address]))).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    let mut last = 0;
    for _ in 0..5 {
        let response =
            client.send(named("client=\"web-7\", demand=3, ack=2, priority=5, deadline=9000000"));
        let field = told(response.await.headers());
        let Feedback::Window { size, seq } = field.feedback else { panic!("{field:?}") };
        assert!(size > 0 && seq != 7000 && seq >= last, "{field:?}");
        last = seq;
        assert!(field.queue >= Some(Duration::from_millis(70)), "it waits there, too: {field:?}");
        assert_eq!(field.service, Some(Duration::from_micros(30)));
    }
    for field in seen.lock().iter() {
        let theirs = fields::Request::read([field.as_bytes()]).fields;
        assert_eq!((theirs.client, theirs.demand, theirs.ack), (None, None, None), "{field}");
        assert_eq!(theirs.priority, Some(5));
        assert!(theirs.deadline.is_some_and(|left| left < Duration::from_secs(9)), "{field}");
    }
}

#[tokio::test]
async fn who_has_no_name_is_a_guest_and_who_says_nothing_is_told_nothing() {
    let (upstream, _) = upstream_with_credits().await;
    let proxy = Proxy::start(with_credits(config(&[upstream.address]))).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    let guest = told(client.send(named("demand=3")).await.headers());
    assert_eq!(guest.feedback, Feedback::None, "{guest:?}");
    assert_eq!(client.get("/").await.headers()["seawall"], THEIRS, "as it came");
}

#[tokio::test]
async fn where_the_proxy_has_none_to_give_credits_are_the_upstream_s() {
    const FIELD: &str = "client=\"web-7\", demand=3, ack=2";
    let (upstream, seen) = upstream_with_credits().await;
    let mut observing = with_credits(config(&[upstream.address]));
    observing.mode = Mode::Observe;
    let mut gate_alone = config(&[upstream.address]);
    gate_alone.mode = Mode::Enforce;
    for config in [observing, gate_alone] {
        let proxy = Proxy::start(config).unwrap();
        let response = Client::connect(proxy.address()).await.send(named(FIELD)).await;
        assert_eq!(response.headers()["seawall"], THEIRS);
        assert_eq!(seen.lock().pop().unwrap(), FIELD);
    }
}

#[tokio::test]
async fn of_several_replicas_none_gives_credits() {
    let ((one, seen), (two, also)) = (upstream_with_credits().await, upstream_with_credits().await);
    let proxy = proxy(&[one.address, two.address]);
    let mut client = Client::connect(proxy.address()).await;
    for _ in 0..8 {
        client.send(named("client=\"web-7\", ack=2, attempt=1")).await;
    }
    let all = [seen.lock().clone(), also.lock().clone()].concat();
    assert_eq!(all, ["attempt=1"; 8]);
}

#[tokio::test]
async fn a_client_with_more_outstanding_than_any_may_is_told_so() {
    let held = Held::start().await;
    let mut config = with_credits(config(&[held.upstream.address]));
    upstream(&mut config).limits.outstanding = 1;
    let proxy = Proxy::start(config).unwrap();
    let address = proxy.address();
    let first = tokio::spawn(send(address, "client=\"a\""));
    until("it is there", async || held.upstream.requests() == 1).await;
    let refused = send(address, "client=\"a\"").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key("retry-after"));
    let field = told(refused.headers());
    assert!(matches!(field.feedback, Feedback::Window { .. }), "{field:?}");
    let other = tokio::spawn(send(address, "client=\"b\""));
    until("another client's is there", async || held.upstream.requests() == 2).await;
    held.permits.add_permits(2);
    for done in [first, other] {
        assert_eq!(done.await.unwrap().status(), StatusCode::OK);
    }
}

/// Sends a request on a connection of its own.
async fn send(address: std::net::SocketAddr, field: &'static str) -> Response<Incoming> {
    Client::connect(address).await.send(named(field)).await
}

#[tokio::test]
async fn calls_of_grpc_are_told_at_their_end() {
    let upstream = Upstream::start(|_| async {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        trailers.insert("seawall", THEIRS.parse().unwrap());
        let frames = [Frame::data(Bytes::from_static(b"\0\0\0\0\0")), Frame::trailers(trailers)];
        let frames = tokio_stream::iter(frames.map(Ok::<_, std::io::Error>));
        let response = Response::builder().header("content-type", "application/grpc");
        response.body(body(StreamBody::new(frames))).unwrap()
    })
    .await;
    let proxy = Proxy::start(with_credits(config(&[upstream.address]))).unwrap();
    let mut client = http2(proxy.address()).await;
    let request = Request::post("http://a.example/x.Y/Z").header("te", "trailers");
    let request = request.header("content-type", "application/grpc");
    let request = request.header("seawall", "client=\"web-7\"").body(empty()).unwrap();
    let response = client.send_request(request).await.unwrap();
    assert!(!response.headers().contains_key("seawall"), "{response:?}");
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
    let field = told(body.trailers().unwrap());
    let Feedback::Window { seq, .. } = field.feedback else { panic!("{field:?}") };
    assert!(seq != 7000 && field.queue >= Some(Duration::from_millis(70)), "{field:?}");
}

#[tokio::test]
async fn seawall_s_own_client_keeps_to_the_proxy_s_credits() {
    let (upstream, seen) = upstream_with_credits().await;
    let proxy = Proxy::start(with_credits(config(&[upstream.address]))).unwrap();
    let sender = http2(proxy.address()).await;
    let acknowledged = Arc::new(Mutex::new(0));
    let newest = acknowledged.clone();
    let send = service_fn(move |request: Request<Body>| {
        let field = fields::Request::read(lines(request.headers())).fields;
        *newest.lock() = field.ack.unwrap_or_default();
        sender.clone().send_request(request)
    });
    let algorithm = Some("breakwater".to_owned());
    let settings = client::Config { algorithm, ..client::Config::default() };
    let client = client::Layer::new(settings).unwrap().layer(send);
    let mut last = 0;
    for _ in 0..20 {
        let request = Request::get("http://a.example/").body(empty()).unwrap();
        let response = client.clone().oneshot(request).await.unwrap();
        let Feedback::Window { seq, .. } = told(response.headers()).feedback else { panic!() };
        assert!(*acknowledged.lock() == last, "what it was told, and not what the upstream says");
        last = seq;
    }
    assert!(last > 0 && seen.lock().iter().all(|field| !field.contains("client")));
}
