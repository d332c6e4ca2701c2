//! Very many connections, and more sessions than there is room for.

use std::time::Duration;

use seawall_rpc::{ClientConfig, ConnectError, Request, Server, Session};

use crate::support::raw::Raw;
use crate::support::{Bystander, ECHO, balanced, closed, config, router, session, until};

/// Connects `crowd` clients that say nothing, and waits until the server has got rid of them.
async fn silent_crowd(crowd: usize, hello_timeout: Duration) {
    let mut config = config("breakwater");
    config.limits.hello_timeout = hello_timeout;
    let server = Server::start(config, router()).unwrap();
    let bystander = Bystander::start(&server).await;
    let mut clients = Vec::new();
    for _ in 0..crowd {
        clients.push(Raw::connect(server.address()).await);
    }
    bystander.goes_on().await;
    until(|| closed(&server, "hello_timeout") == crowd as u64).await;
    for client in &mut clients {
        assert_eq!(client.farewell().await, "the hello did not come in time");
    }
    bystander.leave().await;
    let stats = balanced(&server).await;
    assert_eq!(stats.accepted, crowd as u64 + 1);
}

#[tokio::test]
async fn two_thousand_silent_connections_end_and_disturb_nobody() {
    silent_crowd(2_000, Duration::from_millis(300)).await;
}

#[tokio::test]
#[ignore = "long: nine thousand connections, both ends in one process of 20000 files"]
async fn nine_thousand_silent_connections_end_and_disturb_nobody() {
    silent_crowd(9_000, Duration::from_secs(3)).await;
}

#[tokio::test]
async fn connections_that_come_and_go_leave_nothing_behind() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let bystander = Bystander::start(&server).await;
    for turn in 0..300 {
        let client = Raw::connect(server.address()).await;
        if turn % 2 == 0 { drop(client) } else { client.reset() }
    }
    bystander.leave().await;
    let stats = balanced(&server).await;
    let ended = |kind| stats.closed.get(kind).copied().unwrap_or(0);
    // A connection that was reset before it was looked at may end in any of these ways.
    assert_eq!(ended("left") + ended("gone") + ended("io"), stats.accepted);
}

#[tokio::test]
async fn sessions_beyond_the_limit_are_told_that_there_is_no_room() {
    let mut config = config("breakwater");
    config.limits.sessions = 3;
    let server = Server::start(config, router()).unwrap();
    let bystander = Bystander::start(&server).await;
    let (one, other) = (session(&server).await, session(&server).await);
    for excess in 1..=5 {
        let refused = Session::connect(server.address(), &ClientConfig::default()).await;
        let told = match refused.unwrap_err() {
            ConnectError::Refused(told) => told,
            error => panic!("{error}"),
        };
        assert_eq!(told, "the server has no room for another session");
        assert_eq!(closed(&server, "full"), excess);
        bystander.goes_on().await;
    }
    drop(one);
    until(|| server.stats().sessions == 2).await;
    let third = session(&server).await;
    for session in [&other, &third] {
        session.call(Request::new(ECHO, "room")).await.unwrap();
    }
    drop((other, third));
    bystander.leave().await;
    balanced(&server).await;
}
