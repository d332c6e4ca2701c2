//! Calls over real connections: results, errors, refusals, cancellation, shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use crate::support::{config, spin, until};
use bytes::Bytes;
use seawall_control::request::Stage;
use seawall_control::{admission, dagor};
use seawall_rpc::{
    Budget, CallError, Client, ClientConfig, Context, GuardianWay, Request, Router, Server,
    ServerConfig, Session, Status, Unsent,
};

async fn echo(_ctx: Context, payload: Bytes) -> Result<Bytes, Status> {
    Ok(payload)
}

fn router() -> Router {
    Router::new()
        .method(1, "echo", echo)
        .method(2, "fail", |_, _| async { Err(Status::error(Status::NOT_FOUND, "no such thing")) })
        .method(3, "panic", |_, payload| async move {
            assert!(!payload.is_empty(), "asked to panic");
            Ok(payload)
        })
        .method(4, "spin", |_, payload| async move {
            spin(Duration::from_millis(u64::from(payload[0])));
            Ok(Bytes::new())
        })
        .method(5, "sleep", |_, _| async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok(Bytes::new())
        })
}

async fn session(server: &Server) -> Session {
    Session::connect(server.address(), &ClientConfig::default()).await.unwrap()
}

#[tokio::test]
async fn results_errors_and_panics_come_back() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let session = session(&server).await;
    let reply = session.call(Request::new(1, "hello")).await.unwrap();
    assert_eq!(reply.payload, "hello");
    let empty = session.call(Request::new(1, "")).await.unwrap();
    assert!(empty.payload.is_empty());

    let failed = session.call(Request::new(2, "")).await.unwrap_err();
    let message = "no such thing".to_owned();
    assert_eq!(failed, CallError::Failed { code: Status::NOT_FOUND, message });
    let code = |error: CallError| match error {
        CallError::Failed { code, .. } => code,
        other => panic!("{other}"),
    };
    let unknown = session.call(Request::new(99, "")).await.unwrap_err();
    assert_eq!(code(unknown), Status::UNIMPLEMENTED);
    let panicked = session.call(Request::new(3, "")).await.unwrap_err();
    assert_eq!(code(panicked), Status::INTERNAL);
    // The server goes on, and has counted everything once.
    assert!(session.call(Request::new(1, "still here")).await.is_ok());
    let stats = server.stats();
    assert_eq!((stats.requests, stats.completions, stats.failures), (6, 3, 3));
    assert_eq!(stats.outstanding, 0);
}

#[tokio::test]
async fn one_connection_carries_many_calls_in_any_order() {
    let server = Server::start(config("none"), router()).unwrap();
    let session = session(&server).await;
    let calls: Vec<_> = (0..500u32)
        .map(|i| session.call(Request::new(1, Bytes::from(vec![i as u8; i as usize * 37]))))
        .collect();
    for (i, call) in calls.into_iter().enumerate() {
        let payload = call.await.unwrap().payload;
        assert_eq!(payload.len(), i * 37);
        assert!(payload.iter().all(|byte| *byte == i as u8));
    }
}

#[tokio::test]
async fn large_payloads_pass_up_to_the_limit() {
    let server = Server::start(config("none"), router()).unwrap();
    let session = session(&server).await;
    let limit = ServerConfig::default().limits.body_bytes as usize;
    let reply = session.call(Request::new(1, vec![7; limit])).await.unwrap();
    assert_eq!(reply.payload.len(), limit);
    let error = session.call(Request::new(1, vec![7; limit + 1])).await.unwrap_err();
    assert_eq!(error, Unsent::TooLarge { len: limit + 1, max: limit as u32 }.into());
    assert!(session.call(Request::new(1, "fine")).await.is_ok());
}

#[tokio::test]
async fn every_algorithm_serves() {
    for name in admission::NAMES {
        let server = Server::start(config(name), router()).unwrap();
        let session = session(&server).await;
        assert_eq!(session.settings().algorithm, name);
        for i in 0..100 {
            let payload = i.to_string();
            let reply = session.call(Request::new(1, payload.clone())).await.unwrap();
            assert_eq!(reply.payload, payload, "{name}");
        }
    }
}

#[tokio::test]
async fn sessions_draw_their_own_random_numbers() {
    let server = Server::start(config("seda"), router()).unwrap();
    let [one, other] = [session(&server).await, session(&server).await];
    assert_ne!(one.metrics().value("client_rate"), other.metrics().value("client_rate"));
}

#[tokio::test]
async fn a_level_travels_to_the_client() {
    let server = Server::start(config("dagor"), router()).unwrap();
    let mut client = ClientConfig::default();
    client.admission.dagor.variant = dagor::Variant::Released; // begins at a random level
    let session = Session::connect(server.address(), &client).await.unwrap();
    let level = || session.metrics().value("admission_level").unwrap();
    assert!((128.0..=129.0).contains(&level()));
    while session.call(Request::new(1, "may I?")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(level(), 256.0, "all of priority 255");
}

#[tokio::test]
async fn workers_and_dispatchers_of_their_own_serve_as_well() {
    let mut config = config("breakwater");
    (config.threads.workers, config.threads.dispatchers) = (3, 2);
    let server = Server::start(config, router()).unwrap();
    let sessions = [session(&server).await, session(&server).await, session(&server).await];
    for round in 0..50 {
        let calls: Vec<_> = sessions.iter().map(|s| s.call(Request::new(1, "x"))).collect();
        for call in calls {
            assert!(call.await.is_ok(), "round {round}");
        }
    }
}

#[tokio::test]
async fn what_cannot_start_in_time_is_refused_with_the_stage() {
    let mut config = config("breakwater");
    config.budget = Budget::Fixed(Duration::from_millis(20));
    config.admission.credit.window_max = 1000;
    config.guardian.way = GuardianWay::Off; // which would refuse first on a busy machine
    let server = Server::start(config, router()).unwrap();
    let (slow, fast) = (session(&server).await, session(&server).await);
    let blocked = slow.call(Request::new(4, vec![100])); // holds the only worker for 100 ms
    until(|| server.stats().requests == 1).await;
    let waiting = fast.call(Request::new(1, "too late"));
    let CallError::Rejected(rejected) = waiting.await.unwrap_err() else { panic!("not refused") };
    assert_eq!(rejected.stage, Stage::RUN_QUEUE);
    assert!(blocked.await.is_ok());
    assert_eq!(server.stats().refusals[&Stage::RUN_QUEUE], 1);
}

#[tokio::test]
async fn a_deadline_is_honoured_at_the_server() {
    // Without a budget, too, and although the only thread reads the call long after it came.
    for algorithm in ["breakwater", "none"] {
        let server = Server::start(config(algorithm), router()).unwrap();
        let (slow, fast) = (session(&server).await, session(&server).await);
        for attempt in 1.. {
            let before = server.stats().requests;
            let blocked = slow.call(Request::new(4, vec![60]));
            until(|| server.stats().requests > before).await;
            let hurried = Request::new(1, "").with_deadline(Duration::from_millis(5));
            let result = fast.call(hurried).await;
            assert!(blocked.await.is_ok());
            match result {
                Err(CallError::Rejected(_)) => break,
                // It takes the kernel a moment to begin to stamp what comes, and on a busy machine
                // the call may come when the thread is free again.
                result => assert!(attempt < 20, "{algorithm}: {result:?}"),
            }
        }
    }
}

#[tokio::test]
async fn dropping_a_call_cancels_its_handler() {
    static RUNNING: AtomicU32 = AtomicU32::new(0);
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            RUNNING.fetch_sub(1, SeqCst);
        }
    }
    let router = Router::new().method(1, "wait", |_, _| async {
        RUNNING.fetch_add(1, SeqCst);
        let _guard = Guard;
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        Ok(Bytes::new())
    });
    let server = Server::start(config("breakwater"), router).unwrap();
    let session = session(&server).await;
    let call = session.call(Request::new(1, ""));
    until(|| RUNNING.load(SeqCst) == 1).await;
    drop(call);
    until(|| RUNNING.load(SeqCst) == 0).await;
    until(|| server.stats().cancellations == 1).await;
    until(|| session.outstanding() == 0).await;
    assert_eq!(server.stats().outstanding, 0);
}

#[tokio::test]
async fn a_client_that_leaves_cancels_what_it_had() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let address = server.address();
    runtime.spawn(async move {
        let session = Session::connect(address, &ClientConfig::default()).await.unwrap();
        _ = session.call(Request::new(5, "")).await;
    });
    until(|| server.stats().outstanding == 1).await;
    runtime.shutdown_background(); // as if the process were killed
    until(|| server.stats().outstanding == 0).await;
    until(|| server.stats().sessions == 0 && server.stats().closed.contains_key("gone")).await;
    let stats = server.stats();
    assert_eq!((stats.cancellations, stats.closed["gone"]), (1, 1));
    let issued = stats.controller.iter().find(|(name, _)| *name == "credits_issued").unwrap().1;
    assert!(issued.abs() < 0.5, "credits leaked: {issued}");
}

#[tokio::test]
async fn shutdown_answers_what_was_accepted_and_refuses_the_rest() {
    let mut config = config("none");
    config.threads.workers = 1;
    let server = Server::start(config, router()).unwrap();
    let address = server.address();
    let client = session(&server).await;
    let calls: Vec<_> = (0..10).map(|_| client.call(Request::new(4, vec![5]))).collect();
    until(|| server.stats().requests == 10).await;
    let stopping = tokio::task::spawn_blocking(move || server.shutdown(Duration::from_secs(10)));
    for call in calls {
        call.await.expect("accepted calls are answered");
    }
    until(|| !client.is_open()).await;
    let late = client.call(Request::new(1, "")).await.unwrap_err();
    assert!(matches!(late, CallError::NotSent(Unsent::Disconnected(_))), "{late}");
    stopping.await.unwrap();
    assert!(Session::connect(address, &ClientConfig::default()).await.is_err());
}

#[tokio::test]
async fn shutdown_cancels_what_does_not_end_in_time() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let client = session(&server).await;
    let call = client.call(Request::new(5, ""));
    until(|| server.stats().outstanding == 1).await;
    tokio::task::spawn_blocking(move || server.shutdown(Duration::from_millis(50))).await.unwrap();
    let error = call.await.unwrap_err();
    assert!(matches!(error, CallError::ConnectionLost(_)), "{error}");
}

#[tokio::test]
async fn a_client_uses_all_replicas_and_goes_on_without_a_lost_one() {
    let served = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let start = |index: usize| {
        let served = served.clone();
        let router = Router::new().method(1, "count", move |_, _| {
            served[index].fetch_add(1, SeqCst);
            async { Ok(Bytes::new()) }
        });
        Server::start(config("breakwater"), router).unwrap()
    };
    let (one, other) = (start(0), start(1));
    let client = Client::new([one.address(), other.address()], ClientConfig::default());
    for _ in 0..200 {
        client.call(Request::new(1, "")).await.unwrap();
    }
    let counts = [served[0].load(SeqCst), served[1].load(SeqCst)];
    assert!(counts.iter().all(|count| *count > 40), "{counts:?}");
    drop(other);
    let mut lost = 0;
    for _ in 0..100 {
        lost += u32::from(client.call(Request::new(1, "")).await.is_err());
    }
    assert!(lost <= 1, "{lost} calls failed although a replica was there");
}

#[tokio::test]
async fn handlers_may_wait_for_timers_and_each_other() {
    let router = Router::new().method(1, "nap", |_, payload| async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        tokio::task::yield_now().await;
        Ok(payload)
    });
    let server = Server::start(config("none"), router).unwrap();
    let session = session(&server).await;
    let before = std::time::Instant::now();
    let calls: Vec<_> = (0..100).map(|_| session.call(Request::new(1, "z"))).collect();
    for call in calls {
        call.await.unwrap();
    }
    // Side by side, not one after the other: that would take two seconds.
    assert!(before.elapsed() < Duration::from_secs(1));
}
