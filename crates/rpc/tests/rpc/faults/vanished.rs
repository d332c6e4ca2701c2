//! Clients that are gone without a word, and what they held.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use seawall_control::wire::{Request as Frame, RequestOp};
use seawall_rpc::{ClientConfig, Request, Server, Session};

use crate::support::raw::{Raw, call, frame};
use crate::support::{
    Bystander, ECHO, GROW, SLEEP, balanced, config, gauge, one_credit, router, session, until,
};

#[tokio::test]
async fn a_reset_takes_calls_and_credits_with_it() {
    let mut config = config("breakwater");
    (config.threads.workers, config.threads.dispatchers) = (2, 2);
    let server = Server::start(config, router()).unwrap();
    let bystander = Bystander::start(&server).await;
    let mut clients = Vec::new();
    for id in 0..20 {
        let mut client = Raw::open(server.address()).await;
        client.send(&call(id, SLEEP, b"")).await;
        clients.push(client);
    }
    until(|| server.stats().outstanding >= 20).await;
    clients.into_iter().for_each(Raw::reset);
    until(|| server.stats().sessions == 1).await;
    bystander.leave().await;
    let stats = balanced(&server).await;
    assert_eq!((stats.closed["io"], stats.cancellations), (20, 20));
}

#[tokio::test]
async fn a_reset_while_replies_are_on_their_way_loses_nothing_else() {
    let server = Server::start(config("none"), router()).unwrap();
    let bystander = Bystander::start(&server).await;
    for _ in 0..20 {
        let mut client = Raw::open(server.address()).await;
        let calls = (0..10).flat_map(|id| call(id, GROW, &100_000_u32.to_le_bytes()));
        client.send(&calls.collect::<Vec<u8>>()).await;
        client.next().await.unwrap();
        client.reset();
    }
    bystander.leave().await;
    balanced(&server).await;
}

/// A session whose calls wait for a credit for as long as it takes.
async fn patient(server: &Server) -> Session {
    let mut config = ClientConfig::default();
    config.admission.client.expiry = Some(Duration::from_secs(3_600));
    Session::connect(server.address(), &config).await.unwrap()
}

/// A client that holds the only credit.
async fn holder(server: &Server) -> Raw {
    let mut client = Raw::open(server.address()).await;
    let mut hungry = Frame { demand: 5, ..Frame::new(RequestOp::Call) };
    hungry.claims.method = ECHO;
    client.send(&frame(hungry, b"")).await;
    assert_eq!(client.reply(0).await.window(), Some(1));
    assert_eq!(gauge(&server.stats(), "credits_issued"), Some(1.0));
    client
}

#[tokio::test]
async fn the_credit_of_a_lost_call_goes_to_another_client() {
    let server = Server::start(one_credit(), router()).unwrap();
    let mut holder = holder(&server).await;
    holder.send(&call(1, SLEEP, b"")).await;
    until(|| server.stats().outstanding == 1).await;
    let other = patient(&server).await;
    other.call(Request::new(ECHO, "the first is free")).await.unwrap();
    let waiting = other.call(Request::new(ECHO, "a credit is needed"));
    assert_eq!((other.pending(), other.outstanding()), (1, 0));
    holder.reset();
    assert_eq!(waiting.await.unwrap().payload, "a credit is needed");
    drop(other);
    balanced(&server).await;
}

#[tokio::test]
async fn an_unused_credit_of_a_lost_client_goes_to_another() {
    let server = Server::start(one_credit(), router()).unwrap();
    let holder = holder(&server).await;
    let other = patient(&server).await;
    other.call(Request::new(ECHO, "the first is free")).await.unwrap();
    let waiting = other.call(Request::new(ECHO, "a credit is needed"));
    assert_eq!((other.pending(), other.outstanding()), (1, 0));
    drop(holder);
    assert_eq!(waiting.await.unwrap().payload, "a credit is needed");
    drop(other);
    balanced(&server).await;
}

#[tokio::test]
async fn a_killed_process_leaves_nothing_behind() {
    let begun = Arc::new(AtomicU32::new(0));
    let begins = begun.clone();
    let router = router().method(9, "begin", move |_, _| {
        begins.fetch_add(1, SeqCst);
        std::future::pending()
    });
    let server = Server::start(config("breakwater"), router).unwrap();
    let bystander = Bystander::start(&server).await;
    let address = server.address();
    for turn in 0..3 {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.spawn(async move {
            let session = Session::connect(address, &ClientConfig::default()).await.unwrap();
            for _ in 0..20 {
                session.call(Request::new(ECHO, "")).await.unwrap();
            }
            _ = session.call(Request::new(9, "")).await;
        });
        // Credits are held, and a call is in the server.
        until(|| begun.load(SeqCst) == turn + 1).await;
        runtime.shutdown_background();
        until(|| server.stats().sessions == 1).await;
        bystander.goes_on().await;
    }
    bystander.leave().await;
    assert_eq!(balanced(&server).await.cancellations, 3);
}

#[tokio::test]
async fn accepted_connections_are_probed_while_they_are_silent() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let _session = session(&server).await;
    let client = Raw::open(server.address()).await;
    let ports = (server.address().port(), client.tcp.local_addr().unwrap().port());
    // The kernel's table: local address, remote address, state, queues, and the timer that runs;
    // timer 2 is keepalive.
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let row = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|row| {
        let port = |address: &str| u16::from_str_radix(address.rsplit(':').next().unwrap(), 16);
        (port(row[1]), port(row[2])) == (Ok(ports.0), Ok(ports.1))
    });
    let row = row.expect("the server's end of the connection is in the table");
    assert!(row[5].starts_with("02:"), "no keepalive timer: {row:?}");
}
