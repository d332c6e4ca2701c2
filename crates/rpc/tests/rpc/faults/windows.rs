//! Clients that send more than they may.

use seawall_control::request::Stage;
use seawall_control::wire::{RequestOp, Status};
use seawall_rpc::{Request, Server, Session};

use crate::support::raw::{Raw, call, short};
use crate::support::{
    Bystander, ECHO, SLEEP, SPIN, balanced, closed, config, one_credit, router, session, until,
};

#[tokio::test]
async fn calls_beyond_the_window_are_refused_and_then_the_session_is_closed() {
    let mut config = one_credit();
    config.limits.violations = 5;
    let server = Server::start(config, router()).unwrap();
    let bystander = Bystander::start(&server).await;
    let mut client = Raw::open(server.address()).await;
    client.send(&call(0, SLEEP, b"")).await; // the first call is free
    for id in 1..=5 {
        client.send(&call(id, ECHO, b"")).await;
        let answer = client.reply(id).await;
        assert_eq!(answer.status(), Some(Status::Rejected));
        assert_eq!(answer.head.stage, Stage::ADMISSION);
        assert_eq!(server.stats().window_violations, id);
        assert_eq!(closed(&server, "violations"), 0);
        bystander.goes_on().await;
    }
    client.send(&call(6, ECHO, b"")).await;
    assert_eq!(client.reply(6).await.status(), Some(Status::Rejected), "the last one, too");
    assert_eq!(client.farewell().await, "too many calls beyond the window");
    bystander.leave().await;
    let stats = balanced(&server).await;
    assert_eq!((stats.window_violations, stats.refusals[&Stage::ADMISSION]), (6, 6));
    assert_eq!((stats.closed["violations"], stats.cancellations), (1, 1));
}

#[tokio::test]
async fn a_flood_ends_after_the_named_bound() {
    let mut config = config("breakwater");
    config.limits.violations = 20;
    let server = Server::start(config, router()).unwrap();
    let bystander = Bystander::start(&server).await;
    for _ in 0..5 {
        let mut client = Raw::open(server.address()).await;
        let flood: Vec<u8> = (0..50_000).flat_map(|id| call(id, SLEEP, b"")).collect();
        // The server closes while the client still sends.
        client.send(&flood).await;
        client.rest().await;
    }
    bystander.leave().await;
    let stats = balanced(&server).await;
    assert_eq!(stats.closed["violations"], 5);
    assert_eq!((stats.window_violations, stats.refused()), (5 * 21, 5 * 21));
    assert!(stats.requests - stats.completions < 1_000, "the floods were read on");
}

#[tokio::test]
async fn calls_beyond_what_any_session_may_have_are_refused() {
    let mut config = config("none");
    (config.limits.outstanding, config.limits.violations) = (4, 3);
    let server = Server::start(config, router()).unwrap();
    let bystander = Bystander::start(&server).await;
    let mut client = Raw::open(server.address()).await;
    for id in 0..4 {
        client.send(&call(id, SLEEP, b"")).await;
    }
    for id in 4..7 {
        client.send(&call(id, ECHO, b"")).await;
        assert_eq!(client.reply(id).await.status(), Some(Status::Rejected));
    }
    // Room again once one has ended.
    client.send(&short(RequestOp::Cancel, 0)).await;
    assert_eq!(client.reply(0).await.status(), Some(Status::Cancelled));
    client.send(&call(7, SLEEP, b"")).await;
    client.send(&call(8, ECHO, b"")).await;
    assert_eq!(client.farewell().await, "too many calls beyond the window");
    bystander.leave().await;
    let stats = balanced(&server).await;
    assert_eq!((stats.window_violations, stats.closed["violations"]), (4, 1));
}

#[tokio::test]
async fn our_client_keeps_to_what_any_session_may_have() {
    let mut config = config("none");
    (config.limits.outstanding, config.limits.violations) = (8, 1);
    let server = Server::start(config, router()).unwrap();
    let session = session(&server).await;
    let calls: Vec<_> = (0..200).map(|_| session.call(Request::new(SPIN, vec![0]))).collect();
    for call in calls {
        call.await.expect("a client that keeps to the rules is served");
    }
    drop(session);
    assert_eq!(balanced(&server).await.window_violations, 0);
}

#[tokio::test]
async fn our_client_is_never_punished_while_its_window_shrinks() {
    // Overload: windows grow and shrink all the time, and each shrinking crosses calls under way.
    let mut config = config("breakwater");
    config.slo = std::time::Duration::from_millis(4);
    let server = Server::start(config, router()).unwrap();
    let mut sessions: Vec<Session> = Vec::new();
    for _ in 0..8 {
        sessions.push(session(&server).await);
    }
    let mut calls = Vec::new();
    for round in 0..300 {
        calls.extend(sessions.iter().map(|session| session.call(Request::new(SPIN, vec![1]))));
        if round % 30 == 29 {
            for call in calls.drain(..) {
                _ = call.await; // served or refused
            }
        }
    }
    drop(sessions);
    let stats = balanced(&server).await;
    assert!(stats.refused() > 0, "there was no overload");
    assert_eq!(stats.window_violations, 0);
}

#[tokio::test]
async fn excess_of_the_not_droppable_mark_is_refused() {
    let mut config = config("breakwater");
    config.trust.everybody = true;
    config.admission.credit.privileged_max = 2;
    let server = Server::start(config, router()).unwrap();
    // Each with a session of its own, so that no window is exceeded.
    let mut clients = Vec::new();
    for id in 0..3 {
        let mut client = Raw::open(server.address()).await;
        let mut bytes = call(id, SLEEP, b"");
        bytes[6] = 0; // not droppable
        client.send(&bytes).await;
        until(|| server.stats().requests == id + 1).await;
        clients.push(client);
    }
    let answer = clients[2].reply(2).await;
    assert_eq!(answer.status(), Some(Status::Rejected));
    drop(clients);
    let stats = balanced(&server).await;
    assert_eq!((stats.refused(), stats.window_violations, stats.cancellations), (1, 0, 2));
}
