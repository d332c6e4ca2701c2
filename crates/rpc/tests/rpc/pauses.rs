//! Workers that stand still, as threads of a virtual machine do while a collector runs, and
//! requests that do not wait for them (LIBROS §V).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{ECHO, config, router, until};
use bytes::Bytes;
use seawall_control::request::{Rejected, Stage};
use seawall_rpc::{
    CallError, Client, ClientConfig, Context, Request, Router, Server, ServerConfig, Status, clock,
};

/// A method of [`held`].
const HOLD: u16 = 9;

/// Long against everything else here.
const LONG: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(2);

/// A call of `method` that has two seconds.
fn call(method: u16) -> Request {
    Request::new(method, "x").with_deadline(SOON)
}

fn refusal(result: Result<impl std::fmt::Debug, CallError>) -> Rejected {
    match result.unwrap_err() {
        CallError::Rejected(rejected) => rejected,
        other => panic!("{other:?}"),
    }
}

/// A server whose workers are threads of the test.
fn outside() -> (Server, thread::JoinHandle<()>) {
    let mut config = config("none");
    config.threads.outside = true;
    let server = Server::start(config, router()).unwrap();
    let worker = server.worker();
    (server, thread::spawn(move || worker.run()))
}

#[tokio::test]
async fn what_comes_in_a_pause_is_refused_at_once() {
    let (server, worker) = outside();
    let client = Client::new([server.address()], ClientConfig::default());
    client.call(call(ECHO)).await.unwrap();

    let halter = server.halter();
    halter.halt(clock::now() + LONG);
    let began = Instant::now();
    let refused = refusal(client.call(call(ECHO)).await);
    assert!(began.elapsed() < SOON, "it did not wait for its deadline");
    assert_eq!(refused.stage, Stage::PAUSE);
    assert!(refused.predicted_delay > LONG - SOON && refused.predicted_delay <= LONG);
    assert_eq!(server.stats().refusals[&Stage::PAUSE], 1);

    halter.resume();
    client.call(call(ECHO)).await.unwrap();
    assert!(!halter.is_over());
    drop(server);
    worker.join().unwrap();
    assert!(halter.is_over());
    halter.halt(clock::now());
    halter.refuse(); // of nobody
}

/// A request that can wait does, and a worker takes it when the world goes on.
#[tokio::test]
async fn who_has_the_time_waits() {
    let (server, _worker) = outside();
    let client = Client::new([server.address()], ClientConfig::default());
    let halter = server.halter();
    halter.halt(clock::now() + Duration::from_millis(1));
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.call(call(ECHO)).await }
    });
    until(|| server.stats().outstanding == 1).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(server.stats().outstanding, 1, "no worker takes it meanwhile");
    halter.resume();
    waiting.await.unwrap().unwrap();

    // It takes longer than was predicted: what waits is looked at again.
    halter.halt(clock::now() + Duration::from_millis(1));
    let waiting = tokio::spawn(async move { client.call(call(ECHO)).await });
    until(|| server.stats().outstanding == 1).await;
    halter.halt(clock::now() + LONG);
    halter.refuse();
    assert_eq!(refusal(waiting.await.unwrap()).stage, Stage::PAUSE);
}

/// A server with a method whose handlers stand still with their worker, and count how many have
/// gone on.
fn held(is_repeatable: bool, config: ServerConfig) -> (Server, Arc<AtomicU32>, Arc<AtomicU32>) {
    let (begun, gone_on) = <(Arc<AtomicU32>, Arc<AtomicU32>)>::default();
    let (begin, go_on) = (begun.clone(), gone_on.clone());
    let hold = move |_: Context, _: Bytes| {
        let (begin, go_on) = (begin.clone(), go_on.clone());
        async move {
            begin.fetch_add(1, SeqCst);
            thread::sleep(Duration::from_millis(300));
            go_on.fetch_add(1, SeqCst);
            Ok::<_, Status>(Bytes::from_static(b"late"))
        }
    };
    let router = Router::new().method(HOLD, "hold", hold);
    let router = if is_repeatable { router.repeatable(HOLD) } else { router };
    (Server::start(config, router).unwrap(), begun, gone_on)
}

/// Two threads: one reads and writes while the other stands still.
fn two_threads() -> ServerConfig {
    let mut config = config("none");
    config.threads.dispatchers = 1;
    config
}

#[tokio::test]
async fn a_handler_that_stands_still_is_answered_for_where_that_does_no_harm() {
    let (server, begun, gone_on) = held(true, two_threads());
    let client = Client::new([server.address()], ClientConfig::default());
    let caught = tokio::spawn({
        let client = client.clone();
        async move { client.call(call(HOLD)).await }
    });
    until(|| begun.load(SeqCst) == 1).await;
    let halter = server.halter();
    halter.halt(clock::now() + LONG);
    halter.refuse();
    let refused = refusal(caught.await.unwrap());
    assert_eq!((refused.stage, gone_on.load(SeqCst)), (Stage::PAUSE, 0));

    // Its handler's result is nobody's any more; the next call has its own.
    halter.resume();
    assert_eq!(client.call(call(HOLD)).await.unwrap().payload, "late");
    until(|| gone_on.load(SeqCst) == 2).await;
    let stats = server.stats();
    assert_eq!((stats.requests, stats.completions, stats.refused()), (2, 1, 1));
    assert_eq!(stats.outstanding, 0);
}

#[tokio::test]
async fn a_handler_that_may_run_only_once_is_waited_for() {
    let (server, begun, _) = held(false, two_threads());
    let client = Client::new([server.address()], ClientConfig::default());
    let caught = tokio::spawn(async move { client.call(call(HOLD)).await });
    until(|| begun.load(SeqCst) == 1).await;
    let halter = server.halter();
    halter.halt(clock::now() + LONG);
    halter.refuse();
    assert_eq!(caught.await.unwrap().unwrap().payload, "late");
}
