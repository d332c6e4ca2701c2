//! Several replicas: choice, second tries, and who is left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::{Method, Response, StatusCode};
use seawall_control::replica::Selection;
use seawall_proxy::Proxy;
use seawall_proxy::config::Probe;
use tokio::io::AsyncWriteExt;

use crate::support::*;

/// A proxy that always tries the first replica first.
fn in_order(replicas: &[std::net::SocketAddr]) -> seawall_proxy::Config {
    let mut config = config(replicas);
    let upstream = upstream(&mut config);
    upstream.balance.choose = Selection::First;
    upstream.retry.burst = 1000;
    upstream.health.eject_after = 0;
    config
}

const OVERLOADED: &[(&str, &str)] = &[("x-envoy-overloaded", "true")];

#[tokio::test]
async fn who_cannot_be_reached_costs_no_request() {
    let well = Upstream::saying("well").await;
    let mut config = in_order(&[nobody().await, well.address]);
    upstream(&mut config).retry.budget = 0.0;
    upstream(&mut config).retry.burst = 0;
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    for _ in 0..20 {
        let response = client.send(post("/", text("body"))).await;
        assert_eq!(said(response).await, "well", "nothing was sent, so nothing is risked");
    }
}

#[tokio::test]
async fn what_was_refused_is_sent_elsewhere_with_its_body() {
    let busy = Upstream::with_status(StatusCode::SERVICE_UNAVAILABLE, OVERLOADED).await;
    let well = Upstream::start(|request| async {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Response::new(crate::support::body(http_body_util::Full::new(body)))
    })
    .await;
    let proxy = Proxy::start(in_order(&[busy.address, well.address])).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    for _ in 0..20 {
        let response = client.send(post("/", text("the body"))).await;
        assert_eq!(response.status(), 200);
        assert_eq!(said(response).await, "the body");
    }
    assert_eq!((busy.requests(), well.requests()), (20, 20));
}

#[tokio::test]
async fn a_body_that_is_too_long_to_keep_is_sent_once() {
    let busy = Upstream::start(|request| async {
        let _ = request.into_body().collect().await;
        let response = Response::builder().status(503).header("x-envoy-overloaded", "true");
        response.body(empty()).unwrap()
    })
    .await;
    let well = Upstream::saying("well").await;
    let mut config = in_order(&[busy.address, well.address]);
    config.limits.retry_bytes = 10;
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    let response = client.send(post("/", text("0123456789"))).await;
    assert_eq!(said(response).await, "well", "as long as may be kept");
    let response = client.send(post("/", text("0123456789+"))).await;
    assert_eq!(response.status(), 503);
}

#[tokio::test]
async fn an_ordinary_503_is_the_applications() {
    let busy = Upstream::with_status(StatusCode::SERVICE_UNAVAILABLE, &[]).await;
    let well = Upstream::saying("well").await;
    let proxy = Proxy::start(in_order(&[busy.address, well.address])).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    assert_eq!(client.get("/").await.status(), 503);
    assert_eq!(well.requests(), 0);
}

/// An upstream that takes requests and closes instead of an answer.
async fn dying() -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    let address = raw(move |mut tcp, _| {
        let counter = counter.clone();
        async move {
            if !read_head(&mut tcp).await.is_empty() {
                counter.fetch_add(1, SeqCst);
            }
        }
    })
    .await;
    (address, seen)
}

#[tokio::test]
async fn what_was_lost_is_sent_again_only_if_it_may_run_twice() {
    let (dying, seen) = dying().await;
    let well = Upstream::saying("well").await;
    let proxy = Proxy::start(in_order(&[dying, well.address])).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    assert_eq!(said(client.get("/").await).await, "well");
    let response = client.send(post("/", empty())).await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(response.headers()["proxy-status"], "seawall; error=connection_terminated");
    let mut put = post("/", text("x"));
    *put.method_mut() = Method::PUT;
    assert_eq!(said(client.send(put).await).await, "well");
    assert_eq!((seen.load(SeqCst), well.requests()), (3, 2));
}

#[tokio::test]
async fn a_route_may_say_that_its_requests_may_run_twice() {
    let (dying, _) = dying().await;
    let well = Upstream::saying("well").await;
    let mut config = in_order(&[dying, well.address]);
    let route = seawall_proxy::config::Route { idempotent: Some(true), ..Default::default() };
    config.routes.push(route);
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    assert_eq!(said(client.send(post("/", text("x"))).await).await, "well");
}

#[tokio::test]
async fn retries_are_bounded_by_the_budget() {
    let busy = Upstream::with_status(StatusCode::SERVICE_UNAVAILABLE, OVERLOADED).await;
    let other = Upstream::with_status(StatusCode::SERVICE_UNAVAILABLE, OVERLOADED).await;
    let mut config = in_order(&[busy.address, other.address]);
    upstream(&mut config).retry.budget = 0.1;
    upstream(&mut config).retry.burst = 5;
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    for _ in 0..100 {
        assert_eq!(client.get("/").await.status(), 503);
    }
    // The first call finds a full bucket, and earns nothing.
    assert_eq!(busy.requests() + other.requests(), 100 + 5 + 9);
}

#[tokio::test]
async fn who_fails_again_and_again_is_left_out_for_a_while() {
    let (dying, seen) = dying().await;
    let well = Upstream::saying("well").await;
    let mut config = in_order(&[dying, well.address]);
    upstream(&mut config).health.eject_after = 3;
    upstream(&mut config).health.eject_for = Duration::from_secs(3600);
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    for _ in 0..20 {
        assert_eq!(said(client.get("/").await).await, "well");
    }
    assert_eq!(seen.load(SeqCst), 3);
}

#[tokio::test]
async fn the_last_that_is_well_is_not_left_out() {
    let ((one, seen_by_one), (other, seen_by_other)) = (dying().await, dying().await);
    let mut config = in_order(&[one, other]);
    upstream(&mut config).health.eject_after = 3;
    upstream(&mut config).health.eject_for = Duration::from_secs(3600);
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    for _ in 0..20 {
        let response = client.send(post("/", empty())).await;
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    }
    let seen = (seen_by_one.load(SeqCst), seen_by_other.load(SeqCst));
    assert_eq!(seen, (3, 17), "were both left out, the first would be asked again");
}

#[tokio::test]
async fn probes_leave_out_who_is_not_well_and_take_back_who_is() {
    let is_well = Arc::new(AtomicBool::new(false));
    let state = is_well.clone();
    let sick = Upstream::start(move |request| {
        let state = state.clone();
        async move {
            let probed = request.uri() == "/healthz";
            let status = if !probed || state.load(SeqCst) { 200 } else { 500 };
            Response::builder().status(status).body(text("first")).unwrap()
        }
    })
    .await;
    let well = Upstream::saying("second").await;
    let mut config = in_order(&[sick.address, well.address]);
    let health = &mut upstream(&mut config).health;
    health.probe = Probe::Http("/healthz".into());
    health.interval = Duration::from_millis(5);
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    until("it is left out", async || said(client.get("/").await).await == "second").await;
    is_well.store(true, SeqCst);
    until("it is taken back", async || said(client.get("/").await).await == "first").await;
    is_well.store(false, SeqCst);
    until("it is left out again", async || said(client.get("/").await).await == "second").await;
}

#[tokio::test]
async fn when_nobody_is_well_all_are_tried() {
    let sick = Upstream::start(|request| async move {
        let status = if request.uri() == "/healthz" { 500 } else { 200 };
        Response::builder().status(status).body(text("still there")).unwrap()
    })
    .await;
    let mut config = config(&[sick.address]);
    let health = &mut upstream(&mut config).health;
    health.probe = Probe::Http("/healthz".into());
    health.interval = Duration::from_millis(5);
    let proxy = Proxy::start(config).unwrap();
    until("it was asked", async || sick.requests() > 3).await;
    let mut client = Client::connect(proxy.address()).await;
    assert_eq!(said(client.get("/").await).await, "still there");
}

#[tokio::test]
async fn a_connection_that_its_server_closed_meanwhile_is_no_failure() {
    // Each connection serves one request and is closed then, without a word about it.
    let address = raw(|mut tcp, _| async move {
        read_head(&mut tcp).await;
        tcp.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
    })
    .await;
    let proxy = proxy(&[address]);
    let mut client = Client::connect(proxy.address()).await;
    for _ in 0..20 {
        assert_eq!(said(client.get("/").await).await, "ok");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn nobody_there_is_a_502_and_a_name_without_address_as_well() {
    let here = proxy(&[nobody().await]);
    let mut client = Client::connect(here.address()).await;
    let response = client.get("/").await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(response.headers()["proxy-status"], "seawall; error=connection_refused");

    let mut config = config(&[]);
    upstream(&mut config).replicas = vec!["http://nobody.invalid:80".parse().unwrap()];
    let proxy = Proxy::start(config).unwrap();
    let response = Client::connect(proxy.address()).await.get("/").await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(response.headers()["proxy-status"], "seawall; error=dns_error");
}
