//! Each call counts once, however it ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seawall_control::request::{Rejected, Stage};
use seawall_rpc::{Budget, CallError, Context, Request, Server, Status};
use tokio::sync::Semaphore;

use super::{paged, reader, settled};
use crate::support::{ECHO, PANIC, SLEEP, router, session, until};

#[tokio::test]
async fn every_way_in_which_a_call_ends_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = |_: Context, _: Bytes| async {
        // As a handler does that hands on what another service has said.
        let rejected = Rejected::new(Stage::RUN_QUEUE, Duration::ZERO, Duration::ZERO);
        Err::<Bytes, _>(Status::Rejected(rejected))
    };
    let router = router().method(9, "refuse", refuse);
    let server = Server::start(paged(folder.path(), "service"), router).unwrap();
    let (one, other) = (session(&server).await, session(&server).await);

    one.call(Request::new(ECHO, "served")).await.unwrap();
    one.call(Request::new(77, "unknown method")).await.unwrap_err();
    one.call(Request::new(PANIC, "")).await.unwrap_err();
    one.call(Request::new(9, "")).await.unwrap_err();
    let spent = Request { budget: Some(Duration::ZERO), ..Request::new(ECHO, "") };
    let refused = one.call(spent).await;
    assert!(matches!(refused, Err(CallError::Rejected(it)) if it.stage == Stage::RUN_QUEUE));

    let sleeping = one.call(Request::new(SLEEP, ""));
    let forgotten = other.call(Request::new(SLEEP, ""));
    let counted = reader(&server);
    until(|| counted.counters().unwrap().in_flight == 2).await;
    drop(sleeping); // cancelled
    drop((forgotten, other)); // with its connection
    let counters = settled(&server).await;
    // It was the client that gave it no time at all.
    assert_eq!((counters.requests, counters.shed, counters.unserved), (2, 0, 5));
    assert!(counters.exec_ns > 0);
    assert_eq!((counters.pool_wait_ns, counters.upstream_exec_ns, counters.hinted), (0, 0, 0));
    assert!(counters.time_from_start_ns > 0, "the client said when the job began");
}

#[tokio::test]
async fn a_server_that_stops_takes_its_page_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(paged(folder.path(), "service"), router()).unwrap();
    let reader = reader(&server);
    assert_eq!(reader.description().port, server.address().port());
    assert_eq!(reader.description().name, "service");
    let begun = reader.service().unwrap().heartbeat_ns;
    until(|| reader.service().unwrap().heartbeat_ns > begun).await;

    let client = session(&server).await;
    let _call = client.call(Request::new(SLEEP, ""));
    until(|| reader.counters().unwrap().in_flight == 1).await;
    drop(server);
    until(|| std::fs::read_dir(folder.path()).unwrap().count() == 0).await;
}

#[tokio::test]
async fn threads_count_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Semaphore::new(1_000));
    let mut config = paged(folder.path(), "service");
    (config.threads.workers, config.threads.dispatchers) = (3, 2);
    let server = Server::start(config, super::gated(&gate)).unwrap();
    let mut clients = Vec::new();
    for _ in 0..8 {
        let session = session(&server).await;
        clients.push(tokio::spawn(async move {
            for _ in 0..100 {
                session.call(Request::new(1, "")).await.unwrap();
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    let counters = settled(&server).await;
    assert_eq!((counters.requests, counters.shed, counters.unserved), (800, 0, 0));
}

#[tokio::test]
async fn what_a_replica_takes_was_shed_here_and_counts_there() {
    let folder = tempfile::tempdir().unwrap();
    let replica = Server::start(paged(folder.path(), "replica"), router()).unwrap();
    let mut config = paged(folder.path(), "first");
    config.spill.replicas = vec![replica.address()];
    config.budget = Budget::Fixed(Duration::from_nanos(1)); // each wait for the worker is more
    let first = Server::start(config, router()).unwrap();
    until(|| first.stats().spill_replicas == 1).await;
    let client = session(&first).await;
    for _ in 0..5 {
        client.call(Request::new(ECHO, "served")).await.unwrap();
    }
    let (first, replica) = (settled(&first).await, settled(&replica).await);
    assert_eq!((first.requests, first.shed, first.unserved), (0, 5, 0));
    assert_eq!((replica.requests, replica.shed, replica.unserved), (5, 0, 0));
}
