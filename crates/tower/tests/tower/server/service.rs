//! The service by itself, under an algorithm that does what the test says.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use seawall_control::controller::Feedback;
use seawall_control::request::{Priority, Tenant};
use seawall_control::trust::{Known, Trust};
use seawall_tower::Context;
use seawall_tower::server::{Body, Config, Layer, Mode, Refused};
use tower::{Service, ServiceExt, service_fn};
use tower_layer::Layer as _;

use super::mock::Mock;
use super::support::{field, patient};

fn layer(mock: &Mock, config: Config) -> Layer {
    Layer::builder(config).algorithm(Arc::new(mock.clone())).build().unwrap()
}

fn request(headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().uri("/");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

type Sent = Response<Body<Full<Bytes>>>;

/// What becomes of a request that a handler answers with what is left of it.
async fn ask(layer: &Layer, headers: &[(&str, &str)]) -> Sent {
    let handler = service_fn(|request: Request<()>| {
        let context = request.extensions().get::<Context>().expect("the layer has put it there");
        assert!(!request.headers().contains_key("seawall-token"), "nobody's business");
        ready(Ok::<_, Infallible>(Response::new(Full::from(format!("{:?}", context.claims())))))
    });
    layer.layer(handler).oneshot(request(headers)).await.unwrap()
}

async fn trailers_of(body: Body<Full<Bytes>>) -> Option<HeaderMap> {
    body.collect().await.unwrap().trailers().cloned()
}

#[tokio::test]
async fn a_refused_request_is_complete_and_its_handler_has_not_run() {
    let mock = Mock::default();
    let layer = layer(&mock, patient());
    let never = service_fn(|_: Request<()>| async {
        panic!("the handler runs");
        #[allow(unreachable_code)]
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    for at_entry in [true, false] {
        mock.books(|books| (books.refuses, books.refuses_dequeues) = (at_entry, true));
        let response = layer.layer(never).oneshot(request(&[])).await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        let told = field(response.headers()).unwrap();
        assert_eq!(told.stage.unwrap().as_str(), if at_entry { "admission" } else { "run_queue" });
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "");
    }
    assert_eq!(mock.in_flight(), 0);
    assert_eq!(mock.books(|books| books.outcomes.clone()), [("refused", 2)].into());
}

#[tokio::test]
async fn an_observer_refuses_nothing_and_counts_what_it_would() {
    let mock = Mock::default();
    let layer = layer(&mock, Config { mode: Mode::Observe, ..patient() });
    mock.books(|books| (books.refuses, books.refuses_dequeues) = (true, true));
    for _ in 0..3 {
        let response = ask(&layer, &[("grpc-timeout", "0n"), ("seawall", "budget=0")]).await;
        assert_eq!(response.status(), StatusCode::OK);
        let told = field(response.headers()).unwrap();
        assert_eq!(told.feedback, Feedback::None, "a window would hold the client back");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let claims = String::from_utf8(body.into()).unwrap();
        assert!(claims.contains("deadline: None, budget: None"), "{claims}");
    }
    let total = layer.monitor().stats().total();
    assert_eq!((total.completions, total.refused()), (3, 0));
    assert_eq!(total.observed.values().sum::<u64>(), 6, "at entry and at the run queue");
    assert_eq!(mock.books(|books| books.outcomes.clone()), [("done", 3)].into());
}

#[tokio::test]
async fn claims_are_believed_of_those_who_are_trusted() {
    let known = Known {
        name: "billing".into(),
        token: Some("0123456789abcdef".into()),
        tenant: 7,
        not_droppable: true,
        ..Known::default()
    };
    let trust = Trust { identities: vec![known], ..Trust::default() };
    let mock = Mock::default();
    let layer = layer(&mock, Config { trust, ..patient() });
    let claims = ("seawall", "client=\"a\", priority=2, tenant=9, droppable=?0, demand=4, ack=6");
    ask(&layer, &[claims]).await;
    ask(&layer, &[claims, ("seawall-token", "0123456789abcdef")]).await;
    mock.books(|books| {
        let [stranger, known] = &books.arrivals[..] else { panic!("{books:?}") };
        assert_eq!((stranger.priority, stranger.tenant), (Priority::default(), Tenant(0)));
        assert_eq!((known.priority, known.tenant), (Priority(2), Tenant(7)));
        assert_eq!((stranger.droppable, known.droppable), (true, false));
        assert_eq!((known.demand, known.window_ack), (4, 6));
        assert_ne!(known.session, stranger.session, "of the same name, and not the same");
    });
    let stats = layer.monitor().stats();
    assert_eq!((stats.privilege_violations, stats.sessions), (1, 2));
}

#[tokio::test]
async fn strangers_can_be_shut_out() {
    let known = Known { token: Some("0123456789abcdef".into()), ..Known::default() };
    let trust = Trust { identities: vec![known], require_identity: true, ..Trust::default() };
    let mock = Mock::default();
    let layer = layer(&mock, Config { trust, ..patient() });
    assert_eq!(ask(&layer, &[]).await.status(), StatusCode::UNAUTHORIZED);
    let by_grpc = ask(&layer, &[("content-type", "application/grpc")]).await;
    assert_eq!(by_grpc.headers()["grpc-status"], "16");
    let token = ("seawall-token", "0123456789abcdef");
    assert_eq!(ask(&layer, &[token]).await.status(), StatusCode::OK);
    assert_eq!(
        (mock.books(|books| books.arrivals.len()), layer.monitor().stats().unidentified),
        (1, 2)
    );
}

#[tokio::test]
async fn what_is_not_understood_is_counted_and_does_no_harm() {
    let layer = layer(&Mock::default(), patient());
    for header in [("seawall", "a=1, demand=x"), ("seawall", "=="), ("grpc-timeout", "soon")] {
        assert_eq!(ask(&layer, &[header]).await.status(), StatusCode::OK);
    }
    let stats = layer.monitor().stats();
    assert_eq!((stats.fields_ignored, stats.fields_malformed), (3, 1));
}

/// A service in between, such as a proxy, passes on what the one behind it said.
#[tokio::test]
async fn a_refusal_from_behind_keeps_its_words_and_gets_our_window() {
    let mock = Mock::default();
    let layer = layer(&mock, patient());
    let behind = service_fn(|_: Request<()>| {
        let response = Response::builder()
            .status(429)
            .header("retry-after", "30")
            .header("seawall", "window=1, seq=1, stage=\"lock:orders\", predicted=9400")
            .body(Full::<Bytes>::from("busy"));
        ready(Ok::<_, Infallible>(response.unwrap()))
    });
    let response = layer.layer(behind).oneshot(request(&[])).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (429, &"30".parse().unwrap())
    );
    let told = field(response.headers()).unwrap();
    assert_eq!(told.stage.unwrap().as_str(), "lock:orders");
    assert_eq!(told.feedback, Feedback::Window { size: 3, seq: 7 });
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "busy");
    assert_eq!(mock.books(|books| books.outcomes.clone()), [("refused", 1)].into());
    assert_eq!(layer.monitor().stats().total().refused(), 1);
}

#[tokio::test]
async fn a_response_that_has_no_body_is_complete_with_its_head() {
    let mock = Mock::default();
    let layer = layer(&mock, patient());
    let handler = service_fn(|request: Request<()>| {
        let status = request.uri().path()[1..].parse().unwrap_or(200);
        let response = Response::builder().status(status).body(Full::<Bytes>::from("text"));
        ready(Ok::<_, Infallible>(response.unwrap()))
    });
    let mut service = layer.layer(handler);
    for (method, path, done) in
        [("HEAD", "/", 1), ("GET", "/204", 1), ("GET", "/304", 1), ("GET", "/", 0)]
    {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        let before = mock.books(|books| books.completions.len());
        let response = service.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(mock.books(|books| books.completions.len()) - before, done, "{method} {path}");
        drop(response);
    }
    assert_eq!(mock.in_flight(), 0);
}

#[tokio::test]
async fn errors_of_the_server_are_failures_and_its_refusals_are_not() {
    let mock = Mock::default();
    let layer = layer(&mock, patient());
    let handler = service_fn(|request: Request<()>| {
        ready(match request.uri().path() {
            "/fails" => Err("no"),
            "/refuses" => {
                let stage = seawall_control::request::Stage(20);
                let rejected = seawall_control::request::Rejected::overload(stage, patient().rtt);
                Ok(Refused(rejected).response::<Full<Bytes>>())
            }
            path => {
                let response = Response::builder().status(&path[1..]);
                Ok(response.body(Full::default()).unwrap())
            }
        })
    });
    for path in ["/fails", "/500", "/404", "/refuses"] {
        let request = Request::builder().uri(path).body(()).unwrap();
        if let Ok(response) = layer.layer(handler).oneshot(request).await {
            trailers_of(response.into_body()).await;
        }
    }
    let total = layer.monitor().stats().total();
    assert_eq!((total.failures, total.completions), (2, 1));
    assert_eq!(total.refusals.keys().next().unwrap().0, "stage 20");
    assert_eq!(mock.books(|books| books.outcomes.clone()), [("done", 3), ("refused", 1)].into());
}
