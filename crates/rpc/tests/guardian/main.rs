//! A server that answers while its workers do not get the CPU.
//!
//! The starvation is real: a real-time thread has the workers' CPU, and ends only when the test has
//! seen what it waits for. Where real-time priority is not permitted, the tests check that the
//! server says so.

#[path = "../support/mod.rs"]
mod support;

mod starve;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use seawall_control::predict::starvation::{CpuDelay, Starved};
use seawall_control::request::Stage;
use seawall_control::wire::{Request, RequestOp, Status as WireStatus};
use seawall_rpc::{Budget, CallError, GuardianMode, Server, ServerConfig, StartError};
use starve::Starvation;
use support::raw::{Answer, Raw, frame};
use support::{ECHO, GROW, balanced, config, router, session, until};

/// They share the machine's CPUs, and starve each other.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

const MS: Duration = Duration::from_millis(1);

/// A server that refuses for the CPU, for deadlines, and else for nothing.
fn guarded() -> ServerConfig {
    let mut config = config("none");
    config.guardian.enabled = GuardianMode::On;
    (config.budget, config.limits.outstanding) = (Budget::Off, 1 << 20);
    config
}

/// Starts it, and binds its workers to a CPU. `None` where nothing can be tested, which is said.
fn start(config: ServerConfig) -> Option<(Server, nix::sched::CpuSet)> {
    let server = match Server::start(config, router()) {
        Ok(server) => server,
        Err(StartError::Guardian(error)) => {
            assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}");
            eprintln!("not tested: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(server.is_guarded());
    let Some(cpu) = Starvation::prepare() else {
        eprintln!("not tested: there is one CPU only");
        return None;
    };
    Some((server, cpu))
}

/// A call with a deadline, or without one.
fn call(id: u64, method: u16, deadline: Option<Duration>, payload: &[u8]) -> Vec<u8> {
    let mut request = Request::new(RequestOp::Call);
    (request.claims.id, request.claims.method) = (id, method);
    request.claims.deadline = deadline;
    frame(request, payload)
}

/// True of what no call may end in here.
fn is_broken(error: &CallError) -> bool {
    matches!(error, CallError::Failed { .. } | CallError::ConnectionLost(_))
}

fn is_cpu_refusal(answer: &Answer) -> bool {
    let head = &answer.head;
    head.status == WireStatus::Rejected && head.stage == Stage::CPU
}

#[tokio::test]
async fn auto_wants_dispatchers_and_permission_and_off_wants_none() {
    let _alone = ALONE.lock().await;
    let guarded = |mode, workers, dispatchers| {
        let mut config = config("none");
        config.guardian.enabled = mode;
        (config.threads.workers, config.threads.dispatchers) = (workers, dispatchers);
        Server::start(config, router()).map(|server| server.is_guarded())
    };
    let permitted = guarded(GuardianMode::On, 1, 0).is_ok();
    assert_eq!(guarded(GuardianMode::On, 1, 0).unwrap_or(false), permitted);
    assert_eq!(guarded(GuardianMode::Auto, 2, 0).unwrap(), permitted);
    assert_eq!(guarded(GuardianMode::Auto, 1, 1).unwrap(), permitted);
    assert!(!guarded(GuardianMode::Auto, 1, 0).unwrap());
    assert!(!guarded(GuardianMode::Off, 2, 2).unwrap());
}

#[tokio::test]
async fn calls_are_refused_while_the_workers_wait_for_the_cpu() {
    let _alone = ALONE.lock().await;
    let Some((server, cpu)) = start(guarded()) else { return };
    let session = session(&server).await;
    session.call(seawall_rpc::Request::new(ECHO, "")).await.unwrap();

    let starvation = Starvation::begin(cpu);
    // The first waits in the run queue until the wait is longer than what it has left; those behind
    // it are refused at once: before they have waited at all, they cannot wait so long.
    let ask = |ms| session.call(seawall_rpc::Request::new(ECHO, "x").with_deadline(MS * ms));
    let first = ask(100);
    let CallError::Rejected(queued) = first.await.unwrap_err() else { panic!("not refused") };
    assert_eq!(queued.stage, Stage::CPU);
    assert!(queued.predicted_delay > Duration::ZERO);
    let CallError::Rejected(at_entry) = ask(20).await.unwrap_err() else { panic!("not refused") };
    assert_eq!(at_entry.stage, Stage::CPU);
    assert!(at_entry.predicted_delay > 20 * MS && !at_entry.retry_after.is_zero());
    // What has no deadline waits.
    let patient = session.call(seawall_rpc::Request::new(ECHO, "patient"));
    until(|| server.stats().outstanding == 1).await;
    assert_eq!(server.stats().completions, 1);
    starvation.end();

    assert_eq!(patient.await.unwrap().payload, "patient");
    // A worker that has run ends it.
    let later = session.call(seawall_rpc::Request::new(ECHO, "y").with_deadline(5_000 * MS));
    assert_eq!(later.await.unwrap().payload, "y");
    assert_eq!(server.stats().refusals[&Stage::CPU], 2);
    drop(session);
    let stats = balanced(&server).await;
    assert_eq!((stats.completions, stats.refused()), (3, 2));
}

#[tokio::test]
async fn under_credits_they_come_back() {
    let _alone = ALONE.lock().await;
    let config = ServerConfig { admission: config("breakwater").admission, ..guarded() };
    let Some((server, cpu)) = start(config) else { return };
    let session = session(&server).await;
    for _ in 0..10 {
        let starvation = Starvation::begin(cpu);
        let doomed = seawall_rpc::Request::new(ECHO, "").with_deadline(20 * MS);
        let refused = session.call(doomed).await.unwrap_err();
        starvation.end();
        // Or the client saw first that it would be too late.
        assert!(!is_broken(&refused), "{refused}");
        session.call(seawall_rpc::Request::new(ECHO, "")).await.unwrap();
    }
    drop(session);
    let stats = balanced(&server).await;
    assert_eq!(stats.completions, 10);
}

#[derive(Debug)]
struct Never;

impl CpuDelay for Never {
    fn predict(&self, _now: seawall_control::Instant, starved: &Starved<'_>) -> Duration {
        assert!(!starved.threads.is_empty());
        Duration::ZERO
    }

    fn on_episode(&mut self, _now: seawall_control::Instant, _waited: Duration) {}
}

#[tokio::test]
async fn the_predictor_can_be_replaced() {
    let _alone = ALONE.lock().await;
    let Some((server, cpu)) = start(guarded()) else { return };
    server.predict_cpu_delay_by(Box::new(Never));
    let mut client = Raw::open(server.address()).await;
    client.tcp.set_nodelay(true).unwrap();
    let starvation = Starvation::begin(cpu);
    client.send(&call(1, ECHO, Some(400 * MS), b"")).await;
    client.send(&call(2, ECHO, Some(20 * MS), b"")).await;
    // Only what is late is refused: the second, when its deadline has passed.
    let answer = client.reply(2).await;
    assert!(is_cpu_refusal(&answer), "{answer:?}");
    starvation.end();
    assert_eq!(client.reply(1).await.status(), Some(WireStatus::Ok));
}

/// Kept and cancelled calls in turns, in two writes that are cut at every place.
#[tokio::test]
async fn streams_survive_every_cut() {
    let _alone = ALONE.lock().await;
    let mut config = guarded();
    config.guardian.share = 0.9; // it parses slowly without optimization
    let Some((server, cpu)) = start(config) else { return };
    let mut client = Raw::open(server.address()).await;
    client.tcp.set_nodelay(true).unwrap();
    let payload = |id: u64| vec![id as u8; id as usize % 7 * 5];
    let batch = |first: u64| -> Vec<u8> {
        let frames = (first..first + 5).map(|id| {
            let deadline = (id % 2 == 0).then_some(10 * MS);
            call(id, ECHO, deadline, &payload(id))
        });
        frames.collect::<Vec<_>>().concat()
    };
    let (mut next, mut cut) = (1, 1);
    let mut served = 0;
    while cut < batch(next).len() {
        let starvation = Starvation::begin(cpu);
        let began = Instant::now();
        let first = next;
        while cut < batch(next).len() && began.elapsed() < 100 * MS {
            let stream = batch(next);
            let (head, tail) = stream.split_at(cut);
            client.send(head).await;
            tokio::task::yield_now().await;
            client.send(tail).await;
            (next, cut) = (next + 5, cut + 1);
        }
        for _ in (first..next).filter(|id| id % 2 == 0) {
            let answer = client.next().await.unwrap();
            assert!(is_cpu_refusal(&answer), "{answer:?}");
            assert_eq!(answer.head.id % 2, 0, "it was to be kept");
        }
        starvation.end();
        let mut kept: Vec<_> = Vec::new();
        for _ in (first..next).filter(|id| id % 2 == 1) {
            let answer = client.next().await.unwrap();
            assert_eq!(answer.status(), Some(WireStatus::Ok), "{answer:?}");
            assert_eq!(answer.body, payload(answer.head.id));
            kept.push(answer.head.id);
        }
        assert!(kept.iter().copied().eq((first..next).filter(|id| id % 2 == 1)));
        served += kept.len() as u64;
        // Real-time threads have 95 % of a CPU at most.
        tokio::time::sleep(100 * MS).await;
    }
    drop(client);
    let stats = balanced(&server).await;
    assert_eq!((stats.requests, stats.completions), (next - 1, served));
    assert_eq!(stats.refusals[&Stage::CPU], next - 1 - served);
}

/// Refusals fall due while a large reply is half written.
#[tokio::test]
async fn refusals_stand_behind_what_is_half_written() {
    let _alone = ALONE.lock().await;
    const LARGE: usize = 8 << 20;
    let mut config = guarded();
    config.limits.unread_bytes = 64 << 20;
    let Some((server, cpu)) = start(config) else { return };
    let mut client = Raw::connect_narrow(server.address()).await;
    client = client.greet(&seawall_control::wire::Hello::default()).await;
    client.send(&call(1, GROW, None, &(LARGE as u32).to_le_bytes())).await;
    until(|| server.stats().completions == 1).await;
    let starvation = Starvation::begin(cpu);
    for id in 2..100 {
        client.send(&call(id, ECHO, Some(5 * MS), b"doomed")).await;
    }
    until(|| server.stats().refused() == 98).await;
    starvation.end();
    client.widen();
    let answer = client.next().await.unwrap();
    assert_eq!((answer.head.id, answer.body), (1, vec![7; LARGE]));
    let mut refused = Vec::new();
    for _ in 2..100 {
        let answer = client.next().await.unwrap();
        // By what the reply took, others of its length ahead would take as long, too.
        assert_eq!(answer.status(), Some(WireStatus::Rejected), "{answer:?}");
        refused.push(answer.head.id);
    }
    refused.sort_unstable();
    assert!(refused.into_iter().eq(2..100));
    drop(client);
    balanced(&server).await;
}

/// Many sessions that send by the clock, whether they were answered or not, while starvation comes
/// and goes: every call has one reply, and it is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_under_many_clients() {
    let _alone = ALONE.lock().await;
    const CLIENTS: u64 = 32;
    const CALLS: u64 = 200;
    let Some((server, cpu)) = start(guarded()) else { return };
    let mut clients = tokio::task::JoinSet::new();
    let refused = std::sync::Arc::new(AtomicUsize::new(0));
    for number in 0..CLIENTS {
        let (session, refused) = (session(&server).await, refused.clone());
        clients.spawn(async move {
            let mut replies = tokio::task::JoinSet::new();
            for call in 0..CALLS {
                let payload = Bytes::from(format!("{number} {call} ").repeat(call as usize % 50));
                let mut request = seawall_rpc::Request::new(ECHO, payload.clone());
                if (call + number) % 3 > 0 {
                    request = request.with_deadline(MS * (1 + call as u32 % 10));
                }
                let (call, refused) = (session.call(request), refused.clone());
                replies.spawn(async move {
                    match call.await {
                        Ok(reply) => assert_eq!(reply.payload, payload),
                        Err(CallError::Rejected(_)) => _ = refused.fetch_add(1, SeqCst),
                        Err(error) => assert!(!is_broken(&error), "{error}"),
                    }
                });
                tokio::time::sleep(MS).await;
            }
            while let Some(replied) = replies.join_next().await {
                replied.unwrap();
            }
        });
    }
    for _ in 0..20 {
        let starvation = Starvation::begin(cpu);
        tokio::time::sleep(8 * MS).await;
        starvation.end();
        tokio::time::sleep(4 * MS).await;
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
    let stats = balanced(&server).await;
    assert!(stats.refusals.get(&Stage::CPU).is_some_and(|&count| count > 0), "{stats:?}");
    assert_eq!(stats.requests, CLIENTS * CALLS);
}

#[test]
fn unsound_settings_are_refused() {
    let with = |change: fn(&mut ServerConfig)| {
        let mut config = config("none");
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    assert!(with(|config| config.guardian.priority = 0).contains("guardian.priority"));
    assert!(with(|config| config.guardian.share = 1.0).contains("guardian.share"));
    let text = "[guardian]\nenabled = \"on\"\npriority = 7\nshare = 0.25\n";
    let read: ServerConfig = toml::from_str(text).unwrap();
    assert_eq!(read.guardian.enabled, GuardianMode::On);
    assert_eq!((read.guardian.priority, read.guardian.share), (7, 0.25));
}
