//! The end of a server, at bad moments.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use seawall_control::wire::{Hello, ResponseOp};
use seawall_rpc::{CallError, Request, Router, Server};

use crate::support::raw::{Raw, call};
use crate::support::{ECHO, GROW, SLEEP, SPIN, config, router, session, until};

/// Counts the calls that are alive, begun or not.
struct Alive(Arc<AtomicI64>);

impl Alive {
    fn new(count: &Arc<AtomicI64>) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[tokio::test]
async fn what_handlers_hold_is_released_with_the_server() {
    // Some handlers have begun and wait, and others are still in the run queue behind a long one.
    for (workers, dispatchers) in [(1, 0), (1, 1), (2, 2)] {
        let alive = Arc::new(AtomicI64::new(0));
        let count = alive.clone();
        let router = router().method(9, "hold", move |_, payload: Bytes| {
            let alive = Alive::new(&count);
            async move {
                if payload.is_empty() {
                    std::future::pending::<()>().await;
                }
                crate::support::spin(Duration::from_millis(100));
                drop(alive);
                Ok(Bytes::new())
            }
        });
        let mut config = config("none");
        (config.threads.workers, config.threads.dispatchers) = (workers, dispatchers);
        let server = Server::start(config, router).unwrap();
        let session = session(&server).await;
        let mut calls = Vec::new();
        calls.extend((0..5).map(|_| session.call(Request::new(9, ""))));
        until(|| alive.load(SeqCst) == 5).await;
        calls.extend((0..2 * workers).map(|_| session.call(Request::new(9, "long"))));
        calls.extend((0..5).map(|_| session.call(Request::new(9, ""))));
        until(|| server.stats().requests == calls.len() as u64).await;
        drop(server);
        assert_eq!(alive.load(SeqCst), 0, "{workers} workers, {dispatchers} dispatchers");
        for call in calls {
            match call.await {
                Ok(_) | Err(CallError::ConnectionLost(_) | CallError::Cancelled) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn who_comes_while_the_server_stops_is_told_so() {
    let server = Server::start(config("none"), router()).unwrap();
    let address = server.address();
    let mut holder = Raw::open(address).await;
    holder.send(&call(1, SLEEP, b"")).await;
    let mut silent = Raw::connect(address).await;
    until(|| server.stats().sessions == 2 && server.stats().requests == 1).await;
    let stopping = tokio::task::spawn_blocking(move || server.shutdown(Duration::from_secs(2)));
    let told = holder.next().await.unwrap();
    assert_eq!((told.head.op, told.text()), (ResponseOp::Goaway, "the server stops".into()));
    assert_eq!(silent.next().await.unwrap().head.op, ResponseOp::Goaway);
    assert_eq!(Raw::connect(address).await.farewell().await, "the server stops");
    // A call that was on its way is refused, so that its client can go elsewhere at once.
    holder.send(&call(2, ECHO, b"")).await;
    let refused = holder.reply(2).await;
    assert_eq!(refused.status(), Some(seawall_control::wire::Status::Rejected));
    drop((holder, silent));
    stopping.await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_cannot_hold_up_the_end() {
    let server = Server::start(config("none"), router()).unwrap();
    let mut client = Raw::connect_narrow(server.address()).await.greet(&Hello::default()).await;
    client.send(&call(1, GROW, &(1_u32 << 20).to_le_bytes())).await;
    until(|| server.stats().completions == 1).await;
    let began = Instant::now();
    let stopping = move || server.shutdown(Duration::from_millis(100));
    tokio::task::spawn_blocking(stopping).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn calls_end_when_their_server_is_dropped() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let session = session(&server).await;
    session.call(Request::new(SPIN, vec![1])).await.unwrap();
    let calls: Vec<_> = (0..20).map(|_| session.call(Request::new(SLEEP, ""))).collect();
    until(|| server.stats().outstanding > 0).await;
    drop(server);
    let mut lost = 0;
    for call in calls {
        match call.await.unwrap_err() {
            CallError::ConnectionLost(_) => lost += 1,
            error => assert!(matches!(error, CallError::NotSent(_)), "{error}"),
        }
    }
    assert!(lost > 0, "some were sent");
    assert!(!session.is_open());
}

#[tokio::test]
async fn servers_start_and_stop_at_any_time() {
    for turn in 0..30 {
        let mut config = config("breakwater");
        config.threads.dispatchers = turn % 3;
        let server = Server::start(config, Router::new()).unwrap();
        if turn % 2 == 0 {
            let _client = Raw::connect(server.address()).await;
            drop(server);
        }
    }
}
