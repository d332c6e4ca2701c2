//! What is demand that the CPU could not serve, and what only a client's doing.

use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seawall_abi::page::Counters;
use seawall_control::bounce::{Bounced, Bouncer, Problem};
use seawall_control::wire::Status;
use seawall_rpc::{ClientConfig, GuardianWay, Request, Server, Session, install_bouncer};

use super::{paged, reader, settled};
use crate::support::raw::{Raw, call};
use crate::support::{ECHO, SLEEP, router, session, until};

fn ends(counters: &Counters) -> (u64, u64, u64) {
    (counters.requests, counters.shed, counters.unserved)
}

#[tokio::test]
async fn what_a_client_gives_no_time_is_not_shed() {
    for algorithm in ["none", "breakwater", "protego"] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = paged(folder.path(), "service");
        config.admission.algorithm = algorithm.into();
        config.slo = Duration::from_secs(60);
        let server = Server::start(config, router()).unwrap();
        let client = session(&server).await;
        let zero = Some(Duration::ZERO);
        for (deadline, budget) in [(zero, None), (None, zero), (zero, zero)] {
            let mut call = Raw::open(server.address()).await;
            let mut frame =
                seawall_control::wire::Request::new(seawall_control::wire::RequestOp::Call);
            (frame.claims.id, frame.claims.method) = (1, ECHO);
            (frame.claims.deadline, frame.claims.budget) = (deadline, budget);
            call.send(&crate::support::raw::frame(frame, b"")).await;
            assert_eq!(call.reply(1).await.status(), Some(Status::Rejected), "{algorithm}");
        }
        client.call(Request::new(ECHO, "")).await.unwrap();
        assert_eq!(ends(&settled(&server).await), (1, 0, 3), "{algorithm}");
    }
}

#[tokio::test]
async fn what_exceeds_a_window_is_not_shed() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = paged(folder.path(), "service");
    config.limits.outstanding = 1;
    let server = Server::start(config, router()).unwrap();
    let mut client = Raw::open(server.address()).await;
    client.send(&call(0, SLEEP, b"")).await;
    client.send(&call(1, ECHO, b"")).await;
    assert_eq!(client.reply(1).await.status(), Some(Status::Rejected));
    assert_eq!(server.stats().window_violations, 1);
    let counters = reader(&server).counters().unwrap();
    assert_eq!((ends(&counters), counters.in_flight), ((0, 0, 1), 1));
}

#[tokio::test]
async fn what_comes_while_a_server_ends_is_not_shed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(paged(folder.path(), "service"), router()).unwrap();
    let reader = reader(&server);
    let mut client = Raw::open(server.address()).await;
    client.send(&call(0, SLEEP, b"")).await;
    until(|| reader.counters().unwrap().in_flight == 1).await;
    let (end, ended) = (Duration::from_secs(60), Duration::from_secs(20));
    let ending = std::thread::spawn(move || server.shutdown(end));
    // The goaway comes first.
    while client.next().await.expect("it is told").head.op
        != seawall_control::wire::ResponseOp::Goaway
    {}
    client.send(&call(1, ECHO, b"")).await;
    let refused = tokio::time::timeout(ended, client.reply(1)).await.unwrap();
    assert_eq!(refused.status(), Some(Status::Rejected));
    assert_eq!(ends(&reader.counters().unwrap()), (0, 0, 1));
    drop(client); // nobody is left to wait for
    ending.join().unwrap();
}

/// A kernel that refuses as often as it is told, and answers on no connection.
#[derive(Debug)]
struct Kernel;

static REFUSED: AtomicU64 = AtomicU64::new(0);

impl Bouncer for Kernel {
    fn enlist(&self) -> Result<(), Problem> {
        Ok(())
    }
    fn adopt(&self, _socket: i32) -> Result<Box<dyn Bounced>, Problem> {
        Err(Box::<dyn Error + Send + Sync>::from("no connection is watched"))
    }
    fn refused(&self) -> u64 {
        REFUSED.load(Relaxed)
    }
}

#[tokio::test]
async fn what_the_kernel_refuses_arrived_and_was_shed() {
    assert!(install_bouncer(|| Ok(Arc::new(Kernel))));
    let folder = tempfile::tempdir().unwrap();
    let mut config = paged(folder.path(), "service");
    config.guardian.way = GuardianWay::Kernel;
    let server = Server::start(config, router()).unwrap();
    session(&server).await.call(Request::new(ECHO, "")).await.unwrap();
    let reader = reader(&server);
    for all in [3, 7] {
        REFUSED.store(all, Relaxed);
        until(|| ends(&reader.counters().unwrap()) == (1, all, 0)).await;
    }
    assert_eq!(reader.counters().unwrap().in_flight, 0);
}

/// An address at which nobody listens, of a port that no client gets by itself: one that tries to
/// connect there could meet itself.
fn free() -> SocketAddr {
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let is_free = |port: &u16| TcpListener::bind(address(*port)).is_ok();
    address((20_000..30_000).find(is_free).expect("one of ten thousand"))
}

/// Who connects while a server starts counts like all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_there_first_counts() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let mut config = paged(folder.path(), "service");
        config.listen = free();
        let address = config.listen;
        let early = tokio::spawn(async move {
            loop {
                if let Ok(session) = Session::connect(address, &ClientConfig::default()).await {
                    return session;
                }
            }
        });
        let server = Server::start(config, router()).unwrap();
        early.await.unwrap().call(Request::new(ECHO, "")).await.unwrap();
        assert_eq!(ends(&settled(&server).await), (1, 0, 0));
    }
}
