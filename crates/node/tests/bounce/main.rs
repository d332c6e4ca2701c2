//! A server for which the kernel answers while it waits for a CPU. Where the kernel does not, the
//! tests say why and pass.

#[path = "../../../rpc/tests/guardian/starve.rs"]
mod starve;
#[path = "../../../rpc/tests/guardian/streams.rs"]
mod streams;
#[path = "../../../rpc/tests/support/mod.rs"]
mod support;

use std::time::Duration;

use seawall_control::wire::{Hello, Request, RequestOp, Status};
use seawall_node::Bounce;
use seawall_rpc::{GuardianWay, Server, ServerConfig};
use starve::Starvation;
use streams::{ALONE, DOOMED, Waiter, call, guarded, is_cpu_refusal, refused_for_cpu};
use support::raw::{Raw, frame};
use support::{ECHO, balanced};

const KERNEL: GuardianWay = GuardianWay::Kernel;

/// Servers of this process are guarded by the kernel, if they are told to.
fn install() {
    seawall_rpc::install_bouncer(Bounce::for_server);
}

fn start(config: ServerConfig) -> Option<(Server, nix::sched::CpuSet)> {
    install();
    streams::start(config)
}

#[tokio::test]
async fn streams_survive_every_cut() {
    install();
    streams::survive_every_cut(guarded(KERNEL)).await;
}

#[tokio::test]
async fn nothing_is_refused_while_a_reply_is_half_written() {
    install();
    streams::refuse_behind_what_is_half_written(guarded(KERNEL)).await;
}

#[tokio::test]
async fn large_replies_and_refusals_share_a_stream() {
    install();
    streams::share_with_large_replies(guarded(KERNEL)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_under_many_clients() {
    install();
    streams::lose_nothing_under_many_clients(guarded(KERNEL)).await;
}

#[tokio::test]
async fn credits_come_back() {
    install();
    streams::give_credits_back(guarded(KERNEL)).await;
}

/// A session's first call, calls without a limit, and those that must not be dropped wait.
#[tokio::test]
async fn only_what_may_be_refused_is() {
    let _alone = ALONE.lock().await;
    let Some((server, cpu)) = start(guarded(KERNEL)) else { return };
    let mut waiter = Waiter::new(&server).await;
    let mut client = Raw::open(server.address()).await;
    let starvation = waiter.starve(cpu).await;
    client.send(&call(1, ECHO, Some(DOOMED), b"first")).await;
    client.send(&call(2, ECHO, None, b"patient")).await;
    let mut privileged = Request::new(RequestOp::Call);
    (privileged.claims.id, privileged.claims.method) = (3, ECHO);
    (privileged.claims.deadline, privileged.claims.droppable) = (Some(DOOMED), false);
    client.send(&frame(privileged, b"privileged")).await;
    client.send(&call(4, ECHO, Some(Duration::from_secs(3_600)), b"in time")).await;
    for id in [5, 6] {
        client.send(&call(id, ECHO, Some(DOOMED), b"doomed")).await;
        let answer = client.next().await.unwrap();
        assert!(is_cpu_refusal(&answer) && answer.head.id == id, "{answer:?}");
        let head = &answer.head;
        assert!(head.predicted_delay > DOOMED && head.retry_after > DOOMED, "{head:?}");
        assert_eq!((head.body_len, answer.window()), (0, None));
    }
    starvation.end();
    for (id, payload) in [(2, "patient"), (4, "in time")] {
        let answer = client.reply(id).await;
        assert_eq!((answer.status(), answer.text()), (Some(Status::Ok), payload.into()));
    }
    waiter.fed().await;
    drop((client, waiter));
    let stats = balanced(&server).await;
    assert_eq!((stats.bounced, refused_for_cpu(&stats)), (2, 2));
}

/// What came before the connection was accepted, or in one piece with it, is not lost.
#[tokio::test]
async fn who_talks_first_is_heard() {
    let _alone = ALONE.lock().await;
    let Some((server, cpu)) = start(guarded(KERNEL)) else { return };
    let starvation = Starvation::begin(cpu);
    let mut clients = Vec::new();
    for id in 0..20 {
        let mut client = Raw::connect(server.address()).await;
        let mut stream = support::raw::hello_frame(&Hello::default());
        stream.extend(call(id, ECHO, None, b"early"));
        let (head, tail) = stream.split_at(id as usize * 7);
        client.send(head).await;
        client.send(tail).await;
        clients.push(client);
    }
    starvation.end();
    for (id, client) in (0..).zip(&mut clients) {
        assert_eq!(client.reply(id).await.text(), "early");
    }
    drop(clients);
    balanced(&server).await;
}

/// Frames far larger than the receive buffer pass.
#[tokio::test]
async fn large_calls_pass() {
    let _alone = ALONE.lock().await;
    let mut config = guarded(KERNEL);
    config.limits.body_bytes = 64 << 20;
    let Some((server, _)) = start(config) else { return };
    let mut client = Raw::open(server.address()).await;
    for (id, len) in (1..).zip([0, 1, 60_000, 131_072, 300_000, 8 << 20]) {
        let payload: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        client.send(&call(id, ECHO, None, &payload)).await;
        let answer = client.reply(id).await;
        assert!(answer.body == payload, "the reply of {len} bytes is corrupt");
    }
    drop(client);
    balanced(&server).await;
}

/// Who speaks no protocol is told so.
#[tokio::test]
async fn nonsense_reaches_the_server() {
    let _alone = ALONE.lock().await;
    let Some((server, _)) = start(guarded(KERNEL)) else { return };
    let mut client = Raw::connect(server.address()).await;
    client.send(b"GET / HTTP/1.0\r\n\r\n").await;
    assert!(!client.farewell().await.is_empty());
    balanced(&server).await;
}
