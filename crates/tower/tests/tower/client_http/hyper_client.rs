//! hyper-util's client, of one server and of several.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use seawall_control::replica::Selection;
use seawall_tower::client::{Attempts, Config, Layer, Replay, Replicas, Toward};
use tower::ServiceExt;
use tower_layer::Layer as _;

use super::servers::{Server, nobody, response};

type Body = Full<Bytes>;
type Member = Toward<Client<HttpConnector, Replay<Body>>>;

/// A client that asks the first origin first. All share one pool of connections.
fn replicas<const N: usize>(origins: [&str; N]) -> Replicas<Member> {
    let mut config = Config::named("orders");
    config.admission.client.replicas.choose = Selection::First;
    let replicas = Replicas::new(config).unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http();
    for origin in origins {
        replicas.insert(origin, Toward::new(client.clone(), origin).unwrap());
    }
    replicas
}

fn post(body: &'static str) -> Request<Body> {
    let body = Full::new(Bytes::from_static(body.as_bytes()));
    Request::builder().method(Method::POST).uri("/orders?x=1").body(body).unwrap()
}

#[tokio::test]
async fn one_server() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(|request| {
        assert!(request.headers()["seawall"].to_str().unwrap().starts_with("client=\""));
        response(200, &[("seawall", "window=8, seq=1")], request.uri().path().to_owned())
    })
    .await;
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build_http();
    let client = Layer::new(Config::named("orders"))?.layer(client);
    for _ in 0..3 {
        let request = Request::get(format!("{}/items", server.origin())).body(Body::default())?;
        let response = client.clone().oneshot(request).await?;
        assert_eq!(response.into_body().collect().await?.to_bytes(), "/items");
    }
    assert_eq!((client.outstanding(), server.connections()), (0, 1));
    Ok(())
}

#[tokio::test]
async fn what_one_replica_refuses_another_one_serves() -> Result<(), Box<dyn std::error::Error>> {
    let busy = Server::start(|_| {
        let told = "stage=\"lock:orders\", predicted=9000, retry-after=12000";
        response(503, &[("seawall", told), ("retry-after", "1")], "busy")
    })
    .await;
    let free = Server::start(|request| response(200, &[], request.body().clone())).await;
    let client = replicas([&busy.origin(), &free.origin()]);
    for times in 1..=5 {
        let response = client.clone().oneshot(post("payload")).await?;
        let attempts = *response.extensions().get::<Attempts>().unwrap();
        assert_eq!((response.status().as_u16(), attempts.sent), (200, 2));
        assert_eq!(response.into_body().collect().await?.to_bytes(), "payload");
        // A lock of its own is in the way of some requests only, so it is asked again each time.
        assert_eq!((busy.requests(), free.requests()), (times, times));
    }
    assert_eq!(busy.connections(), 1, "refusals are read, so their connection is used again");
    Ok(())
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_sent() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(|request| response(200, &[], request.body().clone())).await;
    let client = replicas([&nobody().await, &server.origin()]);
    let response = client.clone().oneshot(post("payload")).await?;
    assert_eq!(response.extensions().get::<Attempts>().unwrap().sent, 1);
    assert_eq!(response.into_body().collect().await?.to_bytes(), "payload");
    assert_eq!(client.retries().moves, 1);
    Ok(())
}
