//! Clients that do not read what they asked for, and clients that only read slowly.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use seawall_control::wire::{Hello, Status};
use seawall_rpc::{Request, Router, Server};

use crate::support::raw::{Raw, call};
use crate::support::{Bystander, ECHO, GROW, balanced, closed, config, router, session, until};

/// Bytes of one reply of [`ledger`]'s method.
const REPLY: usize = 64 << 10;

/// What replies hold in the server's memory, now and at most.
#[derive(Default)]
struct Ledger {
    held: AtomicI64,
    most: AtomicI64,
}

/// A reply that is on the ledger as long as it is in memory.
struct Entry(Vec<u8>, Arc<Ledger>);

impl AsRef<[u8]> for Entry {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.1.held.fetch_sub(self.0.len() as i64, SeqCst);
    }
}

/// The common router with a method whose replies are on the ledger.
fn ledger() -> (Router, Arc<Ledger>) {
    let ledger = Arc::new(Ledger::default());
    let book = ledger.clone();
    let router = router().method(GROW, "grow", move |_, _| {
        let book = book.clone();
        async move {
            let held = book.held.fetch_add(REPLY as i64, SeqCst) + REPLY as i64;
            book.most.fetch_max(held, SeqCst);
            Ok(Bytes::from_owner(Entry(vec![7; REPLY], book)))
        }
    });
    (router, ledger)
}

#[tokio::test]
async fn a_client_that_never_reads_is_not_read_from_and_then_closed() {
    let mut config = config("none");
    config.limits.unread_bytes = 1 << 20;
    config.limits.outstanding = 8;
    config.limits.violations = u32::MAX;
    config.limits.write_timeout = Duration::from_millis(300);
    let (bound, limits) = (config.limits.unread_bytes, config.limits);
    let (router, ledger) = ledger();
    let server = Server::start(config, router).unwrap();
    let bystander = Bystander::start(&server).await;

    // Far more calls than the server may keep the replies of, as fast as it takes them.
    let client = Raw::connect_narrow(server.address()).await.greet(&Hello::default()).await;
    let calls: Vec<u8> = (0..16_000).flat_map(|id| call(id, GROW, &[0; 4096])).collect();
    let before = server.stats();
    let mut sent = 0;
    while closed(&server, "not_reading") == 0 {
        sent += client.tcp.try_write(&calls[sent..]).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(sent < calls.len(), "the server read all");
    bystander.goes_on().await;
    let after = server.stats();
    assert!(after.bytes_received > before.bytes_received);
    let most = ledger.most.load(SeqCst) as usize;
    let admitted = limits.outstanding as usize * REPLY;
    assert!(most <= bound / 2 + admitted, "{most} bytes were held");
    bystander.leave().await;
    let stats = balanced(&server).await;
    assert_eq!(stats.closed["not_reading"], 1);
    until(|| ledger.held.load(SeqCst) == 0).await;
}

#[tokio::test]
async fn a_client_with_far_too_much_unread_is_closed_before_the_write_timeout() {
    let mut config = config("none");
    config.limits.unread_bytes = 1 << 18;
    config.limits.write_timeout = Duration::from_secs(3_600);
    let (router, ledger) = ledger();
    let server = Server::start(config, router).unwrap();
    let bystander = Bystander::start(&server).await;
    let mut client = Raw::connect_narrow(server.address()).await.greet(&Hello::default()).await;
    let calls: Vec<u8> = (0..512).flat_map(|id| call(id, GROW, b"")).collect();
    client.send(&calls).await; // 32 MiB of replies
    until(|| closed(&server, "not_reading") == 1).await;
    bystander.leave().await;
    until(|| ledger.held.load(SeqCst) == 0).await;
    balanced(&server).await;
}

#[tokio::test]
async fn a_slow_reader_gets_everything() {
    // Reading from the client stops and goes on again and again, as its replies drain.
    let mut config = config("none");
    config.limits.unread_bytes = 1 << 18;
    config.limits.outstanding = 2;
    let (router, _ledger) = ledger();
    let server = Server::start(config, router).unwrap();
    let mut client = Raw::connect_narrow(server.address()).await.greet(&Hello::default()).await;
    let total = 100;
    let (mut sent, mut received) = (0, 0);
    while received < total {
        while sent < total && sent < received + 2 {
            client.send(&call(sent, GROW, b"")).await;
            sent += 1;
        }
        let answer = client.next().await.expect("the connection stays");
        assert_eq!((answer.status(), answer.body.len()), (Some(Status::Ok), REPLY));
        received += 1;
    }
    drop(client);
    assert_eq!(balanced(&server).await.completions, total);
}

#[tokio::test]
async fn a_client_that_reads_may_ask_for_more_than_the_bound_at_once() {
    // 64 replies of 1 MiB, which are ready together: more than the default of 4 MiB.
    let server = Server::start(config("none"), router()).unwrap();
    let session = session(&server).await;
    let payload = Bytes::from(vec![7; 1 << 20]);
    let calls: Vec<_> =
        (0..64).map(|_| session.call(Request::new(ECHO, payload.clone()))).collect();
    for call in calls {
        assert_eq!(call.await.expect("a client that reads is served").payload.len(), 1 << 20);
    }
    drop(session);
    balanced(&server).await;
}

#[tokio::test]
async fn large_frames_both_ways_do_not_block_each_other() {
    // Both ends write more than the kernel takes before either has read everything.
    let server = Server::start(config("none"), router()).unwrap();
    let session = session(&server).await;
    let served = Arc::new(AtomicUsize::new(0));
    let rounds = 4;
    for _ in 0..rounds {
        let payload = Bytes::from(vec![9; 700_000]);
        let calls: Vec<_> =
            (0..16).map(|_| session.call(Request::new(ECHO, payload.clone()))).collect();
        for call in calls {
            call.await.unwrap();
            served.fetch_add(1, SeqCst);
        }
    }
    assert_eq!(served.load(SeqCst), 16 * rounds);
}
