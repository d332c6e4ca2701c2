//! A client of several replicas, of which some die, fall silent, or refuse everything.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support::fake::{Fake, answer, goaway};
use crate::support::{config, until};
use bytes::Bytes;
use seawall_control::replica::Selection;
use seawall_control::request::{Rejected, Stage};
use seawall_control::retry::{self, Hedge, Why};
use seawall_rpc::{Answer, CallError, Client, ClientConfig, Context, Request, Router, Server};
use tokio::sync::Notify;

const ASK: u16 = 9;
const SECOND: Duration = Duration::from_secs(1);
/// Far more than anything takes that does not wait for the deadline.
const LONG: Duration = Duration::from_secs(600);

/// How a replica dies that has a call.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// It closes the connection.
    Close,
    /// It resets it.
    Reset,
    /// It leaves in the middle of the reply.
    HalfAnswer,
    /// It breaks the protocol.
    Garbage,
}

const DEATHS: [Death; 4] = [Death::Close, Death::Reset, Death::HalfAnswer, Death::Garbage];

/// A replica that does so with each connection; counts the calls that it takes.
async fn counting<F>(
    serve: impl Fn(Fake, Arc<AtomicU64>) -> F + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicU64>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let got = Arc::new(AtomicU64::new(0));
    let counter = got.clone();
    (Fake::replica(move |fake| serve(fake, counter.clone())).await, got)
}

/// A replica that dies of each call.
async fn dying(death: Death) -> (SocketAddr, Arc<AtomicU64>) {
    let serve = move |mut fake: Fake, counter: Arc<AtomicU64>| async move {
        fake.greet_as("none").await;
        let Some(call) = fake.next_call().await else { return };
        counter.fetch_add(1, SeqCst);
        match death {
            Death::Close => {}
            Death::Reset => fake.tcp.set_zero_linger().unwrap(),
            Death::HalfAnswer => fake.send(&answer(call.claims.id, "half")[..66]).await,
            Death::Garbage => fake.send(&[b'?'; 64]).await,
        }
    };
    counting(serve).await
}

/// A replica that takes calls and says nothing more.
async fn silent() -> (SocketAddr, Arc<AtomicU64>) {
    let serve = |mut fake: Fake, counter: Arc<AtomicU64>| async move {
        fake.greet_as("none").await;
        while fake.next_call().await.is_some() {
            counter.fetch_add(1, SeqCst);
        }
    };
    counting(serve).await
}

/// A replica that serves.
fn serving() -> Server {
    let router = Router::new().method(ASK, "serve", |_: Context, _| async {
        Ok(Bytes::from_static(b"served")) //
    });
    Server::start(config("none"), router).unwrap()
}

/// A replica that refuses what has a budget at a lock of its own.
fn refusing() -> Server {
    let router = Router::new().method(ASK, "refuse", |ctx: Context, _| async move {
        match ctx.claims().budget {
            Some(_) => Err(Rejected::new(Stage(16), 9 * SECOND, SECOND).into()),
            None => Ok(Bytes::from_static(b"at last")),
        }
    });
    Server::start(config("none"), router).unwrap()
}

/// A client that tries its replicas in their order, once all are connected.
async fn client(replicas: &[SocketAddr], retry: retry::Config) -> Client {
    let mut config = ClientConfig::default();
    config.admission.client.retry = retry;
    config.admission.client.replicas.choose = Selection::First;
    config.admission.client.expiry = Some(LONG);
    let client = Client::new(replicas.iter().copied(), config);
    client.connect().await.unwrap();
    until(|| client.sessions().len() == replicas.len()).await;
    client
}

fn without_limit() -> retry::Config {
    retry::Config { budget: 1.0, burst: 1_000, ..retry::Config::default() }
}

fn copied_after(ms: u64) -> retry::Config {
    retry::Config { hedge: Hedge::After(Duration::from_millis(ms)), ..without_limit() }
}

fn once() -> Request {
    Request::new(ASK, "").with_deadline(LONG)
}

fn lost(answer: &Answer) -> bool {
    matches!(answer.failures[..], [ref one] if matches!(one.error, CallError::ConnectionLost(_)))
}

#[tokio::test]
async fn what_may_run_twice_outlives_a_replica_that_dies_of_it() {
    for death in DEATHS {
        let ((dying, got), serving) = (dying(death).await, serving());
        let client = client(&[dying, serving.address()], without_limit()).await;
        let answer = client.call_traced(once().idempotent()).await;
        assert!(lost(&answer), "{death:?}: {answer:?}");
        assert_eq!((answer.result.unwrap().payload, answer.attempts), ("served".into(), 2));
        assert_eq!((got.load(SeqCst), serving.stats().requests), (1, 1));
    }
}

#[tokio::test]
async fn what_must_not_run_twice_is_told_to_be_lost() {
    for death in DEATHS {
        let ((dying, got), serving) = (dying(death).await, serving());
        let client = client(&[dying, serving.address()], copied_after(0)).await;
        let answer = client.call_traced(once()).await;
        let error = answer.result.unwrap_err();
        assert!(matches!(error, CallError::ConnectionLost(_)), "{death:?}: {error}");
        assert_eq!((answer.attempts, answer.given_up), (1, Some(Why::Effect)));
        assert_eq!((got.load(SeqCst), serving.stats().requests), (1, 0));
    }
}

#[tokio::test]
async fn where_all_die_of_it_the_caller_is_told() {
    let [(one, first), (other, second)] = [dying(Death::Close).await, dying(Death::Reset).await];
    for retry in [without_limit(), copied_after(0)] {
        let client = client(&[one, other], retry).await;
        let before = first.load(SeqCst) + second.load(SeqCst);
        let answer = client.call_traced(once().idempotent()).await;
        assert!(lost(&answer), "{answer:?}");
        assert!(matches!(answer.result, Err(CallError::ConnectionLost(_))), "{answer:?}");
        assert_eq!((answer.attempts, answer.given_up), (2, Some(Why::Attempts)));
        assert_eq!(first.load(SeqCst) + second.load(SeqCst) - before, 2);
    }
}

#[tokio::test]
async fn a_silent_replica_costs_no_call_that_has_a_copy() {
    let ((silent, got), serving) = (silent().await, serving());
    let client = client(&[silent, serving.address()], copied_after(1)).await;
    // Those that it has not answered fill what it lets a session have outstanding, 100; the others
    // get no leave to be sent to it.
    let (mut copied, mut moved) = (0, 0);
    for _ in 0..200 {
        let answer = client.call_traced(once().idempotent()).await;
        assert_eq!(answer.result.unwrap().payload, "served");
        match (answer.attempts, &answer.failures[..]) {
            (2, []) => copied += 1,
            (1, [failure]) if matches!(failure.error, CallError::NotSent(_)) => moved += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((copied, moved, serving.stats().requests), (100, 100, 200));
    until(|| got.load(SeqCst) == 100).await;
}

#[tokio::test]
async fn a_silent_replica_holds_a_call_without_a_copy_until_its_deadline() {
    let ((silent, got), serving) = (silent().await, serving());
    let client = client(&[silent, serving.address()], without_limit()).await;
    let deadline = Duration::from_millis(30);
    let began = Instant::now();
    let call = Request::new(ASK, "").with_deadline(deadline).idempotent();
    let answer = client.call_traced(call).await;
    assert_eq!(answer.result.unwrap_err(), CallError::DeadlineExceeded);
    assert!(began.elapsed() >= deadline);
    assert_eq!((answer.attempts, answer.given_up), (1, Some(Why::Effect)));
    until(|| got.load(SeqCst) == 1).await;
    assert_eq!(serving.stats().requests, 0);
}

#[tokio::test]
async fn a_copy_is_served_although_its_first_has_died_meanwhile() {
    let (die, answer_now) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let dies = die.clone();
    let first = Fake::replica(move |mut fake| {
        let dies = dies.clone();
        async move {
            fake.greet_as("none").await;
            if fake.next_call().await.is_some() {
                dies.notified().await;
            }
        }
    });
    let may = answer_now.clone();
    let router = Router::new().method(ASK, "serve", move |_: Context, _| {
        let may = may.clone();
        async move {
            until(|| may.load(SeqCst)).await;
            Ok(Bytes::from_static(b"served"))
        }
    });
    let second = Server::start(config("none"), router).unwrap();
    let client = client(&[first.await, second.address()], copied_after(1)).await;
    let asking = client.clone();
    let asked = tokio::spawn(async move { asking.call_traced(once().idempotent()).await });
    until(|| second.stats().requests == 1).await;
    let session = client.sessions().swap_remove(0);
    die.notify_one();
    until(|| !session.is_open()).await;
    answer_now.store(true, SeqCst);
    let answer = asked.await.unwrap();
    assert!(lost(&answer), "{answer:?}");
    assert_eq!((answer.result.unwrap().payload, answer.attempts), ("served".into(), 2));
}

#[tokio::test]
async fn refused_by_all_is_told_at_once_and_is_no_storm() {
    const CALLS: u64 = 300;
    let servers = [(); 3].map(|()| refusing());
    let addresses = servers.each_ref().map(Server::address);
    let default = retry::Config::default();
    for (retry, most) in [
        (retry::Config { attempts: 3, ..default }, CALLS + CALLS / 10 + 10),
        (retry::Config { attempts: 16, budget: 16.0, burst: 1_000_000, ..default }, 3 * CALLS),
        (retry::Config { attempts: 3, burst: 0, budget: 0.0, ..default }, CALLS),
        (
            retry::Config { attempts: 3, hedge: Hedge::After(Duration::ZERO), ..default },
            CALLS + CALLS / 10 + 10,
        ),
    ] {
        let before = sum(&servers);
        let client = client(&addresses, retry).await;
        let ask = |_| {
            let client = client.clone();
            let call = Request { budget: Some(SECOND), ..once().idempotent() };
            tokio::spawn(async move { client.call_traced(call).await })
        };
        let began = Instant::now();
        let calls: Vec<_> = (0..CALLS).map(ask).collect();
        let mut attempts = 0;
        for call in calls {
            let answer = call.await.unwrap();
            let error = answer.result.unwrap_err();
            let CallError::Rejected(rejected) = &error else { panic!("{error}") };
            assert_eq!((rejected.stage, rejected.predicted_delay), (Stage(16), 9 * SECOND));
            attempts += u64::from(answer.attempts);
        }
        assert!(began.elapsed() < LONG / 10, "nobody waits for the deadline");
        let sent = sum(&servers) - before;
        assert_eq!(sent, attempts, "{retry:?}: all that was sent is told");
        assert!((CALLS..=most).contains(&sent), "{retry:?}: {sent} of {most}");
        let counts = client.retries();
        assert_eq!(sent - CALLS, counts.retries + counts.hedges, "{retry:?}: {counts:?}");
    }
}

#[tokio::test]
async fn the_last_resort_is_no_storm_either() {
    const CALLS: u64 = 300;
    let servers = [(); 3].map(|()| refusing());
    let addresses = servers.each_ref().map(Server::address);
    let retry = retry::Config { attempts: 3, last_resort: true, ..retry::Config::default() };
    let client = client(&addresses, retry).await;
    let (mut served, mut refused) = (0, 0);
    for _ in 0..CALLS {
        let call = Request { budget: Some(SECOND), ..once() };
        match client.call(call).await {
            Ok(reply) => {
                assert_eq!(reply.payload, "at last");
                served += 1;
            }
            Err(CallError::Rejected(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let counts = client.retries();
    assert_eq!((served, refused), (counts.last_resorts, CALLS - counts.last_resorts));
    assert!(served > 0 && counts.forbidden > 0, "{counts:?}");
    let sent = sum(&servers);
    assert_eq!(sent, CALLS + counts.retries + counts.last_resorts);
    assert!(sent <= CALLS + CALLS / 10 + 10, "{sent}");
}

#[tokio::test]
async fn where_all_leave_the_caller_is_told_at_once() {
    let hellos = Arc::new(AtomicU64::new(0));
    let leaving = || {
        let hellos = hellos.clone();
        Fake::replica(move |mut fake| {
            let hellos = hellos.clone();
            async move {
                hellos.fetch_add(1, SeqCst);
                fake.greet_as("none").await;
                fake.send(&goaway("the service ends")).await;
                assert!(fake.next_call().await.is_none(), "nothing may be sent to who leaves");
            }
        })
    };
    let addresses = [leaving().await, leaving().await, leaving().await];
    let mut config = ClientConfig::default();
    config.admission.client.retry = without_limit();
    let client = Client::new(addresses, config);
    let began = Instant::now();
    let mut calls = 0;
    while began.elapsed() < Duration::from_millis(200) {
        let error = client.call(once().idempotent()).await.unwrap_err();
        assert!(matches!(error, CallError::NotSent(_)), "{error}");
        calls += 1;
    }
    // Each is asked again after 50 ms at the earliest.
    let (hellos, took) = (hellos.load(SeqCst), began.elapsed());
    let most = 3 * (took.as_millis() as u64 / 50 + 1);
    assert!(hellos <= most, "{hellos} connections for {calls} calls in {took:?}");
    assert!(calls > 2 * hellos, "calls in between are told at once: {calls}, {hellos}");
}

fn sum(servers: &[Server]) -> u64 {
    servers.iter().map(|server| server.stats().requests).sum()
}
