//! The example for tonic: calls of all four kinds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use seawall_control::fields;
use seawall_control::request::Budget;
use seawall_tower::server::{Config, Listener, Monitor, Orca, REPORT, Report};
use tokio_stream::StreamExt;
use tonic::client::Grpc;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, IntoStreamingRequest, Request};
use tonic_prost::ProstCodec;

use super::support::{field, patient, until};

#[path = "../../../examples/tonic.rs"]
mod example;

use example::Number;

type Codec = ProstCodec<Number, Number>;

async fn start(config: Config) -> (Grpc<Channel>, Arc<example::Adder>, Monitor) {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (adder, layer) = (example::Adder::new(), example::layer(config));
    let monitor = layer.monitor();
    tokio::spawn(example::serve(listener, adder.clone(), layer));
    (client(address).await, adder, monitor)
}

async fn client(address: SocketAddr) -> Grpc<Channel> {
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut grpc = Grpc::new(channel.connect().await.unwrap());
    grpc.ready().await.unwrap();
    grpc
}

fn path(method: &str) -> PathAndQuery {
    format!("/demo.Adder/{method}").parse().unwrap()
}

fn number(value: u32) -> Request<Number> {
    let mut request = Request::new(Number { value });
    request.metadata_mut().insert(fields::NAME, "client=\"a\"".parse().unwrap());
    request
}

fn numbers() -> impl IntoStreamingRequest<Stream = impl tokio_stream::Stream<Item = Number> + Send>
{
    tokio_stream::iter([1, 2, 3].map(|value| Number { value }))
}

/// The field in metadata, which is headers and trailers together.
fn told(metadata: &MetadataMap) -> Option<fields::Response> {
    field(&metadata.clone().into_headers())
}

#[tokio::test]
async fn all_kinds_of_calls_pass() {
    let (mut grpc, _, monitor) = start(patient()).await;
    let codec = Codec::default;
    let response = grpc.unary(number(5), path("Add"), codec()).await.unwrap();
    assert_eq!(response.get_ref().value, 5);
    // What is known at the end is told at the end.
    assert!(told(response.metadata()).unwrap().queue.is_some());

    grpc.ready().await.unwrap();
    let all = numbers().into_streaming_request();
    let response = grpc.client_streaming(all, path("AddAll"), codec()).await.unwrap();
    assert_eq!(response.get_ref().value, 11);

    grpc.ready().await.unwrap();
    let response = grpc.server_streaming(number(3), path("CountDown"), codec()).await.unwrap();
    let down: Vec<_> = response.into_inner().map(|number| number.unwrap().value).collect().await;
    assert_eq!(down, [2, 1, 0]);

    grpc.ready().await.unwrap();
    let each = numbers().into_streaming_request();
    let response = grpc.streaming(each, path("AddEach"), codec()).await.unwrap();
    let sums: Vec<_> = response.into_inner().map(|number| number.unwrap().value).collect().await;
    assert_eq!(sums, [12, 14, 17]);

    until(|| monitor.stats().outstanding == 0).await;
    let total = monitor.stats().total();
    assert_eq!((total.requests, total.completions), (4, 4));
}

#[tokio::test]
async fn a_stage_refuses_a_call_and_a_stream() {
    let budget = Duration::from_millis(20);
    let (mut grpc, adder, monitor) =
        start(Config { budget: Budget::Fixed(budget), ..patient() }).await;
    let held = adder.total().lock_plain().await;
    let mut first = grpc.clone();
    let waiting = tokio::spawn(async move {
        first.ready().await.unwrap();
        first.unary(number(5), path("Add"), Codec::default()).await
    });
    until(|| adder.total().snapshot().oldest > 2 * budget).await;

    let status = grpc.unary(number(5), path("Add"), Codec::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(told(status.metadata()).unwrap().stage.unwrap().as_str(), "lock:total");
    let pushback = status.metadata().get("grpc-retry-pushback-ms").unwrap();
    assert!(pushback.to_str().unwrap().parse::<u32>().unwrap() >= 20);

    // A stream has begun when a stage refuses it: its trailers say so.
    grpc.ready().await.unwrap();
    let each = numbers().into_streaming_request();
    let response = grpc.streaming(each, path("AddEach"), Codec::default()).await.unwrap();
    let status = response.into_inner().next().await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(told(status.metadata()).unwrap().stage.unwrap().as_str(), "lock:total");
    assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));

    drop(held);
    assert_eq!(waiting.await.unwrap().unwrap().get_ref().value, 5);
    until(|| monitor.stats().outstanding == 0).await;
    let total = monitor.stats().total();
    assert_eq!((total.refused(), total.completions), (2, 1));
}

#[tokio::test]
async fn refusals_at_entry_have_the_codes_of_grpc() {
    let (mut grpc, _, monitor) = start(patient()).await;
    let mut late = number(5);
    late.metadata_mut().insert(fields::NAME, "deadline=0".parse().unwrap());
    let status = grpc.unary(late, path("Add"), Codec::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(!status.metadata().contains_key("grpc-retry-pushback-ms"));
    assert_eq!(told(status.metadata()).unwrap().retry_after, None);

    monitor.drain();
    grpc.ready().await.unwrap();
    let status = grpc.unary(number(5), path("Add"), Codec::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));
    assert!(status.message().starts_with("refused"), "{status:?}");
}

#[tokio::test]
async fn who_sends_more_than_its_window_has_used_up_its_quota() {
    let config = Config { slo: patient().slo, ..Config::default() };
    let (grpc, adder, monitor) = start(config).await;
    let held = adder.total().lock_plain().await;
    // Nobody has more than this many credits.
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let mut grpc = grpc.clone();
        calls.spawn(async move {
            grpc.ready().await.unwrap();
            grpc.unary(number(1), path("Add"), Codec::default()).await
        });
    }
    let status = calls.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    drop(held);
    while calls.join_next().await.is_some() {}
    let stats = monitor.stats();
    assert!(stats.window_violations > 0 && stats.total().completions > 0, "{stats:?}");
}

#[tokio::test]
async fn a_stream_holds_its_place_until_its_client_goes_away() {
    let (mut grpc, _, monitor) = start(patient()).await;
    let down = number(1_000_000);
    let response = grpc.server_streaming(down, path("CountDown"), Codec::default()).await.unwrap();
    let mut stream = response.into_inner();
    assert_eq!(stream.next().await.unwrap().unwrap().value, 999_999);
    assert_eq!(monitor.stats().outstanding, 1);
    drop(stream);
    until(|| monitor.stats().outstanding == 0).await;
    assert_eq!(monitor.stats().total().cancellations, 1);
}

#[tokio::test]
async fn a_balancer_gets_its_report() {
    let (mut grpc, _, monitor) = start(Config { orca: Orca::Always, ..patient() }).await;
    monitor.set_utilization("orders", 0.75);
    let response = grpc.unary(number(5), path("Add"), Codec::default()).await.unwrap();
    let headers = response.metadata().clone().into_headers();
    let report = Report::decode_header(&headers[REPORT]).unwrap();
    assert_eq!(report.named_metrics["orders"], 0.75);
    assert!(report.application_utilization >= 0.75);
    assert_eq!(report.named_metrics.len(), 3, "{report:?}");
}
