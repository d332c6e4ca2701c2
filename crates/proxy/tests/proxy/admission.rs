//! Who is let in, who waits, and who is refused.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use hyper::{Request, Response, StatusCode};
use seawall_proxy::config::{Known, Mode, Route, Trust};
use seawall_proxy::{Config, Proxy};
use tokio::task::JoinSet;

use crate::support::*;

/// By which a sender proves who it is.
const TOKEN: &str = "0123456789abcdef";

/// A gate with a limit that does not move, in front of this upstream.
fn gated(held: &Held, limit: u32, mode: Mode) -> Config {
    let mut config = config(&[held.upstream.address]);
    config.mode = mode;
    let gate = &mut upstream(&mut config).gate;
    (gate.limit.policy, gate.limit.fixed) = ("fixed".into(), limit);
    config
}

/// Sends so many requests, each on a connection of its own.
fn send(proxy: &Proxy, count: usize, make: fn() -> Request<Body>) -> JoinSet<(StatusCode, String)> {
    let address = proxy.address();
    let mut all = JoinSet::new();
    for _ in 0..count {
        all.spawn(async move {
            let response = Client::connect(address).await.send(make()).await;
            (response.status(), said(response).await)
        });
    }
    all
}

#[tokio::test]
async fn no_more_are_let_in_than_the_limit_and_the_rest_waits() {
    let held = Held::start().await;
    let proxy = Proxy::start(gated(&held, 3, Mode::Enforce)).unwrap();
    let mut all = send(&proxy, 20, || get("/"));
    until("three are in", async || held.upstream.requests() == 3).await;
    held.permits.add_permits(20);
    while let Some(done) = all.join_next().await {
        assert_eq!(done.unwrap(), (StatusCode::OK, "served".into()));
    }
    assert_eq!((held.upstream.requests(), held.most.load(SeqCst)), (20, 3));
}

#[tokio::test]
async fn an_observer_lets_everybody_in() {
    let held = Held::start().await;
    let proxy = Proxy::start(gated(&held, 1, Mode::Observe)).unwrap();
    let mut all = send(&proxy, 10, || get("/"));
    until("all are in", async || held.upstream.requests() == 10).await;
    held.permits.add_permits(10);
    while let Some(done) = all.join_next().await {
        assert_eq!(done.unwrap().0, 200);
    }
}

#[tokio::test]
async fn who_cannot_wait_any_longer_is_told_so() {
    let held = Held::start().await;
    let proxy = Proxy::start(gated(&held, 1, Mode::Enforce)).unwrap();
    let mut first = send(&proxy, 1, || get("/"));
    until("the first is in", async || held.upstream.requests() == 1).await;
    let with_deadline = || {
        let mut request = get("/");
        let field = "deadline=20000".parse().unwrap();
        request.headers_mut().insert("seawall", field);
        request
    };
    let mut client = Client::connect(proxy.address()).await;
    let response = client.send(with_deadline()).await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    let told = response.headers()["seawall"].to_str().unwrap();
    assert!(told.contains("stage=\"gate\""), "{told}");
    assert_eq!(held.upstream.requests(), 1, "the upstream has not seen it");
    held.permits.add_permits(1);
    assert_eq!(first.join_next().await.unwrap().unwrap().0, 200);
}

#[tokio::test]
async fn a_queue_that_is_full_refuses_at_once_and_says_when_to_come_back() {
    let held = Held::start().await;
    let mut config = gated(&held, 1, Mode::Enforce);
    upstream(&mut config).gate.queue_max = 1;
    let proxy = Proxy::start(config).unwrap();
    let mut waiting = send(&proxy, 1, || get("/"));
    until("one is in", async || held.upstream.requests() == 1).await;
    // One may wait. Which of these that is does not matter.
    let mut more = send(&proxy, 6, || get("/"));
    for _ in 0..5 {
        let (status, words) = more.join_next().await.unwrap().unwrap();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(words.starts_with("refused at gate"), "{words}");
    }
    let response = Client::connect(proxy.address()).await.get("/").await;
    let fields = response.headers();
    assert!(fields["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(fields["x-envoy-overloaded"], "true");
    assert_eq!(fields["proxy-status"], "seawall; error=http_request_denied");
    assert!(fields["seawall"].to_str().unwrap().contains("retry-after="));
    held.permits.add_permits(2);
    assert_eq!(waiting.join_next().await.unwrap().unwrap().0, 200);
    assert_eq!(more.join_next().await.unwrap().unwrap().0, 200);
}

#[tokio::test]
async fn refusals_are_told_in_grpcs_way() {
    let held = Held::start().await;
    let mut config = gated(&held, 1, Mode::Enforce);
    upstream(&mut config).gate.queue_max = 1;
    upstream(&mut config).protocol = seawall_proxy::config::Protocol::Http2;
    let proxy = Proxy::start(config).unwrap();
    let _waiting = send(&proxy, 2, || get("/"));
    until("one is in", async || held.upstream.requests() == 1).await;
    let mut client = http2(proxy.address()).await;
    until("the other waits", async || {
        let request = Request::post("http://a.example/x.Y/Z").header("te", "trailers");
        let request = request.header("content-type", "application/grpc");
        let request = request.header("grpc-timeout", "1n").body(empty()).unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        // Too late, if nothing was in the way.
        response.headers()["grpc-status"] == "4" || response.headers()["grpc-status"] == "14"
    })
    .await;
    let request = Request::post("http://a.example/x.Y/Z").header("te", "trailers");
    let request = request.header("content-type", "application/grpc").body(empty()).unwrap();
    let response = client.send_request(request).await.unwrap();
    let fields = response.headers();
    assert_eq!(fields["grpc-status"], "14", "{fields:?}");
    assert!(fields["grpc-retry-pushback-ms"].to_str().unwrap().parse::<u32>().unwrap() >= 1);
    held.permits.add_permits(10);
}

#[tokio::test]
async fn who_leaves_frees_its_place() {
    let held = Held::start().await;
    let proxy = Proxy::start(gated(&held, 1, Mode::Enforce)).unwrap();
    let inside = send(&proxy, 1, || get("/"));
    until("one is in", async || held.upstream.requests() == 1).await;
    let waiting = send(&proxy, 5, || get("/"));
    drop(waiting); // from the queue
    drop(inside); // from the upstream
    let mut last = send(&proxy, 1, || get("/"));
    until("the place is free", async || {
        held.permits.add_permits(1);
        last.try_join_next().is_some_and(|done| done.unwrap().0 == 200)
    })
    .await;
}

#[tokio::test]
async fn a_place_is_held_until_the_response_has_ended() {
    let (pieces, stream) = tokio::sync::mpsc::channel::<Result<_, std::io::Error>>(1);
    let stream = Arc::new(parking_lot::Mutex::new(Some(stream)));
    let upstream = Upstream::start(move |_| {
        let stream = stream.lock().take();
        async move {
            match stream {
                None => Response::new(text("second")),
                Some(stream) => Response::new(body(http_body_util::StreamBody::new(
                    tokio_stream::wrappers::ReceiverStream::new(stream),
                ))),
            }
        }
    })
    .await;
    let mut config = config(&[upstream.address]);
    config.mode = Mode::Enforce;
    let gate = &mut crate::support::upstream(&mut config).gate;
    (gate.limit.policy, gate.limit.fixed) = ("fixed".into(), 1);
    let proxy = Proxy::start(config).unwrap();
    let first = Client::connect(proxy.address()).await.get("/").await;
    let mut second = send(&proxy, 1, || get("/"));
    pieces.send(Ok(hyper::body::Frame::data("a".into()))).await.unwrap();
    assert!(second.try_join_next().is_none() && upstream.requests() == 1);
    drop(pieces);
    assert_eq!(said(first).await, "a");
    assert_eq!(second.join_next().await.unwrap().unwrap().1, "second");
}

#[tokio::test]
async fn routes_have_classes_and_some_may_not_be_refused() {
    let held = Held::start().await;
    let mut config = gated(&held, 1, Mode::Enforce);
    upstream(&mut config).gate.queue_max = 1;
    config.routes = vec![
        Route {
            path: "/vital".into(),
            class: Some("vital".into()),
            droppable: false,
            ..Route::default()
        },
        Route::default(),
    ];
    let proxy = Proxy::start(config).unwrap();
    let mut all = send(&proxy, 1, || get("/"));
    until("one is in", async || held.upstream.requests() == 1).await;
    let mut vital = send(&proxy, 5, || get("/vital"));
    held.permits.add_permits(6);
    while let Some(done) = vital.join_next().await {
        assert_eq!(done.unwrap().0, 200);
    }
    assert_eq!(all.join_next().await.unwrap().unwrap().0, 200);
}

#[tokio::test]
async fn claims_count_only_where_they_are_believed() {
    let vital = Known {
        name: "vital".into(),
        token: Some(TOKEN.into()),
        not_droppable: true,
        ..Known::default()
    };
    let known = Known { not_droppable: false, ..vital.clone() };
    for (trust, refused) in [
        (Trust::default(), true),
        (Trust { everybody: true, ..Trust::default() }, false),
        (Trust { identities: vec![known], ..Trust::default() }, true),
        (Trust { identities: vec![vital], ..Trust::default() }, false),
    ] {
        let held = Held::start().await;
        let mut config = gated(&held, 1, Mode::Enforce);
        config.trust = trust.clone();
        upstream(&mut config).gate.queue_max = 1;
        let proxy = Proxy::start(config).unwrap();
        let mut all = send(&proxy, 1, || get("/"));
        until("one is in", async || held.upstream.requests() == 1).await;
        let mut more = send(&proxy, 5, || {
            let mut request = get("/");
            request.headers_mut().insert("seawall", "droppable=?0".parse().unwrap());
            request.headers_mut().insert("seawall-token", TOKEN.parse().unwrap());
            request
        });
        let mut seen = BTreeSet::new();
        if refused {
            for _ in 0..4 {
                seen.insert(more.join_next().await.unwrap().unwrap().0);
            }
            assert_eq!(seen, BTreeSet::from([StatusCode::SERVICE_UNAVAILABLE]));
        }
        held.permits.add_permits(6);
        while let Some(done) = more.join_next().await {
            assert_eq!(done.unwrap().0, 200, "{trust:?}");
        }
        all.join_next().await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn who_must_be_known_and_is_not_is_sent_away() {
    let upstream = Upstream::start(|request| async move {
        let has_token = request.headers().contains_key("seawall-token");
        Response::new(text(if has_token { "with its token" } else { "well" }))
    })
    .await;
    let mut config = config(&[upstream.address]);
    let known = Known { name: "web".into(), token: Some(TOKEN.into()), ..Known::default() };
    config.trust = Trust { require_identity: true, identities: vec![known], everybody: false };
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    let refused = client.get("/").await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert!(!refused.headers().contains_key("retry-after"));
    let mut request = get("/");
    request.headers_mut().insert("seawall-token", TOKEN.parse().unwrap());
    assert_eq!(said(client.send(request).await).await, "well");
    let mut client = http2(proxy.address()).await;
    let request = Request::post("http://a.example/x.Y/Z");
    let request = request.header("content-type", "application/grpc").body(empty()).unwrap();
    let refused = client.send_request(request).await.unwrap();
    assert_eq!(refused.headers()["grpc-status"], "16");
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn refusals_behind_are_passed_on_and_go_elsewhere_first() {
    const REFUSAL: &[(&str, &str)] =
        &[("seawall", "stage=\"lock:orders\", predicted=5000"), ("retry-after", "1")];
    let busy = Upstream::with_status(StatusCode::SERVICE_UNAVAILABLE, REFUSAL).await;
    let well = Upstream::saying("well").await;
    let mut config = config(&[busy.address, well.address]);
    config.mode = Mode::Enforce;
    let one = upstream(&mut config);
    one.balance.choose = seawall_control::replica::Selection::First;
    let proxy = Proxy::start(config.clone()).unwrap();
    let response = Client::connect(proxy.address()).await.send(post("/", text("x"))).await;
    assert_eq!(said(response).await, "well");
    upstream(&mut config).replicas.pop();
    let proxy = Proxy::start(config).unwrap();
    let response = Client::connect(proxy.address()).await.get("/").await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["seawall"], "stage=\"lock:orders\", predicted=5000");
}

#[tokio::test]
async fn each_algorithm_lets_a_light_load_pass() {
    for algorithm in seawall_control::admission::NAMES {
        let well = Upstream::saying("well").await;
        let mut config = config(&[well.address]);
        config.mode = Mode::Enforce;
        let upstream = upstream(&mut config);
        upstream.admission.algorithm = algorithm.into();
        upstream.slo = Some(Duration::from_secs(10));
        let proxy = Proxy::start(config).unwrap();
        let mut client = Client::connect(proxy.address()).await;
        for _ in 0..200 {
            assert_eq!(said(client.get("/").await).await, "well", "{algorithm}");
        }
    }
}
