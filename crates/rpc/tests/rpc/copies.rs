//! A client of several replicas: copies of what is slow, and whom it spares.

use std::time::Duration;

use crate::support::{config, until};
use bytes::Bytes;
use seawall_control::replica::Selection;
use seawall_control::request::{Rejected, Stage};
use seawall_control::retry::{self, Hedge};
use seawall_rpc::{CallError, Client, ClientConfig, Context, Request, Router, Server, Status};

const ASK: u16 = 9;
const LOCK: Stage = Stage(16);

fn start<H, F>(handler: H) -> Server
where
    H: Fn(Context, Bytes) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Bytes, Status>> + Send + 'static,
{
    Server::start(config("none"), Router::new().method(ASK, "ask", handler)).unwrap()
}

/// It never answers.
fn slow() -> Server {
    start(|_, _| std::future::pending())
}

/// It answers with the number of the attempt.
fn serving() -> Server {
    start(|ctx, _| async move { Ok(Bytes::copy_from_slice(&[ctx.claims().attempt])) })
}

/// It refuses, at this stage and with this prediction, what has a budget.
fn refusing(stage: Stage, predicted: Duration) -> Server {
    start(move |ctx, _| async move {
        match ctx.claims().budget {
            Some(_) => Err(Rejected::new(stage, predicted, Duration::ZERO).into()),
            None => Ok(Bytes::from_static(b"at last")),
        }
    })
}

/// A client that tries its replicas in their order, once all are connected.
async fn client(servers: &[&Server], retry: retry::Config) -> Client {
    let mut config = ClientConfig::default();
    config.admission.client.retry = retry::Config { budget: 1.0, burst: 1_000, ..retry };
    config.admission.client.replicas.choose = Selection::First;
    let client = Client::new(servers.iter().map(|server| server.address()), config);
    client.connect().await.unwrap();
    until(|| client.sessions().len() == servers.len()).await;
    client
}

fn after(ms: u64) -> retry::Config {
    retry::Config { hedge: Hedge::After(Duration::from_millis(ms)), ..retry::Config::default() }
}

fn idempotent() -> Request {
    Request::new(ASK, "").idempotent()
}

fn with_budget() -> Request {
    let budget = Some(Duration::from_secs(1));
    Request { budget, ..Request::new(ASK, "") }
}

#[tokio::test]
async fn the_copy_of_a_slow_request_is_served_and_the_request_cancelled() {
    let (slow, serving) = (slow(), serving());
    let client = client(&[&slow, &serving], after(5)).await;
    for _ in 0..3 {
        let answer = client.call_traced(idempotent()).await;
        assert_eq!((answer.result.unwrap().payload[0], answer.attempts), (1, 2));
        assert!(answer.failures.is_empty());
    }
    assert_eq!((client.retries().hedges, client.retries().retries), (3, 0));
    until(|| slow.stats().cancellations == 3).await;
}

#[tokio::test]
async fn two_at_once() {
    let (slow, serving) = (slow(), serving());
    let client = client(&[&slow, &serving], after(0)).await;
    assert_eq!(client.call(idempotent()).await.unwrap().payload[0], 1);
    until(|| slow.stats().cancellations == 1).await;
}

#[tokio::test]
async fn what_must_not_run_twice_has_no_copy() {
    let (slow, serving) = (slow(), serving());
    let client = client(&[&slow, &serving], after(1)).await;
    let call = Request::new(ASK, "").with_deadline(Duration::from_millis(50));
    assert_eq!(client.call(call).await.unwrap_err(), CallError::DeadlineExceeded);
    assert_eq!((client.retries().hedges, serving.stats().requests), (0, 0));
}

#[tokio::test]
async fn when_the_copy_is_refused_the_request_still_counts() {
    let late = start(|_, _| async {
        tokio::time::sleep(Duration::from_millis(60)).await;
        Ok(Bytes::from_static(b"late"))
    });
    let refusing = refusing(LOCK, Duration::from_millis(7));
    let client = client(&[&late, &refusing], after(5)).await;
    let answer = client.call_traced(Request { idempotent: true, ..with_budget() }).await;
    assert_eq!((answer.result.unwrap().payload, answer.attempts), ("late".into(), 2));
    assert_eq!(answer.failures.len(), 1);
    assert_eq!(answer.failures[0].replica, refusing.address());
}

#[tokio::test]
async fn when_the_copy_is_refused_a_third_replica_is_tried() {
    let (slow, refusing) = (slow(), refusing(LOCK, Duration::from_millis(7)));
    let serving = serving();
    let retry = retry::Config { attempts: 3, ..after(5) };
    let client = client(&[&slow, &refusing, &serving], retry).await;
    let answer = client.call_traced(Request { idempotent: true, ..with_budget() }).await;
    assert_eq!((answer.result.unwrap().payload[0], answer.attempts), (2, 3));
    let counts = client.retries();
    assert_eq!((counts.hedges, counts.retries), (1, 1));
}

#[tokio::test]
async fn refused_everywhere_it_waits_where_the_wait_is_shortest() {
    let [long, short] = [9, 2].map(|ms| refusing(LOCK, Duration::from_millis(ms)));
    let last_resort = retry::Config { attempts: 2, last_resort: true, ..retry::Config::default() };
    let patient = client(&[&long, &short], last_resort).await;
    let answer = patient.call_traced(with_budget()).await;
    assert_eq!((answer.result.unwrap().payload, answer.attempts), ("at last".into(), 3));
    assert_eq!(answer.failures.len(), 2);
    assert_eq!((long.stats().completions, short.stats().completions), (0, 1));
    assert_eq!(patient.retries().last_resorts, 1);

    let hasty = client(&[&long, &short], retry::Config::default()).await;
    let answer = hasty.call_traced(with_budget()).await;
    assert!(matches!(answer.result, Err(CallError::Rejected(_))));
    assert_eq!((answer.attempts, hasty.retries().last_resorts), (2, 0));
}

#[tokio::test]
async fn a_replica_is_spared_for_as_long_as_it_said() {
    let (starved, serving) = (refusing(Stage::CPU, Duration::from_secs(1)), serving());
    let client = client(&[&starved, &serving], retry::Config::default()).await;
    for _ in 0..5 {
        client.call(with_budget()).await.unwrap();
    }
    assert_eq!(starved.stats().requests, 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.call(with_budget()).await.unwrap();
    assert_eq!(starved.stats().requests, 2);
}
