//! Handlers that fail in unusual places.

use std::time::Duration;

use bytes::Bytes;
use seawall_rpc::{CallError, Request, Router, Server, Status};

use crate::support::{Bystander, ECHO, balanced, config, router, session, spin, until};

fn code(result: seawall_rpc::CallResult) -> u16 {
    match result {
        Err(CallError::Failed { code, .. }) => code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_panic_before_the_first_await_fails_one_call_only() {
    // The body of this closure runs when the handler is called, not when its future is polled.
    let router = router().method(9, "eager", |_, payload: Bytes| {
        let first = payload[0];
        async move { Ok(Bytes::from(vec![first])) }
    });
    let server = Server::start(config("breakwater"), router).unwrap();
    let bystander = Bystander::start(&server).await;
    let session = session(&server).await;
    for _ in 0..3 {
        assert_eq!(code(session.call(Request::new(9, "")).await), Status::INTERNAL);
        assert_eq!(session.call(Request::new(9, "x")).await.unwrap().payload, "x");
    }
    drop(session);
    bystander.leave().await;
    assert_eq!(balanced(&server).await.failures, 3);
}

#[tokio::test]
async fn the_first_part_of_a_handler_runs_on_a_worker() {
    // Otherwise its time would be nobody's queueing delay and nobody's service.
    let router = Router::new().method(ECHO, "where", |_, _| {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        async { Ok(Bytes::from(thread)) }
    });
    let mut config = config("breakwater");
    (config.threads.workers, config.threads.dispatchers) = (1, 1);
    let server = Server::start(config, router).unwrap();
    let reply = session(&server).await.call(Request::new(ECHO, "")).await.unwrap();
    assert_eq!(reply.payload, "seawall-worker-0");
}

#[tokio::test]
async fn a_worker_is_not_held_to_the_budget_of_one_tokio_task() {
    // Tokio lets one task receive 128 items before it has to give way, and a worker runs many
    // handlers within one task.
    let router = router().method(9, "drain", |_, _| async {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(200);
        (0..200).for_each(|item| sender.try_send(item).unwrap());
        drop(sender);
        while receiver.recv().await.is_some() {}
        Ok(Bytes::new())
    });
    for dispatchers in [0, 1] {
        let mut config = config("breakwater");
        (config.threads.workers, config.threads.dispatchers) = (1, dispatchers);
        let server = Server::start(config, router.clone()).unwrap();
        let session = session(&server).await;
        for _ in 0..3 {
            let call = session.call(Request::new(9, ""));
            let reply = tokio::time::timeout(Duration::from_secs(10), call).await;
            reply.expect("the handler comes to its end").unwrap();
        }
    }
}

#[tokio::test]
async fn a_worker_that_is_never_idle_still_counts_and_stops() {
    // Each handler puts itself at the end of the queue again, so that the queue is never empty.
    let router = router().method(9, "for ever", |_, _| async {
        loop {
            spin(Duration::from_micros(20));
            tokio::task::yield_now().await;
        }
    });
    let mut config = config("breakwater");
    (config.threads.workers, config.threads.dispatchers) = (1, 1);
    let server = Server::start(config, router).unwrap();
    let session = session(&server).await;
    let _calls = [session.call(Request::new(9, "")), session.call(Request::new(9, ""))];
    until(|| server.stats().busy_nanos > 1_000_000).await;
    let stopping = tokio::task::spawn_blocking(move || drop(server));
    tokio::time::timeout(Duration::from_secs(10), stopping).await.expect("it stops").unwrap();
}
