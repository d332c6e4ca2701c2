//! What is sent again, and what is not.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use seawall_control::replica::Selection;
use seawall_control::retry::{self, End, Why};
use seawall_tower::client::{
    Attempts, CallOptions, Config, Deadline, Error, Failure, Refusal, Replay, Replicas,
};
use tokio::time::Instant;

use super::support::{Arrived, Mock, Server, mock, ms, response, send, trailers_only};

type Payload = Full<Bytes>;
type Sent = Replay<Payload>;

/// A client that asks its first replica first.
fn config() -> Config {
    let mut config = Config::default();
    config.admission.client.replicas.choose = Selection::First;
    config
}

fn replicas<const N: usize>(config: Config) -> (Replicas<Mock<Sent>>, [Server<Sent>; N]) {
    let replicas = Replicas::new(config).unwrap();
    let servers = std::array::from_fn(|index| {
        let (mock, server) = mock();
        replicas.insert(index.to_string(), mock);
        server
    });
    (replicas, servers)
}

fn request(method: Method, body: &'static str) -> Request<Payload> {
    let body = Full::new(Bytes::from_static(body.as_bytes()));
    Request::builder().method(method).uri("/orders").body(body).unwrap()
}

fn grpc() -> Request<Payload> {
    let mut call = request(Method::POST, "x");
    call.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    call
}

async fn body_of(arrived: &mut Arrived<Sent>) -> Bytes {
    arrived.request.body_mut().collect().await.unwrap().to_bytes()
}

#[tokio::test(start_paused = true)]
async fn what_one_refuses_goes_to_another_at_once() {
    let (client, [mut one, mut two]) = replicas(config());
    let begun = Instant::now();
    let call = send(&client, request(Method::POST, "payload"));
    let mut first = one.next().await;
    assert_eq!(body_of(&mut first).await, "payload");
    first.refuse("");
    let mut second = two.next().await;
    assert_eq!(begun.elapsed(), ms(0));
    assert_eq!((second.told().attempt, body_of(&mut second).await), (Some(1), "payload".into()));
    assert_eq!(second.request.uri(), "/orders");
    second.serve("");
    let response = call.await.unwrap().unwrap();
    let attempts = response.extensions().get::<Attempts>().unwrap();
    assert_eq!((response.status().as_u16(), attempts.sent, attempts.given_up), (200, 2, None));
    assert_eq!(client.retries().retries, 1);
    // The run queue is in all requests' way, so for as long as it said the others avoid it.
    let call = send(&client, request(Method::GET, ""));
    two.next().await.serve("");
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_caller_gets_the_last_refusal() {
    let (client, [mut one, mut two]) = replicas(config());
    let call = send(&client, request(Method::GET, ""));
    one.next().await.refuse("");
    two.next().await.answer(response(429, &[("retry-after", "7")]));
    let response = call.await.unwrap().unwrap();
    assert!(Refusal::of(&response).unwrap().quota);
    assert_eq!(response.extensions().get::<Refusal>(), Refusal::of(&response).as_ref());
    let attempts = response.extensions().get::<Attempts>().unwrap();
    assert_eq!((attempts.sent, attempts.given_up), (2, Some(Why::Attempts)));
}

#[tokio::test(start_paused = true)]
async fn what_may_have_run_is_sent_again_only_if_that_does_no_harm() {
    for (method, options, again) in [
        (Method::GET, CallOptions::default(), true),
        (Method::PUT, CallOptions::default(), true),
        (Method::POST, CallOptions::default(), false),
        (Method::POST, CallOptions::default().with_idempotent(true), true),
        (Method::GET, CallOptions::default().with_idempotent(false), false),
    ] {
        let (client, [mut one, mut two]) = replicas(config());
        let mut request = request(method.clone(), "x");
        request.extensions_mut().insert(options);
        let call = send(&client, request);
        one.next().await.fail(ErrorKind::ConnectionReset);
        if again {
            two.next().await.serve("");
            assert_eq!(call.await.unwrap().unwrap().status(), 200, "{method}");
        } else {
            let error = call.await.unwrap().unwrap_err();
            assert!(matches!(error, Error::Inner(_)), "{method}: {error}");
            assert!(two.arrived().await.is_empty(), "{method}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_application_are_not_refusals() {
    let (client, [mut one, mut two]) = replicas(config());
    for status in [500, 503, 404] {
        let call = send(&client, request(Method::POST, "x"));
        one.next().await.answer(response(status, &[]));
        assert_eq!(call.await.unwrap().unwrap().status(), status);
    }
    assert!(two.arrived().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_grpc_server_that_pushes_back_for_good_is_obeyed() {
    for pushback in ["-1", "later"] {
        let (client, [mut one, mut two]) = replicas(config());
        let call = send(&client, grpc());
        let refusal = [("grpc-status", "14"), ("grpc-retry-pushback-ms", pushback)];
        one.next().await.answer(trailers_only(&refusal));
        let response = call.await.unwrap().unwrap();
        assert_eq!(response.headers()["grpc-status"], "14");
        assert!(two.arrived().await.is_empty(), "{pushback}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_grpc_call_goes_elsewhere_at_once_and_says_how_often_it_was_sent() {
    let (client, [mut one, mut two]) = replicas(config());
    let begun = Instant::now();
    let call = send(&client, grpc());
    let refusal = [("grpc-status", "14"), ("grpc-retry-pushback-ms", "700")];
    let first = one.next().await;
    assert_eq!(first.header("grpc-previous-rpc-attempts"), None);
    first.answer(trailers_only(&refusal));
    let second = two.next().await;
    assert_eq!(begun.elapsed(), ms(0), "the other one has not pushed back");
    assert_eq!(second.header("grpc-previous-rpc-attempts"), Some("1"));
    second.answer(trailers_only(&[("grpc-status", "0")]));
    assert_eq!(call.await.unwrap().unwrap().headers()["grpc-status"], "0");
}

#[tokio::test(start_paused = true)]
async fn where_there_is_one_address_it_is_asked_again_when_it_said() {
    let config = Config { in_place: true, ..config() };
    let (client, [mut only]) = replicas(config);
    let refusal = [("grpc-status", "14"), ("grpc-retry-pushback-ms", "250")];
    let call = send(&client, grpc());
    only.next().await.answer(trailers_only(&refusal));
    let begun = Instant::now();
    only.next().await.answer(trailers_only(&[("grpc-status", "0")]));
    assert!(begun.elapsed() >= ms(250) && begun.elapsed() < ms(253), "{:?}", begun.elapsed());
    call.await.unwrap().unwrap();

    // Who says longer than may be waited for is not asked again, nor who says longer than is left.
    for (hint, left) in [("1001", 5_000), ("300", 200)] {
        let mut late = grpc();
        late.extensions_mut().insert(Deadline::after(ms(left)));
        let call = send(&client, late);
        let refusal = [("grpc-status", "14"), ("grpc-retry-pushback-ms", hint)];
        only.next().await.answer(trailers_only(&refusal));
        assert_eq!(call.await.unwrap().unwrap().headers()["grpc-status"], "14", "{hint}");
    }
    assert!(only.arrived().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_leave_the_only_address_is_not_asked_again() {
    let (client, [mut only]) = replicas(config());
    let call = send(&client, request(Method::GET, ""));
    only.next().await.answer(response(503, &[("retry-after", "0")]));
    let response = call.await.unwrap().unwrap();
    let attempts = response.extensions().get::<Attempts>().unwrap();
    assert_eq!((attempts.sent, attempts.given_up), (1, Some(Why::Replicas)));
}

#[tokio::test(start_paused = true)]
async fn the_budget_bounds_retries() {
    let retry = retry::Config { budget: 0.0, burst: 1, ..retry::Config::default() };
    let (client, [mut one, mut two]) = replicas(Config { retry, ..config() });
    let mut reasons = Vec::new();
    for _ in 0..2 {
        let call = send(&client, request(Method::GET, ""));
        one.next().await.answer(response(429, &[]));
        if reasons.is_empty() {
            two.next().await.answer(response(429, &[]));
        }
        let response = call.await.unwrap().unwrap();
        reasons.push(response.extensions().get::<Attempts>().unwrap().given_up.unwrap());
    }
    assert_eq!(reasons, [Why::Attempts, Why::Budget]);
    assert_eq!(client.retries().forbidden, 1);
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_object() {
    let heard = Arc::new(AtomicU32::new(0));
    let hook = {
        let heard = heard.clone();
        move |failure: &Failure<'_>| {
            assert_eq!((failure.replica, failure.end, failure.sent), ("0", End::Refused, 1));
            heard.fetch_add(1, Relaxed);
            failure.uri.path() != "/orders"
        }
    };
    let client = Replicas::with_hook(config(), hook).unwrap();
    let (mock_one, mut one) = mock();
    let (mock_two, mut two) = mock::<Sent>();
    client.insert("0", mock_one);
    client.insert("1", mock_two);
    let call = send(&client, request(Method::GET, ""));
    one.next().await.answer(response(429, &[]));
    assert_eq!(call.await.unwrap().unwrap().status(), 429);
    assert_eq!((heard.load(Relaxed), client.retries().retries), (1, 0));
    assert!(two.arrived().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_kept_is_sent_once() {
    let (client, [mut one, mut two]) = replicas(Config { replay_max: 4, ..config() });
    let call = send(&client, request(Method::GET, "12345"));
    let mut first = one.next().await;
    assert_eq!(body_of(&mut first).await, "12345");
    first.answer(response(429, &[]));
    assert_eq!(call.await.unwrap().unwrap().status(), 429);
    assert!(two.arrived().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn late_is_better_than_never_where_that_is_wanted() {
    let retry = retry::Config { last_resort: true, ..retry::Config::default() };
    let (client, [mut one, mut two]) = replicas(Config { retry, ..config() });
    let mut request = request(Method::POST, "x");
    request.extensions_mut().insert(CallOptions::default().with_budget(ms(2)));
    let call = send(&client, request);
    one.next().await.answer(response(503, &[("seawall", "stage=\"cpu\", predicted=3000")]));
    two.next().await.answer(response(503, &[("seawall", "stage=\"cpu\", predicted=9000")]));
    let last = one.next().await;
    assert_eq!((last.told().budget, last.told().attempt), (None, Some(2)));
    last.serve("");
    assert_eq!(call.await.unwrap().unwrap().status(), 200);
    assert_eq!(client.retries().last_resorts, 1);
}
