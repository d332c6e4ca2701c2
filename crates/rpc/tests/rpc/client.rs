//! What our client does about servers that break the rules, are broken, or are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use crate::support::fake::{Fake, answer, frame, goaway, reply, settings};
use crate::support::{ECHO, balanced, one_credit, router, until};
use seawall_control::controller::{DropReason, Feedback};
use seawall_control::wire::{self, RequestOp, ResponseOp};
use seawall_rpc::{CallError, ClientConfig, ConnectError, Request, Server, Session, Unsent};
use tokio::io::AsyncWriteExt;

/// Why a client does not connect to a server that answers its hello with `bytes` and nothing more.
async fn refusal(bytes: Vec<u8>) -> ConnectError {
    refusal_within(Duration::from_secs(30), bytes).await
}

async fn refusal_within(connect_timeout: Duration, bytes: Vec<u8>) -> ConnectError {
    let script = |mut fake: Fake| async move {
        fake.next().await;
        fake.send(&bytes).await;
        while fake.next().await.is_some() {}
    };
    Fake::connect_within(connect_timeout, script).await.unwrap_err()
}

#[tokio::test]
async fn a_handshake_that_goes_wrong_says_how() {
    let error = refusal(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()).await;
    assert!(matches!(error, ConnectError::Protocol(_)), "{error}");
    let error = refusal(goaway("not today")).await;
    assert_eq!(error.to_string(), "the server refused the session: not today");
    let error = refusal(reply(1, 1, 1)).await;
    assert!(error.to_string().contains("first frame was not its settings"), "{error}");
    let malformed = frame(wire::Response::new(ResponseOp::Settings), &[1, 0, 9, 0]);
    let error = refusal(malformed).await;
    assert!(matches!(error, ConnectError::Protocol(_)), "{error}");
    let mut endless = wire::Response::new(ResponseOp::Settings);
    endless.body_len = u32::MAX;
    let error = refusal(endless.encode().to_vec()).await;
    assert!(error.to_string().contains("4294967295 bytes"), "{error}");
    for part in [0, 10, 70] {
        let beginning = settings("none")[..part].to_vec();
        let error = refusal_within(Duration::from_millis(100), beginning).await;
        assert!(matches!(error, ConnectError::Timeout { .. }), "{part} bytes: {error}");
    }
    let error = Fake::connect(|fake| async { drop(fake) }).await.unwrap_err();
    assert!(matches!(error, ConnectError::Io(_)), "{error}");
}

#[tokio::test]
async fn settings_may_come_byte_by_byte() {
    let script = |mut fake: Fake| async move {
        fake.tcp.set_nodelay(true).unwrap();
        fake.next().await;
        for byte in settings("none") {
            fake.send(&[byte]).await;
            tokio::task::yield_now().await;
        }
        while fake.next().await.is_some() {}
    };
    let session = Fake::connect(script).await.unwrap();
    assert_eq!(session.settings().algorithm, "none");
}

#[tokio::test]
async fn what_comes_right_behind_the_settings_is_not_lost() {
    let script = |mut fake: Fake| async move {
        fake.next().await;
        fake.send(&[settings("none"), goaway("the server stops")].concat()).await;
        assert!(fake.next().await.is_none(), "the client must not call any more");
    };
    let session = Fake::connect(script).await.unwrap();
    until(|| !session.is_open()).await;
    let error = session.call(Request::new(1, "")).await.unwrap_err();
    assert!(matches!(error, CallError::NotSent(Unsent::Disconnected(_))), "{error}");
}

#[tokio::test]
async fn frames_that_break_the_protocol_end_the_session() {
    let mut oversize = wire::Response::new(ResponseOp::Reply);
    oversize.body_len = u32::MAX;
    for (bytes, reason) in [
        (b"garbage".to_vec(), "a bad frame"),
        (wire::Request::new(RequestOp::Call).encode().to_vec(), "a bad frame"),
        (oversize.encode().to_vec(), "a bad frame"),
        (settings("none"), "its settings twice"),
    ] {
        let script = |mut fake: Fake| async move {
            fake.greet().await;
            fake.next().await;
            fake.send(&bytes).await;
            assert!(fake.next().await.is_none(), "the client closes");
        };
        let session = Fake::connect(script).await.unwrap();
        let (sent, waits) = (session.call(Request::new(1, "")), session.call(Request::new(1, "")));
        let CallError::ConnectionLost(why) = sent.await.unwrap_err() else { panic!("not lost") };
        assert!(why.contains(reason), "{why}");
        assert!(!session.is_open());
        // What was not sent is told apart, and the reason stays known.
        let unsent = CallError::from(Unsent::Disconnected(why));
        assert_eq!(waits.await.unwrap_err(), unsent);
        assert_eq!(session.call(Request::new(1, "")).await.unwrap_err(), unsent);
    }
}

#[tokio::test]
async fn a_server_that_dies_within_a_reply_loses_the_call() {
    let script = |mut fake: Fake| async move {
        fake.greet().await;
        let call = fake.next().await.unwrap();
        let whole = reply(call.claims.id, 1, 1);
        fake.send(&whole[..whole.len() - 1]).await;
    };
    let session = Fake::connect(script).await.unwrap();
    let error = session.call(Request::new(1, "")).await.unwrap_err();
    assert!(matches!(error, CallError::ConnectionLost(_)), "{error}");
}

#[tokio::test]
async fn calls_that_wait_when_the_server_says_goaway_are_not_sent() {
    let (later, may_go_on) = tokio::sync::oneshot::channel();
    let script = |mut fake: Fake| async move {
        fake.greet().await;
        let first = fake.next().await.unwrap();
        may_go_on.await.unwrap();
        fake.send(&goaway("moving house")).await;
        fake.send(&reply(first.claims.id, 10, 1)).await;
        assert!(fake.next().await.is_none(), "nothing may be sent after a goaway");
    };
    let session = Fake::connect(script).await.unwrap();
    let first = session.call(Request::new(1, ""));
    let waiting = [session.call(Request::new(1, "")), session.call(Request::new(1, ""))];
    assert_eq!((session.outstanding(), session.pending()), (1, 2));
    later.send(()).unwrap();
    for call in waiting {
        let error = call.await.unwrap_err();
        assert!(matches!(error, CallError::NotSent(Unsent::Disconnected(_))), "{error}");
        assert!(error.to_string().contains("asked its clients to leave"), "{error}");
    }
    assert_eq!(first.await.unwrap().payload, "served");
    assert!(!session.is_open());
}

#[tokio::test]
async fn calls_that_wait_when_the_last_handle_goes_are_still_sent() {
    let server = Server::start(one_credit(), router()).unwrap();
    let mut config = ClientConfig::default();
    config.admission.client.expiry = Some(Duration::from_secs(3_600));
    let session = Session::connect(server.address(), &config).await.unwrap();
    let served = Arc::new(AtomicU32::new(0));
    for _ in 0..20 {
        let served = served.clone();
        let done = move |result: seawall_rpc::CallResult| {
            assert_eq!(result.unwrap().payload, "x");
            served.fetch_add(1, SeqCst);
        };
        session.submit(Request::new(ECHO, "x"), Box::new(done));
    }
    assert!(session.pending() > 0, "one credit is not enough for all at once");
    drop(session);
    until(|| served.load(SeqCst) == 20).await;
    assert_eq!(balanced(&server).await.closed["left"], 1);
}

#[tokio::test]
async fn a_call_dropped_while_it_waits_is_never_sent() {
    let server = Server::start(one_credit(), router()).unwrap();
    let mut config = ClientConfig::default();
    config.admission.client.expiry = Some(Duration::from_secs(3_600));
    let session = Session::connect(server.address(), &config).await.unwrap();
    // The first leaves at once, and the others wait for its credit.
    let call = |_| session.call(Request::new(ECHO, ""));
    let (kept, dropped): (Vec<_>, Vec<_>) = (0..5).map(|i| (call(i), call(i))).unzip();
    drop(dropped);
    for call in kept {
        call.await.unwrap();
    }
    until(|| session.pending() == 0 && session.outstanding() == 0).await;
    assert_eq!(server.stats().requests, 5);
}

/// A server that greets and then only listens.
async fn listener(mut fake: Fake) {
    fake.greet().await;
    while fake.next().await.is_some() {}
}

#[tokio::test]
async fn calls_end_with_the_runtime_of_their_session() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let session = runtime.spawn(Fake::connect(listener)).await.unwrap().unwrap();
    let calls = [session.call(Request::new(1, "sent")), session.call(Request::new(1, "waits"))];
    runtime.shutdown_background();
    for call in calls {
        let result = tokio::time::timeout(Duration::from_secs(30), call).await;
        result.expect("no call is left hanging").unwrap_err();
    }
    assert!(!session.is_open());
}

#[tokio::test]
async fn a_callback_that_panics_takes_no_other_call_with_it() {
    let script = |mut fake: Fake| async move {
        fake.greet().await;
        let first = fake.next().await.unwrap().claims.id;
        fake.send(&reply(first, 10, 1)).await;
        let ids = [fake.next().await.unwrap().claims.id, fake.next().await.unwrap().claims.id];
        // Both in one segment, so that their results are handed out together.
        fake.send(&[reply(ids[0], 10, 1), reply(ids[1], 10, 1)].concat()).await;
        let last = fake.next().await.unwrap().claims.id;
        fake.send(&reply(last, 10, 1)).await;
        while fake.next().await.is_some() {}
    };
    let session = Fake::connect(script).await.unwrap();
    session.call(Request::new(1, "")).await.unwrap();
    session.submit(Request::new(1, ""), Box::new(|_| panic!("asked to panic")));
    let behind = session.call(Request::new(1, ""));
    let behind = tokio::time::timeout(Duration::from_secs(30), behind).await;
    assert_eq!(behind.expect("its result is not lost").unwrap().payload, "served");
    session.call(Request::new(1, "")).await.expect("the session goes on");
}

#[tokio::test]
async fn a_reply_to_a_call_that_was_not_sent_ends_the_session_and_no_more() {
    let script = |mut fake: Fake| async move {
        fake.greet().await;
        let first = fake.next().await.unwrap().claims.id;
        // The second call waits for a credit in the next place of the table.
        fake.send(&reply(first + (1 << 32) + 1, 0, 0)).await;
        assert!(fake.next().await.is_none(), "the client closes");
    };
    let session = Fake::connect(script).await.unwrap();
    let calls = [session.call(Request::new(1, "")), session.call(Request::new(1, ""))];
    assert_eq!((session.outstanding(), session.pending()), (1, 1));
    for call in calls {
        let result = tokio::time::timeout(Duration::from_secs(30), call).await;
        let error = result.expect("no call is left hanging").unwrap_err().to_string();
        assert!(error.contains("which is not outstanding"), "{error}");
    }
    assert!(!session.is_open());
}

#[tokio::test]
async fn a_second_reply_ends_the_session_and_is_given_to_no_other_call() {
    let script = |mut fake: Fake| async move {
        fake.greet_as("none").await;
        let first = fake.next().await.unwrap().claims.id;
        fake.send(&answer(first, "first")).await;
        // The second call has the first one's place in the client's table.
        let second = fake.next().await.unwrap().claims.id;
        assert_eq!(first as u32, second as u32);
        fake.send(&[answer(first, "first again"), answer(second, "second")].concat()).await;
        assert!(fake.next().await.is_none(), "the client closes");
    };
    let session = Fake::connect(script).await.unwrap();
    assert_eq!(session.call(Request::new(1, "")).await.unwrap().payload, "first");
    let error = session.call(Request::new(1, "")).await.unwrap_err();
    assert!(matches!(error, CallError::ConnectionLost(_)), "{error}");
    assert!(error.to_string().contains("which is not outstanding"), "{error}");
    assert!(!session.is_open());
}

#[tokio::test]
async fn replies_to_calls_that_were_never_made_reach_nobody() {
    for invented in [0, 1, 7, u64::MAX, 1 << 32] {
        let script = move |mut fake: Fake| async move {
            fake.greet_as("none").await;
            fake.next().await.unwrap();
            fake.send(&answer(invented, "for nobody")).await;
            assert!(fake.next().await.is_none(), "the client closes");
        };
        let session = Fake::connect(script).await.unwrap();
        let error = session.call(Request::new(1, "")).await.unwrap_err();
        assert!(matches!(error, CallError::ConnectionLost(_)), "{error}");
        assert!(error.to_string().contains(&format!("a reply to call {invented}, ")), "{error}");
    }
}

#[tokio::test]
async fn a_cancelled_call_has_one_reply_that_nobody_gets() {
    let script = |mut fake: Fake| async move {
        fake.greet_as("none").await;
        let cancelled = fake.next().await.unwrap().claims.id;
        let cancel = fake.next().await.unwrap();
        assert_eq!((cancel.op, cancel.claims.id), (RequestOp::Cancel, cancelled));
        let later = fake.next().await.unwrap().claims.id;
        // The cancel has crossed it on its way.
        fake.send(&[answer(cancelled, "too late"), answer(later, "later")].concat()).await;
        let last = fake.next().await.unwrap().claims.id;
        fake.send(&[answer(cancelled, "once more"), answer(last, "last")].concat()).await;
        assert!(fake.next().await.is_none(), "the client closes");
    };
    let session = Fake::connect(script).await.unwrap();
    let cancelled = session.call(Request::new(1, ""));
    until(|| session.outstanding() == 1).await;
    drop(cancelled);
    assert_eq!(session.call(Request::new(1, "")).await.unwrap().payload, "later");
    assert_eq!(session.outstanding(), 0, "the reply to the cancelled call has ended it");
    let error = session.call(Request::new(1, "")).await.unwrap_err();
    assert!(error.to_string().contains("which is not outstanding"), "{error}");
}

#[tokio::test]
async fn a_cancelled_callback_may_own_a_call_of_the_same_session() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let script = |mut fake: Fake| async move {
        fake.greet().await;
        while let Some(frame) = fake.next().await {
            tell.send(frame.op).unwrap();
            if frame.op == RequestOp::Goodbye {
                return;
            }
        }
    };
    let session = Fake::connect(script).await.unwrap();
    let sent = session.submit(Request::new(1, ""), Box::new(drop));
    let owned = session.call(Request::new(1, ""));
    let owner = session.submit(Request::new(1, ""), Box::new(move |_| drop(owned)));
    let cancelling = session.clone();
    let cancel = tokio::task::spawn_blocking(move || {
        [owner, owner, sent, sent].map(|id| cancelling.cancel(id))
    });
    let cancel = tokio::time::timeout(Duration::from_secs(30), cancel).await.expect("no deadlock");
    assert_eq!(cancel.unwrap(), [true, false, false, false], "one was not sent and never will be");
    drop(session);
    let mut ops = Vec::new();
    while let Some(op) = told.recv().await {
        ops.push(op);
    }
    // However often it is cancelled, the server is told once, and of the others never.
    assert_eq!(ops, [RequestOp::Call, RequestOp::Cancel, RequestOp::Goodbye]);
}

#[tokio::test]
async fn calls_behind_a_full_socket_can_still_expire() {
    let (calls, len) = (100, 1 << 20);
    let script = |mut fake: Fake| async move {
        assert_eq!(fake.next().await.unwrap().op, RequestOp::Hello);
        fake.send(&settings("none")).await;
        std::future::pending::<()>().await; // and never reads
    };
    let session = Fake::connect(script).await.unwrap();
    let call = |_| session.call(Request::new(1, vec![7; len]));
    let calls: Vec<_> = (0..calls).map(call).collect();
    until(|| session.pending() == 0).await;
    assert!(session.outstanding() < 50, "{} are on their way", session.outstanding());
    let expired = CallError::from(Unsent::Dropped(DropReason::Expired));
    assert_eq!(calls.into_iter().next_back().unwrap().await.unwrap_err(), expired);
}

#[tokio::test]
async fn a_client_that_waits_with_nothing_outstanding_says_so() {
    let (tell, told) = tokio::sync::oneshot::channel();
    let script = |mut fake: Fake| async move {
        fake.greet().await;
        let first = fake.next().await.unwrap();
        fake.send(&reply(first.claims.id, 0, 0)).await;
        tell.send(fake.next().await.unwrap()).unwrap();
        let mut credit = wire::Response::new(ResponseOp::Credit);
        credit.feedback = Feedback::Window { size: 1, seq: 1 };
        fake.send(&credit.encode()).await;
        let second = fake.next().await.unwrap();
        fake.send(&reply(second.claims.id, 1, 1)).await;
    };
    let session = Fake::connect(script).await.unwrap();
    let (first, second) = (session.call(Request::new(1, "")), session.call(Request::new(1, "")));
    first.await.unwrap();
    let demand = told.await.unwrap();
    assert_eq!((demand.op, demand.demand), (RequestOp::Demand, 1));
    assert_eq!(second.await.unwrap().payload, "served");
}

#[tokio::test]
async fn a_client_keeps_to_the_credits_of_an_algorithm_that_it_does_not_know() {
    let script = |mut fake: Fake| async move {
        fake.next().await;
        fake.send(&settings("telepathy")).await;
        let first = fake.next().await.unwrap();
        assert_eq!(first.demand, 0);
        fake.send(&reply(first.claims.id, 1, 1)).await;
        for _ in 0..3 {
            let call = fake.next().await.unwrap();
            assert_eq!((call.op, call.window_ack), (RequestOp::Call, 1));
            fake.send(&reply(call.claims.id, 1, 1)).await;
        }
    };
    let session = Fake::connect(script).await.unwrap();
    let calls: Vec<_> = (0..4).map(|_| session.call(Request::new(1, ""))).collect();
    assert_eq!((session.outstanding(), session.pending()), (1, 3));
    for call in calls {
        assert_eq!(call.await.unwrap().payload, "served");
    }
}

#[tokio::test]
async fn after_its_goodbye_a_client_leaves_the_closing_to_the_server() {
    let (tell, told) = tokio::sync::oneshot::channel();
    let script = |mut fake: Fake| async move {
        fake.greet().await;
        assert_eq!(fake.next().await.unwrap().op, RequestOp::Goodbye);
        let more = tokio::time::timeout(Duration::from_millis(50), fake.next()).await;
        fake.tcp.shutdown().await.unwrap();
        let end = tokio::time::timeout(Duration::from_millis(500), fake.next()).await;
        tell.send((more.is_err(), end.is_ok_and(|frame| frame.is_none()))).unwrap();
    };
    drop(Fake::connect(script).await.unwrap());
    assert_eq!(told.await.unwrap(), (true, true), "still open, closed in answer");
}
