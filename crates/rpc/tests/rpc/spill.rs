//! Spill-over: what one server refuses, another may serve.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use crate::support::raw::{Raw, call, short};
use crate::support::{ECHO, SLEEP, balanced, config, one_credit, router, session, until};
use bytes::Bytes;
use parking_lot::Mutex;
use seawall_control::request::{Claims, Class, Priority, Rejected, Stage};
use seawall_control::wire::{Hello, RequestOp, Status as Ended};
use seawall_rpc::{
    CallError, Context, Known, Request, Router, Server, ServerConfig, Session, SpillAt, Status,
};

/// A stage of the refusing server's own.
const FULL: Stage = Stage(16);

/// A method that the refusing server refuses at [`FULL`] and replicas serve.
const BUSY: u16 = 9;

/// What a replica is told of a call.
type Seen = Arc<Mutex<Vec<Claims>>>;

/// A server whose every call of [`BUSY`] is refused at a stage, and whose refusals go to
/// `replicas`.
fn refusing(replicas: &[SocketAddr]) -> ServerConfig {
    let mut config = config("none");
    config.spill.replicas = replicas.to_vec();
    config
}

fn refusing_router() -> Router {
    router().method(BUSY, "busy", |_, _| async {
        let wait = Duration::from_millis(7);
        Err(Rejected::new(FULL, wait, Duration::from_millis(3)).into())
    })
}

/// Serves [`BUSY`] as an echo, and keeps what it was told.
fn serving_router(seen: &Seen) -> Router {
    let seen = seen.clone();
    router().method(BUSY, "busy", move |ctx: Context, payload: Bytes| {
        seen.lock().push(*ctx.claims());
        async { Ok(payload) }
    })
}

/// Two servers, the first of which hands on to the second, once it is connected to it.
async fn pair(config: impl FnOnce(&mut ServerConfig), second: Router) -> (Server, Server) {
    let replica = Server::start(crate::support::config("none"), second).unwrap();
    let mut first = refusing(&[replica.address()]);
    config(&mut first);
    let first = Server::start(first, refusing_router()).unwrap();
    until(|| first.stats().spill_replicas == 1).await;
    (first, replica)
}

fn refused_at(error: &CallError) -> (Stage, Duration) {
    let CallError::Rejected(rejected) = error else { panic!("{error}") };
    (rejected.stage, rejected.predicted_delay)
}

/// An address at which nobody listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn what_one_server_refuses_another_serves() {
    let seen = Seen::default();
    let (first, replica) = pair(|_| {}, serving_router(&seen)).await;
    let client = session(&first).await;
    for payload in [Bytes::new(), "small".into(), vec![7; 300_000].into()] {
        let reply = client.call(Request::new(BUSY, payload.clone())).await.unwrap();
        assert_eq!(reply.payload, payload);
    }
    assert!(client.call(Request::new(ECHO, "")).await.is_ok(), "what is not refused stays");
    drop(client);
    let stats = balanced(&first).await;
    assert_eq!((stats.spilled, stats.spilled_served, stats.spilled_refused), (3, 3, 0));
    assert_eq!((stats.requests, stats.completions, stats.refused()), (4, 4, 0));
    assert_eq!(stats.spilled_outstanding, 0);
    assert_eq!(replica.stats().completions, 3);
}

#[tokio::test]
async fn it_is_handed_on_with_what_it_has_left_and_what_is_believed() {
    let seen = Seen::default();
    let believed = |known: &str| Known {
        name: known.into(),
        token: Some("sixteen bytes or more".into()),
        not_droppable: true,
        ..Known::default()
    };
    let mut config = config("none");
    config.trust.identities = vec![believed("first")];
    let replica = Server::start(config, serving_router(&seen)).unwrap();
    let mut config = refusing(&[replica.address()]);
    config.spill.token = Some("sixteen bytes or more".into());
    config.trust.identities = vec![believed("client")];
    let first = Server::start(config, refusing_router()).unwrap();
    until(|| first.stats().spill_replicas == 1).await;

    let token = Some(b"sixteen bytes or more".to_vec());
    for token in [token, None] {
        let hello = Hello { token, ..Hello::default() };
        let mut client = Raw::connect(first.address()).await.greet(&hello).await;
        let mut request = seawall_control::wire::Request::new(RequestOp::Call);
        request.claims = Claims {
            id: 5,
            method: BUSY,
            priority: Priority(3),
            attempt: 1,
            droppable: false,
            deadline: Some(Duration::from_secs(20)),
            budget: Some(Duration::from_secs(10)),
            upscale_hops: 2,
            path: 9,
            start_time_ns: 77,
            upstream_exec: Duration::from_micros(33),
            ..Claims::default()
        };
        let block = request.extension_block().expect("what was executed stands there");
        request.extension = true;
        client.send(&crate::support::raw::frame(request, &block)).await;
        assert_eq!(client.reply(5).await.status(), Some(Ended::Ok));
    }
    let [known, stranger] = seen.lock()[..] else { panic!("two calls") };
    assert_eq!((known.priority, known.droppable), (Priority(3), false));
    assert_eq!((known.start_time_ns, known.upscale_hops, known.path), (77, 2, 9));
    assert_eq!((known.attempt, known.upstream_exec), (2, Duration::from_micros(33)));
    for (left, was) in [(known.deadline, 20), (known.budget, 10)] {
        let was = Duration::from_secs(was);
        assert!(left.is_some_and(|left| left < was && left > was / 2), "{left:?} of {was:?}");
    }
    // What the first server does not believe it does not claim in its own name.
    assert_eq!((stranger.priority, stranger.droppable), (Priority::default(), true));
    assert_ne!(stranger.start_time_ns, 77);
    assert_eq!(replica.stats().privilege_violations, 0);
}

#[tokio::test]
async fn entry_refusals_are_handed_on_too() {
    let replica = Server::start(config("none"), router()).unwrap();
    let mut config = config("aimd");
    config.admission.aimd.limit_initial = 1;
    config.spill.replicas = vec![replica.address()];
    config.spill.at = SpillAt::Entry;
    let first = Server::start(config, router()).unwrap();
    until(|| first.stats().spill_replicas == 1).await;
    let mut client = Raw::open(first.address()).await;
    client.send(&call(0, SLEEP, b"")).await;
    until(|| first.stats().requests == 1).await;
    for id in 1..=5 {
        client.send(&call(id, ECHO, b"payload")).await;
        let reply = client.reply(id).await;
        assert_eq!((reply.status(), reply.text()), (Some(Ended::Ok), "payload".into()));
    }
    drop(client);
    let stats = balanced(&first).await;
    assert_eq!((stats.spilled, stats.spilled_served, stats.refused()), (5, 5, 0));
}

#[tokio::test]
async fn only_what_is_configured_is_handed_on() {
    let seen = Seen::default();
    let (first, replica) =
        pair(|config| config.spill.at = SpillAt::Entry, serving_router(&seen)).await;
    let client = session(&first).await;
    let error = client.call(Request::new(BUSY, "")).await.unwrap_err();
    assert_eq!(refused_at(&error), (FULL, Duration::from_millis(7)));
    drop(client);
    assert_eq!((balanced(&first).await.spilled, replica.stats().requests), (0, 0));
}

#[tokio::test]
async fn who_exceeds_its_window_is_not_helped() {
    let replica = Server::start(config("none"), router()).unwrap();
    let mut config = one_credit();
    config.spill.replicas = vec![replica.address()];
    let first = Server::start(config, router()).unwrap();
    until(|| first.stats().spill_replicas == 1).await;
    let mut client = Raw::open(first.address()).await;
    client.send(&call(0, SLEEP, b"")).await;
    client.send(&call(1, ECHO, b"")).await;
    assert_eq!(client.reply(1).await.status(), Some(Ended::Rejected));
    drop(client);
    let stats = balanced(&first).await;
    assert_eq!((stats.window_violations, stats.spilled), (1, 0));
}

#[tokio::test]
async fn a_replica_that_is_down_changes_nothing() {
    let first = Server::start(refusing(&[nobody()]), refusing_router()).unwrap();
    let client = session(&first).await;
    for _ in 0..20 {
        let error = client.call(Request::new(BUSY, "")).await.unwrap_err();
        assert_eq!(refused_at(&error), (FULL, Duration::from_millis(7)));
    }
    drop(client);
    let stats = balanced(&first).await;
    assert_eq!((stats.spilled, stats.refusals[&FULL]), (0, 20));
}

#[tokio::test]
async fn a_replica_that_comes_back_is_used_again() {
    let seen = Seen::default();
    let (first, replica) = pair(|_| {}, serving_router(&seen)).await;
    let address = replica.address();
    let client = session(&first).await;
    client.call(Request::new(BUSY, "")).await.unwrap();
    tokio::task::spawn_blocking(move || drop(replica)).await.unwrap();
    until(|| first.stats().spill_replicas == 0).await;
    client.call(Request::new(BUSY, "")).await.unwrap_err();
    let config = ServerConfig { listen: address, ..config("none") };
    let _again = Server::start(config, serving_router(&seen)).unwrap();
    while client.call(Request::new(BUSY, "")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn where_the_replica_refuses_too_the_first_refusal_is_told() {
    let other = Router::new().method(BUSY, "busy", |_, _| async {
        Err(Rejected::new(Stage(99), Duration::from_secs(9), Duration::ZERO).into())
    });
    let (first, replica) = pair(|_| {}, other).await;
    let client = session(&first).await;
    let error = client.call(Request::new(BUSY, "")).await.unwrap_err();
    assert_eq!(refused_at(&error), (FULL, Duration::from_millis(7)));
    drop(client);
    let stats = balanced(&first).await;
    assert_eq!((stats.spilled, stats.spilled_served, stats.spilled_refused), (1, 0, 1));
    assert_eq!((stats.refusals[&FULL], replica.stats().requests), (1, 1));
}

#[tokio::test]
async fn errors_of_the_application_are_relayed() {
    let other = Router::new()
        .method(BUSY, "busy", |_, _| async { Err(Status::error(404, "no such thing")) });
    let (first, _replica) = pair(|_| {}, other).await;
    let client = session(&first).await;
    let error = client.call(Request::new(BUSY, "")).await.unwrap_err();
    assert_eq!(error, CallError::Failed { code: 404, message: "no such thing".into() });
    drop(client);
    let stats = balanced(&first).await;
    assert_eq!((stats.spilled_served, stats.failures), (1, 1));
}

#[tokio::test]
async fn two_that_hand_on_to_each_other_do_so_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let second_at = listener.local_addr().unwrap();
    let first = Server::start(refusing(&[second_at]), refusing_router()).unwrap();
    drop(listener);
    let mut config = refusing(&[first.address()]);
    config.listen = second_at;
    let second = Server::start(config, refusing_router()).unwrap();
    let client = session(&first).await;
    until(|| second.stats().spill_replicas == 1).await;
    // Calls make it try to connect again, which it did not get when it began.
    while first.stats().spill_replicas == 0 {
        client.call(Request::new(BUSY, "")).await.unwrap_err();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (before, received) = (first.stats(), second.stats().requests);
    for _ in 0..50 {
        client.call(Request::new(BUSY, "")).await.unwrap_err();
    }
    let after = first.stats();
    assert_eq!((after.spilled - before.spilled, second.stats().requests - received), (50, 50));
    assert_eq!((second.stats().spilled, after.requests - before.requests), (0, 50));
    // What comes from a client of its own the second hands on as well.
    session(&second).await.call(Request::new(BUSY, "")).await.unwrap_err();
    assert_eq!(second.stats().spilled, 1);
}

#[tokio::test]
async fn a_client_that_cancels_gets_its_one_reply_and_so_does_the_replica() {
    let (first, replica) = pair(|_| {}, sleeping_router()).await;
    let mut client = Raw::open(first.address()).await;
    client.send(&call(4, BUSY, b"")).await;
    until(|| replica.stats().outstanding == 1).await;
    assert_eq!((first.stats().spilled_outstanding, first.stats().outstanding), (1, 1));
    client.send(&short(RequestOp::Cancel, 4)).await;
    assert_eq!(client.reply(4).await.status(), Some(Ended::Cancelled));
    until(|| replica.stats().cancellations == 1).await;
    // Its number is free again.
    client.send(&call(4, ECHO, b"")).await;
    assert_eq!(client.reply(4).await.status(), Some(Ended::Ok));
    drop(client);
    let stats = balanced(&first).await;
    assert_eq!((stats.spilled, stats.cancellations, stats.spilled_outstanding), (1, 1, 0));
}

/// A router whose [`BUSY`] does not end.
fn sleeping_router() -> Router {
    router().method(BUSY, "busy", |_, _| std::future::pending())
}

#[tokio::test]
async fn a_number_that_is_at_a_replica_is_in_use() {
    let (first, replica) = pair(|_| {}, sleeping_router()).await;
    let mut client = Raw::open(first.address()).await;
    client.send(&call(4, BUSY, b"")).await;
    until(|| replica.stats().outstanding == 1).await;
    client.send(&call(4, ECHO, b"")).await;
    assert_eq!(client.farewell().await, "a call whose id is already in use");
    until(|| replica.stats().cancellations == 1).await;
    balanced(&first).await;
}

#[tokio::test]
async fn a_client_that_vanishes_cancels_what_is_at_the_replica() {
    let (first, replica) = pair(|_| {}, sleeping_router()).await;
    let mut client = Raw::open(first.address()).await;
    for id in 0..10 {
        client.send(&call(id, BUSY, b"")).await;
    }
    until(|| replica.stats().outstanding == 10).await;
    client.reset();
    until(|| replica.stats().cancellations == 10).await;
    let stats = balanced(&first).await;
    assert_eq!((stats.spilled, stats.cancellations, stats.spilled_outstanding), (10, 10, 0));
}

#[tokio::test]
async fn a_client_that_says_goodbye_waits_for_what_is_at_the_replica() {
    let open = Arc::new(tokio::sync::Notify::new());
    let gate = open.clone();
    let other = router().method(BUSY, "busy", move |_, payload| {
        let gate = gate.clone();
        async move {
            gate.notified().await;
            Ok(payload)
        }
    });
    let (first, replica) = pair(|_| {}, other).await;
    let mut client = Raw::open(first.address()).await;
    client.send(&call(1, BUSY, b"late")).await;
    client.send(&short(RequestOp::Goodbye, 0)).await;
    until(|| replica.stats().outstanding == 1).await;
    open.notify_one();
    let answers = client.rest().await;
    let reply = answers.iter().find(|answer| answer.status().is_some()).expect("a reply");
    assert_eq!((reply.status(), reply.text()), (Some(Ended::Ok), "late".into()));
    assert_eq!(balanced(&first).await.closed["left"], 1);
}

#[tokio::test]
async fn a_replica_that_is_lost_meanwhile_is_no_refusal() {
    let (first, replica) = pair(|_| {}, sleeping_router()).await;
    let client = session(&first).await;
    let lost = async {
        until(|| replica.stats().outstanding == 1).await;
        tokio::task::spawn_blocking(move || drop(replica)).await.unwrap();
    };
    let (result, ()) = tokio::join!(client.call(Request::new(BUSY, "")), lost);
    let CallError::Failed { code: Status::UNAVAILABLE, message } = result.unwrap_err() else {
        panic!("it may have run")
    };
    assert!(message.starts_with("the replica that was to serve it was lost: "), "{message}");
    drop(client);
    let stats = balanced(&first).await;
    assert_eq!((stats.spilled, stats.spilled_served, stats.spilled_refused), (1, 0, 0));
    assert_eq!(stats.failures, 1);
}

#[tokio::test]
async fn a_server_that_shuts_down_waits_for_what_is_at_the_replica() {
    let open = Arc::new(tokio::sync::Notify::new());
    let gate = open.clone();
    let other = router().method(BUSY, "busy", move |_, payload| {
        let gate = gate.clone();
        async move {
            gate.notified().await;
            Ok(payload)
        }
    });
    let (first, replica) = pair(|_| {}, other).await;
    let client = session(&first).await;
    let calling = client.call(Request::new(BUSY, "late"));
    until(|| replica.stats().outstanding == 1).await;
    let stop = tokio::task::spawn_blocking(move || first.shutdown(Duration::from_secs(30)));
    until(|| !client.is_open()).await;
    open.notify_one();
    assert_eq!(calling.await.unwrap().payload, "late");
    drop(client);
    stop.await.unwrap();
}

#[tokio::test]
async fn a_server_that_stops_at_once_leaves_nothing_at_the_replica() {
    let (first, replica) = pair(|_| {}, sleeping_router()).await;
    let client = session(&first).await;
    let calling = client.call(Request::new(BUSY, ""));
    until(|| replica.stats().outstanding == 1).await;
    tokio::task::spawn_blocking(move || drop(first)).await.unwrap();
    assert!(matches!(calling.await.unwrap_err(), CallError::ConnectionLost(_)));
    until(|| replica.stats().sessions == 0).await;
    let stats = balanced(&replica).await;
    assert_eq!(stats.cancellations, 1);
}

#[tokio::test]
async fn no_more_are_at_replicas_than_may_be() {
    let (first, replica) = pair(|config| config.spill.outstanding = 3, sleeping_router()).await;
    let client = session(&first).await;
    let waiting: Vec<_> = (0..3).map(|_| client.call(Request::new(BUSY, ""))).collect();
    until(|| replica.stats().outstanding == 3).await;
    for _ in 0..10 {
        let error = client.call(Request::new(BUSY, "")).await.unwrap_err();
        assert_eq!(refused_at(&error).0, FULL);
    }
    assert_eq!((first.stats().spilled, replica.stats().requests), (3, 3));
    drop(waiting);
    until(|| first.stats().spilled_outstanding == 0).await;
    let _another = client.call(Request::new(BUSY, ""));
    until(|| first.stats().spilled == 4).await;
}

#[tokio::test]
async fn the_credits_of_the_replica_bound_what_it_gets() {
    let replica = Server::start(one_credit(), sleeping_router()).unwrap();
    let first = Server::start(refusing(&[replica.address()]), refusing_router()).unwrap();
    until(|| first.stats().spill_replicas == 1).await;
    let client = session(&first).await;
    let _has_the_credit = client.call(Request::new(BUSY, ""));
    until(|| replica.stats().outstanding == 1).await;
    for _ in 0..20 {
        let error = client.call(Request::new(BUSY, "")).await.unwrap_err();
        assert_eq!(refused_at(&error).0, FULL);
    }
    let stats = replica.stats();
    assert_eq!((stats.requests, stats.window_violations), (1, 0));
}

#[tokio::test]
async fn what_has_nothing_left_is_refused_at_once() {
    let seen = Seen::default();
    let (first, replica) = pair(|_| {}, serving_router(&seen)).await;
    let mut client = Raw::open(first.address()).await;
    let mut request = seawall_control::wire::Request::new(RequestOp::Call);
    let (deadline, budget) = (Some(Duration::from_secs(9)), Some(Duration::ZERO));
    request.claims = Claims { id: 1, method: BUSY, deadline, budget, ..Claims::default() };
    client.send(&crate::support::raw::frame(request, b"")).await;
    assert_eq!(client.reply(1).await.status(), Some(Ended::Rejected));
    assert_eq!((first.stats().spilled, replica.stats().requests), (0, 0));
}

#[tokio::test]
async fn under_overload_every_call_is_answered_once() {
    let replica = Server::start(config("breakwater"), router()).unwrap();
    let mut config = config("breakwater");
    config.slo = Duration::from_millis(4);
    config.spill.replicas = vec![replica.address()];
    let first = Server::start(config, router()).unwrap();
    until(|| first.stats().spill_replicas == 1).await;
    let mut sessions: Vec<Session> = Vec::new();
    for _ in 0..8 {
        sessions.push(session(&first).await);
    }
    let spin = || Request::new(crate::support::SPIN, vec![1]);
    let calls: Vec<_> =
        (0..100).flat_map(|_| sessions.iter().map(|session| session.call(spin()))).collect();
    for call in calls {
        match call.await {
            Ok(_) | Err(CallError::Rejected(_) | CallError::NotSent(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    drop(sessions);
    let stats = balanced(&first).await;
    assert_eq!(stats.spilled, stats.spilled_served + stats.spilled_refused);
    assert!(stats.spilled_served > 0, "nothing was handed on");
    assert_eq!(stats.window_violations, 0, "who keeps to the rules is not punished");
    assert_eq!(replica.stats().window_violations, 0);
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_told_at_the_start() {
    let mut config = config("none");
    config.spill.tls = Some(seawall_rpc::SpillTls {
        authorities: "/nowhere/authorities.pem".into(),
        server_name: "replica".into(),
        certificate: None,
        key: None,
    });
    config.spill.replicas = vec![nobody()];
    let error = Server::start(config, router()).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/authorities.pem: no usable certificates"), "{error}");
}

#[tokio::test]
async fn it_is_counted_by_class() {
    let seen = Seen::default();
    let replica = Server::start(config("none"), serving_router(&seen)).unwrap();
    let refuse = |_, _| async { Err(Rejected::new(FULL, Duration::ZERO, Duration::ZERO).into()) };
    let router = Router::new()
        .method_in_class(BUSY, "busy", Class(2), refuse)
        .method_in_class(ECHO, "echo", Class(3), |_, payload| async { Ok(payload) })
        .class(Class(3), "quick");
    let first = Server::start(refusing(&[replica.address()]), router).unwrap();
    until(|| first.stats().spill_replicas == 1).await;
    let client = session(&first).await;
    for method in [BUSY, ECHO, BUSY] {
        client.call(Request::new(method, "")).await.unwrap();
    }
    client.call(Request::new(77, "")).await.unwrap_err();
    drop(client);
    let stats = balanced(&first).await;
    let told = stats.classes.iter().map(|class| {
        (&*class.class, class.requests, class.completions, class.failures, class.spilled_served)
    });
    let expected = [("class-0", 1, 0, 1, 0), ("busy", 2, 2, 0, 2), ("quick", 1, 1, 0, 0)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}
