//! What a server does as the node agent orders, the test being the agent.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seawall_abi::clock::{monotonic_ns, realtime_ns};
use seawall_abi::page::Orders;
use seawall_abi::responder::{DOORBELL, Late};
use seawall_control::request::Stage;
use seawall_control::scaling::responder::BOOSTED_MAX;
use seawall_rpc::{Budget, CallError, Context, Request, Router, Server, Session, Status};
use tokio::sync::{Semaphore, mpsc};

use super::{gated, orders, paged, reader, settled};
use crate::support::{session, until};

const MS: Duration = Duration::from_millis(1);
const HOUR_NS: u64 = 3_600_000_000_000;

#[tokio::test]
async fn a_late_request_boosts_its_service_and_rings_once_until_its_path_thaws() {
    let folder = tempfile::tempdir().unwrap();
    let agent = UnixDatagram::bind(folder.path().join(DOORBELL)).unwrap();
    agent.set_nonblocking(true).unwrap();
    let gate = Arc::new(Semaphore::new(100));
    let server = Server::start(paged(folder.path(), "service"), gated(&gate)).unwrap();
    let (reader, client) = (reader(&server), session(&server).await);
    let call = async |path: u16, start_time_ns: u64| {
        let request = Request { path, start_time_ns, ..Request::new(1, "") };
        client.call(request).await.unwrap();
    };
    let second_ago = realtime_ns() - 1_000_000_000;

    call(3, second_ago).await;
    assert_eq!(reader.service().unwrap().late, 0, "nobody has said what is late");
    let expected_time_from_start_ns = 900_000_000;
    reader
        .set_orders(&Orders {
            expected_time_from_start_ns,
            freeze_ns: HOUR_NS,
            boost_permille: 2000,
            ..orders()
        })
        .unwrap();
    call(3, realtime_ns()).await;
    assert_eq!(reader.service().unwrap().late, 0);
    let page = server.page().unwrap();
    assert_eq!(page.speed(monotonic_ns()), 1000);

    let before = monotonic_ns();
    call(3, second_ago).await;
    call(3, second_ago).await;
    call(4, second_ago).await;
    for unbelievable in [1, realtime_ns() + HOUR_NS] {
        call(6, unbelievable).await; // clocks disagree
    }
    let state = reader.service().unwrap();
    assert_eq!((state.late, state.bells_lost), (3, 0));
    // Its path is frozen for an hour, and no service is boosted for so long.
    let most = BOOSTED_MAX.as_nanos() as u64;
    assert!((before + most..before + HOUR_NS).contains(&state.boosted_until_ns));
    assert_eq!(page.speed(state.boosted_until_ns - 1), 2000);
    assert_eq!(page.speed(state.boosted_until_ns), 1000);
    let mut rung = Vec::new();
    let mut bytes = [0; 64];
    while let Ok(length) = agent.recv(&mut bytes) {
        rung.push(Late::parse(&bytes[..length]).unwrap());
    }
    assert_eq!(rung.iter().map(|late| late.path).collect::<Vec<_>>(), [3, 4]);
    let port = server.address().port();
    assert!(rung.iter().all(|late| (late.pid, late.port) == (std::process::id(), port)));
    assert!(rung[0].at_ns >= before && rung[0].late_by_ns >= 100_000_000);

    drop(agent);
    call(5, second_ago).await;
    assert_eq!(reader.service().unwrap().bells_lost, 1);
    let counters = settled(&server).await;
    assert_eq!(counters.requests, 8);
    assert!(counters.time_from_start_ns < HOUR_NS, "what cannot be is not counted");
    assert_eq!(counters.started, 6, "nor among those of which the mean is");
}

#[tokio::test]
async fn a_sender_that_is_not_believed_boosts_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Semaphore::new(100));
    let mut config = paged(folder.path(), "service");
    config.trust.everybody = false;
    let server = Server::start(config, gated(&gate)).unwrap();
    let reader = reader(&server);
    let strict = Orders { expected_time_from_start_ns: 1, freeze_ns: HOUR_NS, ..orders() };
    reader.set_orders(&strict).unwrap();
    let late = Request { start_time_ns: 1, upscale_hops: 9, ..Request::new(1, "") };
    session(&server).await.call(late).await.unwrap();
    let counters = settled(&server).await;
    assert_eq!((counters.requests, counters.hinted), (1, 0));
    assert_eq!((counters.started, counters.time_from_start_ns), (0, 0));
    let state = reader.service().unwrap();
    assert_eq!((state.late, state.boosted_until_ns, state.hints_distrusted), (0, 0, 1));
}

/// A server with one worker, whose handlers keep it until they are told, and a budget of 5 ms.
struct Busy {
    server: Server,
    client: Session,
    release: std::sync::mpsc::Sender<()>,
    running: mpsc::UnboundedReceiver<()>,
    _folder: tempfile::TempDir,
}

impl Busy {
    async fn start(algorithm: &str, slo: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (release, released) = std::sync::mpsc::channel();
        let released = Arc::new(std::sync::Mutex::new(released));
        let (tell, running) = mpsc::unbounded_channel();
        let router = Router::new().method(1, "keep", move |_: Context, _: Bytes| {
            _ = tell.send(());
            _ = released.lock().unwrap().recv();
            async { Ok::<_, Status>(Bytes::new()) }
        });
        let mut config = paged(folder.path(), "service");
        config.admission.algorithm = algorithm.into();
        config.slo = slo;
        config.budget = Budget::Fixed(5 * MS);
        config.page.grace = Some(Duration::from_secs(60));
        config.threads.dispatchers = 1; // the worker is kept, and somebody has to read
        config.guardian.way = seawall_rpc::GuardianWay::Off;
        let server = Server::start(config, router).unwrap();
        let client = session(&server).await;
        Self { server, client, release, running, _folder: folder }
    }
}

#[tokio::test]
async fn while_capacity_grows_admission_waits_for_it_up_to_the_deadline() {
    let mut busy = Busy::start("none", 5_000 * MS).await;
    let (reader, client) = (reader(&busy.server), busy.client.clone());
    let keeps = client.call(Request::new(1, ""));
    busy.running.recv().await.unwrap();
    let queued = client.call(Request::new(1, ""));
    until(|| reader.counters().unwrap().in_flight == 2).await;
    tokio::time::sleep(50 * MS).await; // the queue is that old now, which exceeds the budget

    let refused = async |request: Request| {
        let Err(CallError::Rejected(rejected)) = client.call(request).await else {
            panic!("it was not refused")
        };
        assert_eq!(rejected.stage, Stage::RUN_QUEUE);
    };
    refused(Request::new(1, "")).await;
    let grows = |heartbeat_ns| {
        let growing_until_ns = monotonic_ns() + HOUR_NS;
        reader.set_orders(&Orders { growing_until_ns, heartbeat_ns, ..orders() }).unwrap();
    };
    grows(1); // an agent that has died promises nothing
    refused(Request::new(1, "")).await;
    grows(monotonic_ns());
    let kept = client.call(Request::new(1, ""));
    until(|| reader.counters().unwrap().in_flight == 3).await;
    refused(Request::new(1, "").with_deadline(10 * MS)).await;

    for _ in 0..3 {
        busy.release.send(()).unwrap();
    }
    for call in [keeps, queued, kept] {
        call.await.unwrap(); // the queued one has waited for more than its budget, too
    }
    let counters = settled(&busy.server).await;
    assert_eq!((counters.requests, counters.shed, counters.unserved), (3, 3, 0));
}

#[tokio::test]
async fn while_capacity_grows_the_algorithm_refuses_nothing_at_entry() {
    let mut busy = Busy::start("breakwater", 10 * MS).await;
    let reader = reader(&busy.server);
    // The first call of a session needs no credit.
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(session(&busy.server).await);
    }
    let keeps = busy.client.call(Request::new(1, ""));
    busy.running.recv().await.unwrap();
    let growing_until_ns = monotonic_ns() + HOUR_NS;
    reader.set_orders(&Orders { growing_until_ns, ..orders() }).unwrap();
    let queued = sessions[0].call(Request::new(1, ""));
    until(|| reader.counters().unwrap().in_flight == 2).await;
    tokio::time::sleep(50 * MS).await; // far beyond what Breakwater lets in
    let kept = sessions[1].call(Request::new(1, ""));
    until(|| reader.counters().unwrap().in_flight == 3).await;

    reader.set_orders(&orders()).unwrap(); // there is nothing more to be had
    let Err(CallError::Rejected(rejected)) = sessions[2].call(Request::new(1, "")).await else {
        panic!("it was not refused")
    };
    assert_eq!(rejected.stage, Stage::ADMISSION);
    for _ in 0..3 {
        _ = busy.release.send(());
    }
    keeps.await.unwrap();
    drop((queued, kept));
}

#[tokio::test]
async fn once_nothing_grows_any_more_what_waits_is_refused() {
    let mut busy = Busy::start("none", 5_000 * MS).await;
    let reader = reader(&busy.server);
    let keeps = busy.client.call(Request::new(1, ""));
    busy.running.recv().await.unwrap();
    let queued = busy.client.call(Request::new(1, ""));
    until(|| reader.counters().unwrap().in_flight == 2).await;
    tokio::time::sleep(50 * MS).await;
    busy.release.send(()).unwrap();
    keeps.await.unwrap();
    assert!(matches!(queued.await, Err(CallError::Rejected(it)) if it.stage == Stage::RUN_QUEUE));
    let counters = settled(&busy.server).await;
    assert_eq!((counters.requests, counters.shed), (1, 1));
}
