//! The queueing-delay budget of a server, and how refusals travel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::{SPIN, config, session, spin, until};
use bytes::Bytes;
use seawall_control::request::{Rejected, Stage};
use seawall_rpc::{CallError, Context, Request, Router, Server, ServerConfig, Status};
use tokio::sync::oneshot;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn the_budget_is_what_the_target_delay_leaves() {
    let mut config = config("breakwater");
    (config.slo, config.attempts) = (100 * SECOND, 2);
    (config.service_p99, config.network_p99) = (Some(10 * SECOND), Some(5 * SECOND));
    assert_eq!(config.target_delay(), 50 * SECOND);
    let router = Router::new().method(1, "left", |ctx: Context, _| async move {
        let left = ctx.remaining_now().as_secs();
        Ok(Bytes::copy_from_slice(&left.to_le_bytes()))
    });
    let server = Server::start(config, router).unwrap();
    let session = session(&server).await;
    assert_eq!(session.settings().slo, 100 * SECOND, "what clients are to measure");
    let left =
        |reply: seawall_rpc::Reply| u64::from_le_bytes(reply.payload[..].try_into().unwrap());
    let reply = session.call(Request::new(1, "")).await.unwrap();
    assert!((30..=35).contains(&left(reply)));
    assert_eq!(server.stats().budget, 35 * SECOND);
    // A deadline that is nearer than the target leaves less.
    let nearer = Request::new(1, "").with_deadline(30 * SECOND);
    let reply = session.call(nearer).await.unwrap();
    assert!((10..=15).contains(&left(reply)));
    assert!(server.stats().budget <= 15 * SECOND);
}

#[tokio::test]
async fn service_is_measured_without_waits_at_stages() {
    let router = Router::new()
        .method(1, "works", |_: Context, _| async {
            spin(Duration::from_millis(2));
            Ok::<_, Status>(Bytes::new())
        })
        .method(2, "waits", |ctx: Context, _| async move {
            ctx.charge(3_600 * SECOND); // as a lock does after a wait
            Ok::<_, Status>(Bytes::new())
        });
    let server = Server::start(config("none"), router).unwrap();
    let session = session(&server).await;
    for _ in 0..10 {
        let reply = session.call(Request::new(2, "")).await.unwrap();
        assert_eq!(reply.service, Duration::ZERO);
    }
    assert_eq!(server.stats().service_p99, Duration::ZERO);
    let reply = session.call(Request::new(1, "")).await.unwrap();
    assert!(reply.service >= Duration::from_millis(2));
    assert!(server.stats().service_p99 >= Duration::from_millis(2));
}

#[tokio::test]
async fn the_networks_tail_is_measured_or_set() {
    let measured = network_p99(config("none")).await;
    assert!(measured > config("none").rtt, "{measured:?}: no request was later than another");
    let set = Duration::from_micros(321);
    assert_eq!(network_p99(ServerConfig { network_p99: Some(set), ..config("none") }).await, set);
}

/// What a server takes for the network's tail after a hundred calls.
async fn network_p99(config: ServerConfig) -> Duration {
    let server = Server::start(config, crate::support::router()).unwrap();
    let session = session(&server).await;
    for _ in 0..100 {
        session.call(Request::new(crate::support::ECHO, "")).await.unwrap();
    }
    server.stats().network_p99
}

/// One worker, which writes as well: a refusal leaves before the handler behind it has run, for
/// which the client can prove it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_does_not_wait_for_those_behind_it() {
    let (known, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (handlers, told) = (seen.clone(), known.clone());
    let router = crate::support::router()
        .method(20, "refuse", |_: Context, _| async {
            Err(Rejected::new(Stage(16), Duration::from_micros(7), Duration::ZERO).into())
        })
        .method(21, "hold", move |_: Context, _| {
            let (told, seen) = (told.clone(), handlers.clone());
            async move {
                let began = Instant::now();
                while !told.load(SeqCst) && began.elapsed() < 20 * SECOND {
                    std::hint::spin_loop();
                }
                seen.store(told.load(SeqCst), SeqCst);
                Ok(Bytes::new())
            }
        });
    let server = Server::start(config("none"), router).unwrap();
    let session = session(&server).await;
    // While this runs, the others gather.
    let busy = session.call(Request::new(SPIN, vec![100]));
    until(|| server.stats().requests == 1).await;
    let (sender, refused) = oneshot::channel();
    let tell = known.clone();
    session.submit(
        Request::new(20, ""),
        Box::new(move |result| {
            tell.store(true, SeqCst);
            _ = sender.send(result);
        }),
    );
    let held = session.call(Request::new(21, ""));
    busy.await.unwrap();
    let error = refused.await.unwrap().unwrap_err();
    let CallError::Rejected(rejected) = error else { panic!("{error}") };
    assert_eq!(rejected.stage, Stage(16));
    held.await.unwrap();
    assert!(seen.load(SeqCst), "the refusal waited for the handler behind it");
}
