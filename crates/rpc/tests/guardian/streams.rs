//! What the streams of a guarded server have to stand, whoever its guardian is: nothing is lost,
//! nothing is corrupted, every call has one reply, and the books are balanced.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nix::sched::CpuSet;
use seawall_control::request::Stage;
use seawall_control::wire::{Hello, Request, RequestOp, Status as WireStatus};
use seawall_rpc::{Budget, CallError, GuardianWay, Server, ServerConfig, StartError, Stats};

use crate::starve::{self, Starvation};
use crate::support::raw::{Answer, Raw, frame};
use crate::support::{self, ECHO, GROW, balanced, router, session, until};

/// They share the machine's CPUs, and starve each other.
pub(crate) static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

pub(crate) const MS: Duration = Duration::from_millis(1);

/// What a call has left that is refused once the server has waited for longer.
pub(crate) const DOOMED: Duration = MS;

/// A server that refuses for the CPU, for deadlines, and else for nothing.
pub(crate) fn guarded(way: GuardianWay) -> ServerConfig {
    let mut config = support::config("none");
    config.guardian.way = way;
    (config.budget, config.limits.outstanding) = (Budget::Off, 1 << 20);
    config
}

/// Starts it, and binds its workers to a CPU. `None` where nothing can be tested, which is said.
pub(crate) fn start(config: ServerConfig) -> Option<(Server, CpuSet)> {
    let threads = config.workers() + config.dispatchers();
    let server = match Server::start(config, router()) {
        Ok(server) => server,
        Err(error @ (StartError::Guardian(_) | StartError::Kernel(_))) => {
            let text = error.to_string();
            assert!(["CAP_", "CONFIG_", "built"].iter().any(|what| text.contains(what)), "{text}");
            eprintln!("not tested: {text}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(server.is_guarded());
    // A thread has its name, by which it is found, once it has begun.
    while starve::named() < threads {
        std::thread::yield_now();
    }
    let Some(cpu) = Starvation::prepare() else {
        eprintln!("not tested: there is one CPU only, or no right to real-time priority");
        return None;
    };
    Some((server, cpu))
}

/// A call with a deadline, or without one.
pub(crate) fn call(id: u64, method: u16, deadline: Option<Duration>, payload: &[u8]) -> Vec<u8> {
    let mut request = Request::new(RequestOp::Call);
    (request.claims.id, request.claims.method) = (id, method);
    request.claims.deadline = deadline;
    frame(request, payload)
}

/// True of what no call may end in here.
pub(crate) fn is_broken(error: &CallError) -> bool {
    matches!(error, CallError::Failed { .. } | CallError::ConnectionLost(_))
}

pub(crate) fn is_cpu_refusal(answer: &Answer) -> bool {
    let head = &answer.head;
    head.status == WireStatus::Rejected && head.stage == Stage::CPU
}

/// Calls that were refused for the CPU, by whomever.
pub(crate) fn refused_for_cpu(stats: &Stats) -> u64 {
    stats.refusals.get(&Stage::CPU).copied().unwrap_or_default() + stats.bounced
}

/// How soon a refusal comes while the server's CPU is taken by a thread of real-time priority. The
/// kernel's own threads may have to wait for that CPU, too.
fn promptness(way: GuardianWay) -> Duration {
    if way == GuardianWay::Kernel { 50 * MS } else { 10_000 * MS }
}

/// A client whose calls wait for a CPU, so that the server does.
pub(crate) struct Waiter {
    client: Raw,
    calls: u64,
}

impl Waiter {
    pub(crate) async fn new(server: &Server) -> Self {
        Self { client: Raw::open(server.address()).await, calls: 0 }
    }

    /// Takes the CPU; when it returns, the server has waited for longer than [`DOOMED`].
    pub(crate) async fn starve(&mut self, cpu: CpuSet) -> Starvation {
        // The server is done with all it has to do.
        tokio::time::sleep(5 * MS).await;
        let starvation = Starvation::begin(cpu);
        self.calls += 1;
        self.client.send(&call(self.calls, ECHO, None, b"patient")).await;
        tokio::time::sleep(4 * DOOMED).await;
        starvation
    }

    /// What waited was answered.
    pub(crate) async fn fed(&mut self) {
        let answer = self.client.reply(self.calls).await;
        assert_eq!((answer.status(), answer.text()), (Some(WireStatus::Ok), "patient".into()));
    }
}

/// Kept and cancelled calls in turns, in two writes that are cut at every place.
pub(crate) async fn survive_every_cut(mut config: ServerConfig) {
    let _alone = ALONE.lock().await;
    let way = config.guardian.way;
    config.guardian.share = 0.9; // it parses slowly without optimization
    let Some((server, cpu)) = start(config) else { return };
    let mut waiter = Waiter::new(&server).await;
    let mut client = Raw::open(server.address()).await;
    client.tcp.set_nodelay(true).unwrap();
    // The first of a session is never refused by the kernel.
    client.send(&call(u64::MAX, ECHO, None, b"")).await;
    client.reply(u64::MAX).await;
    let payload = |id: u64| vec![id as u8; id as usize % 7 * 5];
    let batch = |first: u64| -> Vec<u8> {
        let frames = (first..first + 5).map(|id| {
            let deadline = (id % 2 == 0).then_some(DOOMED);
            call(id, ECHO, deadline, &payload(id))
        });
        frames.collect::<Vec<_>>().concat()
    };
    let (mut next, mut cut) = (1, 1);
    let (mut served, mut refused, mut episodes) = (0, 0, 0);
    while cut < batch(next).len() {
        let starvation = waiter.starve(cpu).await;
        episodes += 1;
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
        let mut answers = Vec::new();
        let doomed = (first..next).filter(|id| id % 2 == 0).count();
        while answers.len() < doomed
            && let Ok(answer) = tokio::time::timeout(promptness(way), client.next()).await
        {
            let answer = answer.unwrap();
            // What a thread reads when it has just got the CPU is judged by the run queue.
            let head = &answer.head;
            let is_late = [Stage::CPU, Stage::RUN_QUEUE].contains(&head.stage);
            assert!(head.status == WireStatus::Rejected && is_late, "{answer:?}");
            assert_eq!(answer.head.id % 2, 0, "it was to be kept");
            answers.push(answer);
        }
        starvation.release();
        while answers.len() < (next - first) as usize {
            answers.push(client.next().await.unwrap());
        }
        let mut seen = vec![false; answers.len()];
        for answer in answers {
            let id = answer.head.id;
            assert!(!std::mem::replace(&mut seen[(id - first) as usize], true), "{id} twice");
            if answer.status() == Some(WireStatus::Ok) {
                assert_eq!(answer.body, payload(id));
                served += 1;
            } else {
                assert!(id % 2 == 0 && answer.status() == Some(WireStatus::Rejected), "{answer:?}");
                refused += 1;
            }
        }
        waiter.fed().await;
        // Real-time threads have 95 % of a CPU at most.
        tokio::time::sleep(100 * MS).await;
    }
    drop((client, waiter));
    let stats = balanced(&server).await;
    assert_eq!(stats.completions, served + episodes + 1);
    assert_eq!((stats.refused() + stats.bounced, served + refused), (refused, next - 1));
    // Most, on a quiet machine. Where others compete, short waits are expected, and calls refused
    // for the age of the run queue first.
    assert!(refused_for_cpu(&stats) > 0, "{refused}: {stats:?}");
    assert_eq!(stats.requests + stats.bounced, next + episodes);
}

/// Refusals fall due while a large reply is half written.
pub(crate) async fn refuse_behind_what_is_half_written(mut config: ServerConfig) {
    let _alone = ALONE.lock().await;
    const LARGE: usize = 8 << 20;
    let way = config.guardian.way;
    config.limits.unread_bytes = 64 << 20;
    let Some((server, cpu)) = start(config) else { return };
    let mut waiter = Waiter::new(&server).await;
    let mut client = Raw::connect_narrow(server.address()).await;
    client = client.greet(&Hello::default()).await;
    client.send(&call(1, GROW, None, &(LARGE as u32).to_le_bytes())).await;
    until(|| server.stats().completions == 1).await;
    let starvation = waiter.starve(cpu).await;
    for id in 2..100 {
        client.send(&call(id, ECHO, Some(DOOMED), b"doomed")).await;
    }
    if way == GuardianWay::Kernel {
        // The server was in the middle of a frame: nobody else may write. It sees them too late.
        tokio::time::sleep(2 * DOOMED).await;
        assert_eq!(server.stats().bounced, 0);
    } else {
        until(|| server.stats().refused() == 98).await;
    }
    starvation.end();
    client.widen();
    let answer = client.next().await.unwrap();
    assert_eq!((answer.head.id, answer.body), (1, vec![7; LARGE]));
    let mut refused = Vec::new();
    for _ in 2..100 {
        let answer = client.next().await.unwrap();
        assert_eq!(answer.status(), Some(WireStatus::Rejected), "{answer:?}");
        refused.push(answer.head.id);
    }
    refused.sort_unstable();
    assert!(refused.into_iter().eq(2..100));
    waiter.fed().await;
    drop((client, waiter));
    balanced(&server).await;
}

/// Replies that do not fit into the socket, and calls that are refused, all the time.
pub(crate) async fn share_with_large_replies(mut config: ServerConfig) {
    let _alone = ALONE.lock().await;
    const ROUNDS: u64 = 40;
    config.limits.unread_bytes = 64 << 20; // it reads when all is sent
    let Some((server, cpu)) = start(config) else { return };
    let mut waiter = Waiter::new(&server).await;
    let mut client = Raw::open(server.address()).await;
    client.tcp.set_nodelay(true).unwrap();
    let len = |id: u64| (id * 7919 % 300_000) as usize;
    let grow = |id: u64| call(id, GROW, None, &(len(id) as u32).to_le_bytes());
    let (mut next, mut refused) = (1, 0);
    for round in 0..ROUNDS {
        let starvation = waiter.starve(cpu).await;
        let first = next;
        for turn in 0..10 {
            client.send(&grow(next)).await;
            client.send(&call(next + 1, ECHO, Some(DOOMED), &[3; 700])).await;
            client.send(&call(next + 2, ECHO, Some(DOOMED), &vec![4; 70_000])).await;
            next += 3;
            if turn == round % 10 {
                // Those behind it come while the server runs, or soon will.
                starvation.release();
            }
        }
        starvation.release();
        let mut seen = vec![false; (next - first) as usize];
        for _ in first..next {
            let answer = client.next().await.unwrap();
            let id = answer.head.id;
            assert!(!std::mem::replace(&mut seen[(id - first) as usize], true), "{id} twice");
            match answer.status() {
                Some(WireStatus::Rejected) => {
                    assert_ne!(id % 3, 1, "it was to be kept");
                    refused += 1;
                }
                Some(WireStatus::Ok) => {
                    let expected = match id % 3 {
                        1 => vec![7; len(id)],
                        2 => vec![3; 700],
                        _ => vec![4; 70_000],
                    };
                    assert!(answer.body == expected, "the reply to {id} is corrupt");
                }
                _ => panic!("{:?}", answer.head),
            }
        }
        waiter.fed().await;
    }
    assert!(refused > 0);
    assert!(refused_for_cpu(&server.stats()) > 0, "{:?}", server.stats());
    drop((client, waiter));
    balanced(&server).await;
}

/// Many sessions that send by the clock, whether they were answered or not, while starvation comes
/// and goes: every call has one reply, and it is its own.
pub(crate) async fn lose_nothing_under_many_clients(config: ServerConfig) {
    let _alone = ALONE.lock().await;
    const CLIENTS: u64 = 32;
    const CALLS: u64 = 200;
    let Some((server, cpu)) = start(config) else { return };
    let mut clients = tokio::task::JoinSet::new();
    let refused = Arc::new(AtomicUsize::new(0));
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
    assert!(refused_for_cpu(&stats) > 0, "{stats:?}");
    assert_eq!(stats.requests + stats.bounced, CLIENTS * CALLS);
}

/// Whoever has credits gets them back.
pub(crate) async fn give_credits_back(config: ServerConfig) {
    let _alone = ALONE.lock().await;
    let way = config.guardian.way;
    let config = ServerConfig { admission: support::config("breakwater").admission, ..config };
    let Some((server, cpu)) = start(config) else { return };
    let session = session(&server).await;
    for _ in 0..10 {
        let starvation = Starvation::begin(cpu);
        let doomed = seawall_rpc::Request::new(ECHO, "").with_deadline(20 * MS);
        let call = session.call(doomed);
        if way == GuardianWay::Kernel {
            // The kernel let it pass: nobody waited yet.
            tokio::time::sleep(30 * MS).await;
            starvation.end();
            _ = call.await.inspect_err(|error| assert!(!is_broken(error), "{error}"));
        } else {
            let refused = call.await.unwrap_err();
            starvation.end();
            // Or the client saw first that it would be too late.
            assert!(!is_broken(&refused), "{refused}");
        }
        session.call(seawall_rpc::Request::new(ECHO, "")).await.unwrap();
    }
    drop(session);
    let stats = balanced(&server).await;
    assert!(stats.completions >= 10);
}
