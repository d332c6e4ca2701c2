//! What is left, as the server is told.

use std::time::Duration;

use http::Request;
use seawall_control::controller::DropReason;
use seawall_tower::client::{CallOptions, Config, Deadline, Error};
use tokio::time::{Instant, advance};

use super::support::{client, get, ms, send, settle};

fn due(left: Duration) -> Request<()> {
    let mut request = get();
    request.extensions_mut().insert(Deadline::after(left));
    request
}

#[tokio::test(start_paused = true)]
async fn what_the_wait_took_is_not_left() {
    let (client, mut server) = client(Config::default());
    let first = send(&client, get());
    let at_server = server.next().await;
    assert_eq!(at_server.told().deadline, None);
    let _second = send(&client, due(ms(50)));
    settle().await;
    advance(ms(5)).await;
    at_server.serve("window=1, seq=1");
    first.await.unwrap().unwrap();
    assert_eq!(server.next().await.told().deadline, Some(ms(45)));
}

#[tokio::test(start_paused = true)]
async fn the_least_counts_and_each_header_that_was_there_is_told_it() {
    let (client, mut server) = client(Config::default());
    let mut call = due(ms(80));
    let headers = call.headers_mut();
    headers.insert("content-type", "application/grpc+proto".parse().unwrap());
    headers.insert("grpc-timeout", "70m".parse().unwrap());
    headers.insert("x-envoy-expected-rq-timeout-ms", "90".parse().unwrap());
    headers.insert("seawall", "deadline=95000, priority=1, client=\"mallory\"".parse().unwrap());
    let _call = send(&client, call);
    let arrived = server.next().await;
    assert_eq!(arrived.told().deadline, Some(ms(70)));
    assert_eq!(arrived.header("grpc-timeout"), Some("70000000n"));
    assert_eq!(arrived.header("x-envoy-expected-rq-timeout-ms"), Some("70"));
    let told = arrived.told();
    assert_eq!(told.priority, None, "claims of strangers are not passed on");
    assert_ne!(told.client.unwrap().as_str(), "mallory");
}

#[tokio::test(start_paused = true)]
async fn http_is_not_told_what_nobody_asked_for() {
    let (client, mut server) = client(Config::default());
    let _call = send(&client, due(ms(80)));
    let arrived = server.next().await;
    assert_eq!(arrived.header("grpc-timeout"), None);
    assert_eq!(arrived.header("x-envoy-expected-rq-timeout-ms"), None);
}

#[tokio::test(start_paused = true)]
async fn the_configuration_has_a_deadline_for_those_without() {
    let config = Config { deadline: Some(ms(30)), tells_envoy: true, ..Config::default() };
    let (client, mut server) = client(config);
    let begun = Instant::now();
    let call = send(&client, get());
    let arrived = server.next().await;
    assert_eq!(arrived.told().deadline, Some(ms(30)));
    assert_eq!(arrived.header("x-envoy-expected-rq-timeout-ms"), Some("30"));
    let late = call.await.unwrap();
    assert!(matches!(late, Err(Error::DeadlineExceeded)), "{late:?}");
    assert!(begun.elapsed() >= ms(30) && begun.elapsed() < ms(33));
    assert!(arrived.is_given_up());
    tokio::time::sleep(ms(2)).await; // until the server knows
    assert_eq!(client.outstanding(), 0);
    let own = send(&client, due(ms(200)));
    assert_eq!(server.next().await.told().deadline, Some(ms(200)), "those with one keep it");
    own.abort();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_answered_in_time_is_not_sent() {
    let config = Config { rtt: ms(5), ..Config::default() };
    let (client, mut server) = client(config);
    let late = send(&client, due(ms(4))).await.unwrap();
    let Err(Error::Refused(refused)) = late else { panic!("{late:?}") };
    assert_eq!((refused.reason, refused.rejected.remaining), (DropReason::Expired, ms(4)));
    assert!(server.arrived().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn budgets_paths_and_hints_travel() {
    let (client, mut server) = client(Config::default());
    let mut request = get();
    let options = CallOptions::default().with_budget(ms(2)).with_path(7).with_upscale_hops(2);
    request.extensions_mut().insert(options);
    let _call = send(&client, request);
    let told = server.next().await.told();
    assert_eq!((told.budget, told.path, told.hops), (Some(ms(2)), Some(7), Some(2)));
}
