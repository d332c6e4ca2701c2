//! The example for axum.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get as route;
use http::StatusCode;
use seawall_control::controller::Feedback;
use seawall_control::request::{Budget, RefusalReason};
use seawall_tower::Context;
use seawall_tower::server::{Config, Layer, Listener, Monitor};

use super::support::{LONG, connect, field, get, patient, request, until, within};

#[path = "../../../examples/axum.rs"]
mod example;

async fn start(app: Router) -> SocketAddr {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(example::serve(listener, app));
    address
}

async fn shop(config: Config) -> (SocketAddr, Arc<example::Shop>, Monitor) {
    let (shop, layer) = (example::Shop::new(100), example::layer(config));
    let monitor = layer.monitor();
    (start(example::app(shop.clone(), layer)).await, shop, monitor)
}

#[tokio::test]
async fn who_asks_for_credits_is_told_of_them() {
    let (server, _, monitor) = shop(Config { slo: LONG, ..Config::default() }).await;
    let response = get(server, "/buy/1", &[("seawall", "client=\"a\", demand=2")]).await;
    assert_eq!((response.status(), response.body().as_str()), (StatusCode::OK, "99 left"));
    let told = field(response.headers()).unwrap();
    assert!(matches!(told.feedback, Feedback::Window { size: 1.., .. }), "{told:?}");
    assert!(told.queue.is_some() && told.service.is_some() && told.stage.is_none());

    let response = get(server, "/", &[]).await;
    assert_eq!((response.status(), field(response.headers())), (StatusCode::OK, None));
    let stats = monitor.stats();
    let requests = stats.classes.iter().map(|class| (class.class.as_str(), class.completions));
    assert!(requests.eq([("other", 1), ("buy", 1)]), "{stats:?}");
    assert_eq!((stats.sessions, stats.outstanding), (1, 0));
}

#[tokio::test]
async fn a_lock_refuses_by_the_request_s_own_context() {
    let budget = Duration::from_millis(20);
    let config = Config { budget: Budget::Fixed(budget), ..patient() };
    let (server, shop, monitor) = shop(config).await;
    let held = shop.stock().lock_plain().await;
    let waiting = tokio::spawn(async move { get(server, "/buy/1", &[]).await });
    // Once it has waited for longer than the next may, that one is refused.
    until(|| shop.stock().snapshot().oldest > 2 * budget).await;
    let response = get(server, "/buy/1", &[]).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let told = field(response.headers()).unwrap();
    assert_eq!(told.stage.unwrap().as_str(), "lock:stock");
    assert!(told.predicted.unwrap() > budget);
    let seconds: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!(seconds >= 1);
    assert_eq!(response.headers()["x-envoy-overloaded"], "true");

    drop(held);
    assert_eq!(waiting.await.unwrap().body(), "99 left");
    let total = monitor.stats().total();
    let why = ("lock:stock".to_owned(), RefusalReason::Budget);
    assert_eq!((total.completions, total.refusals), (1, [(why, 1)].into()));
}

#[tokio::test]
async fn who_does_not_wait_any_more_is_told_so() {
    let (server, _, monitor) = shop(patient()).await;
    let unlimited = ("x-envoy-expected-rq-timeout-ms", "0");
    assert_eq!(get(server, "/", &[unlimited]).await.status(), StatusCode::OK);
    let response = get(server, "/", &[unlimited, ("seawall", "deadline=0")]).await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    assert!(!response.headers().contains_key("retry-after"));
    assert_eq!(field(response.headers()).unwrap().retry_after, None);
    assert_eq!(monitor.stats().total().refused(), 1);
}

#[tokio::test]
async fn a_client_that_goes_away_frees_its_place() {
    let (server, shop, monitor) = shop(patient()).await;
    let held = shop.stock().lock_plain().await;
    let mut connection = connect(server).await;
    let waiting = tokio::spawn(async move {
        let response = connection.send_request(request("/buy/1", &[])).await;
        drop((response, connection));
    });
    until(|| monitor.stats().outstanding == 1).await;
    waiting.abort();
    until(|| monitor.stats().outstanding == 0).await;
    let total = monitor.stats().total();
    assert_eq!((total.requests, total.cancellations, total.completions), (1, 1, 0));
    drop(held);
}

/// Bytes that nobody reads wait, and so does a task that nobody polls; a handler that is asked too
/// late is not asked at all.
#[test]
fn waits_in_front_of_the_handler_count() {
    const REQUESTS: usize = 30;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // One thread that each handler blocks for 20 ms: the fifth has waited for 80 ms.
    let block = || async { std::thread::sleep(Duration::from_millis(20)) };
    let budget = Budget::Fixed(Duration::from_millis(70));
    let layer = Layer::new(Config { budget, ..patient() }).unwrap();
    let monitor = layer.monitor();
    let app = Router::new().route("/", route(block)).layer(layer);
    let server = runtime.block_on(start(app));
    let clients = std::thread::spawn(move || {
        let clients = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        clients.block_on(async {
            let mut calls = tokio::task::JoinSet::new();
            for _ in 0..REQUESTS {
                calls.spawn(async move { get(server, "/", &[]).await });
            }
            within(calls.join_all()).await
        })
    });
    while !clients.is_finished() {
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
    }
    let responses = clients.join().unwrap();
    let refused = responses.iter().filter(|response| response.status() == 503);
    let stages: Vec<_> =
        refused.map(|response| field(response.headers()).unwrap().stage.unwrap()).collect();
    // The kernel begins with its stamps a little after it is asked to; then the canary knows.
    let by_stamp = stages.iter().filter(|stage| stage.as_str() == "socket").count();
    let by_canary = stages.iter().filter(|stage| stage.as_str() == "run_queue").count();
    assert_eq!(by_stamp + by_canary, stages.len(), "{stages:?}");
    let served = responses.iter().filter(|response| response.status() == 200).count();
    assert_eq!((stages.len() + served, served > 0), (REQUESTS, true));
    // Whoever was read after four others had been served had waited for longer than it may.
    assert!(by_stamp >= REQUESTS / 2, "{stages:?}");
    let waits = &monitor.stats().waits[&seawall_control::request::Stage::SOCKET];
    assert!(waits.count() >= by_stamp as u64);
}

#[tokio::test]
async fn a_draining_server_refuses_what_is_new_and_ends_what_is_old() {
    let (server, shop, monitor) = shop(patient()).await;
    let held = shop.stock().lock_plain().await;
    let old = tokio::spawn(async move { get(server, "/buy/1", &[]).await });
    until(|| monitor.stats().outstanding == 1).await;
    monitor.drain();
    assert_eq!(get(server, "/", &[]).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let drained = tokio::spawn({
        let monitor = monitor.clone();
        async move { monitor.drained().await }
    });
    drop(held);
    assert_eq!(old.await.unwrap().status(), StatusCode::OK);
    within(drained).await.unwrap();
    let why = ("admission".to_owned(), RefusalReason::Shutdown);
    assert_eq!(monitor.stats().total().refusals, [(why, 1)].into());
}

#[tokio::test]
async fn a_handler_knows_what_its_request_has_left() {
    let left = |context: Context| async move { format!("{:?}", context.remaining_now()) };
    let layer = Layer::new(patient()).unwrap();
    let server = start(Router::new().route("/", route(left)).layer(layer)).await;
    assert_eq!(get(server, "/", &[]).await.body(), &format!("{:?}", Duration::MAX));
    let hurried = get(server, "/", &[("seawall", "deadline=30000000")]).await;
    assert!(hurried.body().starts_with("29."), "{hurried:?}");

    let bare = start(Router::new().route("/", route(left))).await;
    assert_eq!(get(bare, "/", &[]).await.status(), StatusCode::INTERNAL_SERVER_ERROR);
}
