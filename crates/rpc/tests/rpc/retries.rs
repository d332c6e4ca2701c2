//! A client of several replicas: what one of them does not serve, another may.

use std::time::Duration;

use crate::support::{SLEEP, config, one_credit, router, until};
use bytes::Bytes;
use seawall_control::request::{Rejected, Stage};
use seawall_control::retry::{self, Why};
use seawall_rpc::{
    CallError, Client, ClientConfig, Context, Request, Router, Server, Session, Status, Unsent,
};

const LOCK: Stage = Stage(16);
const ATTEMPT: u16 = 9;
const PREDICTED: Duration = Duration::from_micros(70);

/// A server that refuses every call at a lock.
fn refusing() -> Server {
    let refuse = |_: Context, _: Bytes| async {
        Err::<Bytes, _>(Rejected::new(LOCK, PREDICTED, Duration::ZERO).into())
    };
    let router = Router::new().method(ATTEMPT, "refuse", refuse).stage(LOCK, "orders");
    Server::start(config("none"), router).unwrap()
}

/// A server that answers with the number of the attempt.
fn serving() -> Server {
    let tell = |ctx: Context, _: Bytes| async move {
        Ok::<_, Status>(Bytes::copy_from_slice(&[ctx.claims().attempt]))
    };
    let router = Router::new().method(ATTEMPT, "tell", tell).method(SLEEP, "answer", tell);
    Server::start(config("none"), router).unwrap()
}

fn client(servers: [&Server; 2], retry: retry::Config) -> Client {
    let mut config = ClientConfig::default();
    config.admission.client.retry = retry;
    config.admission.client.expiry = Some(Duration::from_secs(3_600));
    Client::new(servers.map(Server::address), config)
}

/// Waits until both replicas are connected, so that there is another to go to.
async fn connected(client: &Client, servers: [&Server; 2]) {
    client.connect().await.unwrap();
    until(|| servers.iter().all(|server| server.stats().sessions > 0)).await;
    tokio::time::sleep(Duration::from_millis(50)).await; // the client hears of it last
}

fn without_limit() -> retry::Config {
    retry::Config { budget: 1.0, burst: 1_000, ..retry::Config::default() }
}

#[tokio::test]
async fn what_one_refuses_another_serves() {
    let (refusing, serving) = (refusing(), serving());
    let client = client([&refusing, &serving], without_limit());
    connected(&client, [&refusing, &serving]).await;
    let (mut direct, mut retried) = (0, 0);
    for _ in 0..100 {
        let answer = client.call_traced(Request::new(ATTEMPT, "")).await;
        let attempt = answer.result.unwrap().payload[0];
        assert_eq!((answer.attempts, answer.given_up), (attempt + 1, None));
        match &answer.failures[..] {
            [] => direct += 1,
            [failure] => {
                retried += 1;
                assert_eq!((failure.replica, attempt), (refusing.address(), 1));
                let CallError::Rejected(rejected) = &failure.error else { panic!("{failure:?}") };
                assert_eq!((rejected.stage, rejected.predicted_delay), (LOCK, PREDICTED));
            }
            more => panic!("{more:?}"),
        }
    }
    assert!(direct > 0 && retried > 0, "{direct} went there first, {retried} did not");
    assert_eq!(client.retries().retries, retried);
    assert_eq!(serving.stats().completions, 100);
}

#[tokio::test]
async fn a_refusal_names_the_lock() {
    let refusing = refusing();
    let session = Session::connect(refusing.address(), &ClientConfig::default()).await.unwrap();
    assert!(session.settings().stages.contains(&(LOCK, "orders".into())));
}

#[tokio::test]
async fn the_budget_ends_a_storm() {
    let (one, other) = (refusing(), refusing());
    let retry = retry::Config { budget: 0.0, burst: 3, ..retry::Config::default() };
    let client = client([&one, &other], retry);
    connected(&client, [&one, &other]).await;
    for call in 0..10 {
        let answer = client.call_traced(Request::new(ATTEMPT, "")).await;
        assert!(matches!(answer.result, Err(CallError::Rejected(_))), "{answer:?}");
        let expected = if call < 3 { (2, Some(Why::Attempts)) } else { (1, Some(Why::Budget)) };
        assert_eq!((answer.attempts, answer.given_up), expected, "call {call}");
    }
    let counts = client.retries();
    assert_eq!((counts.calls, counts.retries, counts.forbidden), (10, 3, 7));
    assert_eq!(one.stats().requests + other.stats().requests, 13);
}

#[tokio::test]
async fn who_does_not_want_retries_gets_none() {
    let (one, other) = (refusing(), refusing());
    let client = client([&one, &other], retry::Config::NEVER);
    connected(&client, [&one, &other]).await;
    let answer = client.call_traced(Request::new(ATTEMPT, "")).await;
    assert_eq!((answer.attempts, answer.given_up), (1, Some(Why::Attempts)));
}

#[tokio::test]
async fn the_error_of_an_application_is_final() {
    let fail = |_: Context, _: Bytes| async {
        Err::<Bytes, _>(Status::error(Status::INVALID, "no such order"))
    };
    let failing =
        || Server::start(config("none"), Router::new().method(ATTEMPT, "fail", fail)).unwrap();
    let (one, other) = (failing(), failing());
    let client = client([&one, &other], without_limit());
    connected(&client, [&one, &other]).await;
    let answer = client.call_traced(Request::new(ATTEMPT, "").idempotent()).await;
    assert!(matches!(answer.result, Err(CallError::Failed { .. })), "{answer:?}");
    assert_eq!((answer.attempts, answer.given_up), (1, Some(Why::Effect)));
}

/// Calls that are under way when one of two servers is lost.
async fn lost_with(request: Request) -> Vec<Result<(), CallError>> {
    let (lost, other) = (Server::start(config("none"), router()).unwrap(), serving());
    let client = client([&lost, &other], without_limit());
    connected(&client, [&lost, &other]).await;
    let call = |_| {
        let (client, request) = (client.clone(), request.clone());
        tokio::spawn(async move { client.call(request).await.map(drop) })
    };
    let calls: Vec<_> = (0..50).map(call).collect();
    until(|| lost.stats().outstanding > 0 && other.stats().completions > 0).await;
    until(|| lost.stats().outstanding + other.stats().completions == 50).await;
    drop(lost);
    let mut results = Vec::new();
    for call in calls {
        results.push(call.await.unwrap());
    }
    results
}

#[tokio::test]
async fn what_may_have_run_is_sent_again_if_its_caller_says_so() {
    let lost = lost_with(Request::new(SLEEP, "")).await;
    let lost: Vec<_> = lost.into_iter().filter_map(Result::err).collect();
    assert!(!lost.is_empty());
    for error in lost {
        assert!(matches!(error, CallError::ConnectionLost(_)), "{error}");
    }
    let results = lost_with(Request::new(SLEEP, "").idempotent()).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

#[tokio::test]
async fn who_gets_no_credit_in_time_goes_elsewhere_unsent() {
    let poor = Server::start(one_credit(), router()).unwrap();
    let rich = Server::start(config("none"), router()).unwrap();
    let client = client([&poor, &rich], retry::Config { burst: 0, ..retry::Config::default() });
    connected(&client, [&poor, &rich]).await;
    // Until the only credit is used, and the poor replica is the less loaded one all the same.
    let mut held = Vec::new();
    while poor.stats().outstanding < 1 || rich.stats().outstanding < 2 {
        let client = client.clone();
        held.push(tokio::spawn(async move { client.call(Request::new(SLEEP, "")).await }));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut moved = 0;
    for _ in 0..100 {
        let answer = client.call_traced(Request::new(crate::support::ECHO, "")).await;
        answer.result.unwrap();
        assert_eq!(answer.attempts, 1, "what was not sent is no attempt");
        for failure in &answer.failures {
            moved += 1;
            assert_eq!(failure.replica, poor.address());
            assert!(matches!(failure.error, CallError::NotSent(Unsent::Dropped(_))));
        }
    }
    let counts = client.retries();
    assert!(moved > 0);
    assert!(counts.moves >= moved && counts.retries == 0, "{counts:?}");
    held.iter().for_each(tokio::task::JoinHandle::abort);
}
