//! A service for clients of all kinds: HTTP/1.1, HTTP/2 without TLS, and gRPC at one address.
//!
//! It can do 200 requests in a second, of `/work` and of `UnaryCall` together, and refuses whom it
//! could not answer within 400 ms. `scripts/interop-http` drives it with stock clients; by hand:
//! `cargo run -p seawall-tower --example interop`. It ends with its standard input.

mod grpc;
mod messages;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::routing::{any, get};
use bytes::Bytes;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use seawall_control::request::Stage;
use seawall_measure::names;
use seawall_sync::Semaphore;
use seawall_tower::Context;
use seawall_tower::server::{Config, Connection, Layer, Limits, Listener, Refused};
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_stream::StreamExt;

/// What refusals and metrics call the places by.
const PLACES: (Stage, &str) = (Stage(Stage::FIRST_OWN), "places");

/// So many requests are worked on at once, each for so long.
const COUNT: u32 = 4;
const HOLD: Duration = Duration::from_millis(20);

/// What is good enough.
const SLO: Duration = Duration::from_millis(400);

/// One client that names itself may have so many outstanding; the others together any number.
const OUTSTANDING: u32 = 6;

/// What requests wait for.
#[derive(Debug)]
struct Places(Semaphore);

impl Places {
    /// Works on a request, if that can wait for a place.
    async fn work(&self, context: &Context) -> Result<(), Refused> {
        let _place = self.0.acquire(context).await?;
        sleep(HOLD).await;
        Ok(())
    }
}

async fn work(
    context: Context,
    State(places): State<Arc<Places>>,
) -> Result<&'static str, Refused> {
    places.work(&context).await?;
    Ok("done\n")
}

/// Sends back what comes, while it comes.
async fn echo(request: Request) -> Body {
    request.into_body()
}

/// For clients that do not wait so long.
async fn slow() -> &'static str {
    sleep(Duration::from_secs(600)).await;
    "done\n"
}

/// For clients that do not read so much.
async fn endless() -> Body {
    static CHUNK: [u8; 1 << 16] = [0; 1 << 16];
    let chunks = tokio_stream::iter(std::iter::repeat(Bytes::from_static(&CHUNK)));
    Body::from_stream(chunks.map(Ok::<_, std::convert::Infallible>))
}

fn app(layer: Layer) -> Router {
    let places = Arc::new(Places(Semaphore::new(COUNT).at(PLACES.0, PLACES.1)));
    let grpc = grpc::Tests::new(places.clone());
    Router::new()
        .route("/work", any(work))
        .route("/must", any(work))
        .route("/echo", any(echo))
        .route("/slow", any(slow))
        .route("/endless", any(endless))
        .route_service("/grpc.testing.TestService/{method}", grpc)
        .with_state(places)
        .layer(layer)
}

/// What the process records, in the words that Prometheus takes.
async fn metrics(State(recorded): State<PrometheusHandle>) -> String {
    recorded.render()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recorder = PrometheusBuilder::new().set_buckets(&names::buckets())?;
    let recorded = recorder.install_recorder()?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (listener, shown) = (Listener::bind(any_port).await?, TcpListener::bind(any_port).await?);
    let (address, metrics_at) = (listener.local_addr()?, shown.local_addr()?);
    println!(r#"{{"address":"{address}","metrics":"{metrics_at}"}}"#);
    std::io::stdout().flush()?;
    std::thread::spawn(|| {
        _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let page = Router::new().route("/metrics", get(metrics)).with_state(recorded);
    tokio::spawn(async move { axum::serve(shown, page).await });

    let limits = Limits { outstanding: OUTSTANDING, ..Limits::default() };
    let config = Config { slo: SLO, limits, ..Config::default() };
    let layer = Layer::builder(config).stage(PLACES.0, PLACES.1).build()?;
    let app = app(layer).into_make_service_with_connect_info::<Connection>();
    Ok(axum::serve(listener, app).await?)
}
