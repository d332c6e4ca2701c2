//! Deadlines and budgets between hosts: what is on the wire is time that is left, so that no two
//! clocks are compared; and any value of it has a meaning.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use crate::support::fake::{Fake, answer, reply};
use crate::support::raw::{Raw, frame};
use crate::support::{ECHO, config, one_credit, until};
use bytes::Bytes;
use seawall_control::controller::DropReason;
use seawall_control::request::Stage;
use seawall_control::retry::{self, Hedge, Why};
use seawall_control::wire::{self, Hello, RequestOp, Status as WireStatus};
use seawall_rpc::{
    CallError, Client, ClientConfig, Context, Request, Router, Server, ServerConfig, Session,
    Unsent, clock,
};

const SECOND: Duration = Duration::from_secs(1);
const DAY_NS: u64 = 86_400_000_000_000;

/// It answers with what the request has left, in milliseconds, and counts those that it sees.
fn telling(config: ServerConfig) -> (Server, Arc<AtomicU32>) {
    let seen = Arc::new(AtomicU32::new(0));
    let counter = seen.clone();
    let tell = move |ctx: Context, _: Bytes| {
        counter.fetch_add(1, SeqCst);
        async move {
            let left = u64::try_from(ctx.remaining_now().as_millis()).unwrap_or(u64::MAX);
            Ok(Bytes::copy_from_slice(&left.to_le_bytes()))
        }
    };
    (Server::start(config, Router::new().method(ECHO, "tell", tell)).unwrap(), seen)
}

fn left(payload: &[u8]) -> Duration {
    Duration::from_millis(u64::from_le_bytes(payload.try_into().unwrap()))
}

/// A call with these claims.
fn call(id: u64, change: impl FnOnce(&mut wire::Request)) -> Vec<u8> {
    let mut request = wire::Request::new(RequestOp::Call);
    (request.claims.id, request.claims.method) = (id, ECHO);
    change(&mut request);
    frame(request, b"")
}

/// What hosts whose clocks are wrong call now, as their clocks go on.
fn wrong_clocks() -> [fn(u64) -> u64; 7] {
    [
        |_| 0,                                            // it has none
        |_| 1,                                            // it stands still
        |_| clock::realtime_ns() - DAY_NS,                // it is late
        |_| clock::realtime_ns() + 365 * DAY_NS,          // it is early
        |_| u64::MAX,                                     // it has reached its end
        |call| u64::MAX - call * 1_000_000,               // it goes backwards
        |call| clock::realtime_ns() ^ ((call & 1) << 62), // it is set again and again
    ]
}

#[tokio::test]
async fn a_client_may_have_any_clock() {
    let (server, _) = telling(config("breakwater"));
    for (which, clock) in wrong_clocks().into_iter().enumerate() {
        let mut client = Raw::open(server.address()).await;
        for id in 0..50 {
            let sent_at = clock(id);
            let bytes = call(id, |request| {
                let claims = &mut request.claims;
                (claims.sent_at_ns, claims.start_time_ns) = (sent_at, clock(id + 1));
                claims.deadline = Some(20 * SECOND);
                claims.budget = Some(10 * SECOND);
            });
            client.send(&bytes).await;
            let answer = client.reply(id).await;
            assert_eq!(answer.status(), Some(WireStatus::Ok), "clock {which}: {answer:?}");
            assert_eq!(answer.head.sent_at_ns, sent_at, "it comes back as it came");
            // The budget is the smallest of deadline, budget and target delay, 5 s.
            let left = left(&answer.body);
            assert!(left > SECOND && left <= 5 * SECOND, "clock {which}: {left:?}");
        }
        let tail = server.stats().network_p99;
        assert!(tail < SECOND, "a clock that is off is not taken for the network: {tail:?}");
    }
}

#[tokio::test]
async fn a_server_may_have_any_clock() {
    for clock in wrong_clocks() {
        let script = move |mut fake: Fake| async move {
            fake.greet().await;
            for nth in 0.. {
                let Some(call) = fake.next_call().await else { return };
                let mut bytes = reply(call.claims.id, 10, 1);
                bytes[48..56].copy_from_slice(&clock(nth).to_le_bytes()); // sent_at_ns
                bytes[56..64].copy_from_slice(&u64::MAX.to_le_bytes()); // reserved
                fake.send(&bytes).await;
            }
        };
        let session = Fake::connect(script).await.unwrap();
        for _ in 0..5 {
            let call = Request::new(1, "").with_deadline(20 * SECOND);
            assert_eq!(session.call(call).await.unwrap().payload, "served");
        }
    }
}

#[tokio::test]
async fn what_is_sent_is_what_is_left() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let (later, may_go_on) = tokio::sync::oneshot::channel();
    let script = |mut fake: Fake| async move {
        fake.greet().await;
        let first = fake.next_call().await.unwrap();
        tell.send(first.claims).unwrap();
        may_go_on.await.unwrap();
        fake.send(&reply(first.claims.id, 1, 1)).await;
        let second = fake.next_call().await.unwrap();
        tell.send(second.claims).unwrap();
        fake.send(&reply(second.claims.id, 1, 1)).await;
    };
    let session = Fake::connect(script).await.unwrap();
    let call = || Request {
        budget: Some(7 * SECOND),
        start_time_ns: 42, // of somebody else's clock
        ..Request::new(1, "").with_deadline(60 * SECOND)
    };
    let first = session.call(call());
    // It waits for the credit of the first.
    let second = session.call(call());
    let waited = Duration::from_millis(30);
    let claims = told.recv().await.unwrap();
    assert_eq!((claims.budget, claims.start_time_ns), (Some(7 * SECOND), 42));
    let first_left = claims.deadline.unwrap();
    assert!(first_left > 30 * SECOND && first_left <= 60 * SECOND, "{first_left:?}");
    tokio::time::sleep(waited).await;
    later.send(()).unwrap();
    for call in [first, second] {
        assert_eq!(call.await.unwrap().payload, "served");
    }
    let claims = told.recv().await.unwrap();
    assert!(claims.deadline.unwrap() <= 60 * SECOND - waited, "{claims:?}");
    assert_eq!(claims.budget, Some(7 * SECOND), "which is for waits at the server");
}

#[tokio::test]
async fn what_has_nothing_left_is_refused_at_once_and_does_not_run() {
    let (server, seen) = telling(config("none"));
    let mut client = Raw::open(server.address()).await;
    let none: [fn(&mut wire::Request); 3] = [
        |request| request.claims.deadline = Some(Duration::ZERO),
        |request| request.claims.budget = Some(Duration::ZERO),
        |request| {
            request.claims.deadline = Some(Duration::MAX);
            request.claims.budget = Some(Duration::ZERO);
        },
    ];
    for (id, change) in (0..).zip(none) {
        client.send(&call(id, change)).await;
        let answer = client.reply(id).await;
        assert_eq!(answer.status(), Some(WireStatus::Rejected), "{answer:?}");
        assert_eq!((answer.head.stage, answer.body.len()), (Stage::RUN_QUEUE, 0));
    }
    assert_eq!((seen.load(SeqCst), server.stats().refused()), (0, 3));
    // Without the flags the numbers mean nothing.
    client.send(&call(9, |_| {})).await;
    assert_eq!(client.reply(9).await.status(), Some(WireStatus::Ok));
}

#[tokio::test]
async fn the_most_that_can_be_said_is_an_hour_and_more() {
    let (server, _) = telling(config("none"));
    let mut client = Raw::open(server.address()).await;
    let most = Duration::from_micros(u64::from(u32::MAX));
    let all: [fn(&mut wire::Request); 3] = [
        |request| request.claims.deadline = Some(Duration::MAX),
        |request| request.claims.budget = Some(Duration::MAX),
        |request| {
            request.claims.deadline = Some(Duration::MAX);
            request.claims.budget = Some(Duration::MAX);
            (request.demand, request.claims.attempt) = (u32::MAX, u8::MAX);
        },
    ];
    for (id, change) in (0..).zip(all) {
        let bytes = call(id, change);
        assert!(bytes[28..36].chunks(4).any(|field| field == [255; 4]), "{:?}", &bytes[28..36]);
        client.send(&bytes).await;
        let answer = client.reply(id).await;
        assert_eq!(answer.status(), Some(WireStatus::Ok), "{answer:?}");
        let left = left(&answer.body);
        assert!(left <= most && left > most - 60 * SECOND, "{left:?}");
    }
}

/// A client of one server, or of several.
fn client(servers: &[&Server], change: impl FnOnce(&mut ClientConfig)) -> Client {
    let mut config = ClientConfig::default();
    change(&mut config);
    Client::new(servers.iter().map(|server| server.address()), config)
}

#[tokio::test]
async fn a_deadline_that_has_passed_is_told_and_not_sent() {
    let servers = [(); 2].map(|()| telling(config("breakwater")).0);
    let client = client(&[&servers[0], &servers[1]], |_| {});
    client.connect().await.unwrap();
    until(|| client.sessions().len() == 2).await;
    let session = Session::connect(servers[0].address(), &ClientConfig::default()).await.unwrap();
    let expired = CallError::from(Unsent::Dropped(DropReason::Expired));
    for nothing in [Duration::ZERO, Duration::from_nanos(1)] {
        let call = || Request::new(ECHO, "").with_deadline(nothing);
        let answer = client.call_traced(call().idempotent()).await;
        assert_eq!(answer.result.unwrap_err(), expired);
        assert_eq!((answer.attempts, answer.given_up), (0, Some(Why::Deadline)));
        assert!(answer.failures.is_empty(), "a second replica cannot do better");
        assert_eq!(session.call(call()).await.unwrap_err(), expired);
    }
    assert_eq!(expired.to_string(), "the request was not sent: it could not leave in time");
    assert!(servers.iter().all(|server| server.stats().requests == 0));
    assert_eq!(client.retries().moves, 0);
}

#[tokio::test]
async fn a_budget_of_nothing_is_refused_by_the_server() {
    let (server, seen) = telling(config("none"));
    let client = client(&[&server], |_| {});
    let call = Request { budget: Some(Duration::ZERO), ..Request::new(ECHO, "") };
    let error = client.call(call).await.unwrap_err();
    let CallError::Rejected(rejected) = &error else { panic!("{error}") };
    assert_eq!((rejected.stage, rejected.predicted_delay), (Stage::RUN_QUEUE, Duration::ZERO));
    assert_eq!(seen.load(SeqCst), 0);
}

#[tokio::test]
async fn no_duration_is_too_long_for_a_client() {
    let servers = [telling(config("none")).0, telling(config("breakwater")).0];
    let ages = [Duration::MAX, Duration::from_nanos(u64::MAX), Duration::from_micros(1 << 32)];
    for age in ages {
        let client = client(&[&servers[0], &servers[1]], |config| {
            config.connect_timeout = age;
            config.rtt = age;
            config.admission.client.expiry = Some(age);
            config.admission.client.retry = retry::Config {
                patience: Some(age),
                hedge: Hedge::After(age),
                last_resort: true,
                ..retry::Config::default()
            };
        });
        client.connect().await.unwrap();
        until(|| client.sessions().len() == 2).await;
        for _ in 0..20 {
            // A round trip that takes so long leaves no time for any deadline.
            let call = Request { budget: Some(age), ..Request::new(ECHO, "") };
            let reply = client.call(call.idempotent()).await.unwrap();
            assert!(left(&reply.payload) > 3 * SECOND);
        }
        let usual = self::client(&[&servers[0]], |_| {});
        let call = Request::new(ECHO, "").with_deadline(age);
        let reply = usual.call(call).await.unwrap();
        assert!(left(&reply.payload) > 3_600 * SECOND);
    }
}

#[tokio::test]
async fn what_waits_for_a_credit_is_given_up_at_its_deadline() {
    let (server, seen) = telling(one_credit());
    let mut config = ClientConfig::default();
    config.admission.client.expiry = Some(Duration::MAX);
    let session = Session::connect(server.address(), &config).await.unwrap();
    // The only credit is the first one's; those behind it have less time than a round trip takes.
    let calls: Vec<_> = (0..20).map(|_| session.call(Request::new(ECHO, ""))).collect();
    let hasty = Request::new(ECHO, "").with_deadline(Duration::from_micros(100));
    let error = session.call(hasty).await.unwrap_err();
    assert_eq!(error, CallError::from(Unsent::Dropped(DropReason::Expired)));
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(seen.load(SeqCst), 20);
}

#[tokio::test]
async fn a_hello_and_an_answer_without_clocks_are_enough() {
    // Whoever has no clock sends and echoes zero.
    let (server, _) = telling(config("breakwater"));
    let mut client = Raw::connect(server.address()).await.greet(&Hello::default()).await;
    client.send(&call(1, |_| {})).await;
    assert_eq!(client.reply(1).await.head.sent_at_ns, 0);
    let script = |mut fake: Fake| async move {
        fake.greet_as("none").await;
        let call = fake.next_call().await.unwrap();
        assert!(call.claims.sent_at_ns > 0);
        fake.send(&answer(call.claims.id, "served")).await;
    };
    let session = Fake::connect(script).await.unwrap();
    assert_eq!(session.call(Request::new(1, "")).await.unwrap().payload, "served");
}
