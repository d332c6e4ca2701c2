//! Handlers that fail in unusual places.

use bytes::Bytes;
use seawall_rpc::{CallError, Request, Router, Server, Status};

use crate::support::{Bystander, ECHO, balanced, config, router, session};

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
