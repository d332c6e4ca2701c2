//! Clients of other protocols: what they leave behind, and what they cannot take from others.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seawall_rpc::{Context, Guest, GuestReply, Server, Status};

use crate::support::{Bystander, balanced, config, gauge, router, until};

async fn echo(_ctx: Context) -> Result<Bytes, Status> {
    Ok(Bytes::from("served"))
}

async fn sleep(_ctx: Context) -> Result<Bytes, Status> {
    std::future::pending().await
}

async fn replies(guest: &mut Guest) -> Vec<GuestReply> {
    let mut replies = Vec::new();
    let waiting = poll_fn(|cx| guest.poll_replies(cx, &mut replies));
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("a reply comes");
    replies
}

#[tokio::test]
async fn guests_get_one_reply_for_each_call() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let mut guest = server.guests().open().unwrap();
    for id in 0..50 {
        guest.submit(id, echo);
        assert_eq!(guest.outstanding(), 1);
        let replies = replies(&mut guest).await;
        assert_eq!(replies.len(), 1);
        assert_eq!(replies[0].id, id);
        assert_eq!(replies[0].result.as_ref().unwrap().as_ref().unwrap(), "served");
    }
    drop(guest);
    until(|| server.stats().sessions == 0).await;
    let stats = server.stats();
    assert_eq!((stats.requests, stats.completions, stats.outstanding), (50, 50, 0));
}

#[tokio::test]
async fn a_guest_that_goes_takes_its_calls_with_it() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let bystander = Bystander::start(&server).await;
    for _ in 0..10 {
        let mut guest = server.guests().open().unwrap();
        // Some are in the server, one has its reply and nobody took it.
        guest.submit(1, sleep);
        guest.submit(2, echo);
        guest.submit(3, sleep);
        until(|| server.stats().outstanding >= 3).await;
    }
    bystander.leave().await;
    let stats = balanced(&server).await;
    // The one that had its reply is done, whether it was taken or not.
    assert!((20..=30).contains(&(stats.cancellations + stats.refused())), "{stats:?}");
}

#[tokio::test]
async fn replies_that_a_guest_leaves_behind_count_as_what_they_are() {
    let mut config = config("none");
    config.limits.outstanding = 2;
    let server = Server::start(config, router()).unwrap();
    let mut guest = server.guests().open().unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    guest.submit(1, sleep);
    guest.submit(2, move |_| async move {
        done.send(()).unwrap();
        Ok(Bytes::new())
    });
    guest.submit(3, echo); // beyond its limit
    ended.recv().unwrap();
    until(|| server.stats().busy_nanos > 0).await; // its reply is there
    drop(guest);
    let stats = server.stats();
    assert_eq!((stats.completions, stats.refused(), stats.cancellations), (1, 1, 1));
}

#[tokio::test]
async fn a_guest_is_bound_by_what_any_session_may_have() {
    let mut config = config("none");
    config.limits.outstanding = 4;
    let server = Server::start(config, router()).unwrap();
    let mut guest = server.guests().open().unwrap();
    for id in 0..6 {
        guest.submit(id, sleep);
    }
    let refused = replies(&mut guest).await;
    let ids: Vec<_> = refused.iter().map(|reply| reply.id).collect();
    assert_eq!(ids, [4, 5]);
    assert!(refused.iter().all(|reply| matches!(reply.result, Some(Err(Status::Rejected(_))))));
    assert_eq!(guest.outstanding(), 4);
    drop(guest);
    let stats = server.stats();
    assert_eq!((stats.refused(), stats.cancellations, stats.outstanding), (2, 4, 0));
}

#[tokio::test]
async fn guests_count_as_sessions() {
    let mut config = config("breakwater");
    config.limits.sessions = 2;
    let server = Server::start(config, router()).unwrap();
    let guests = server.guests();
    let (one, _other) = (guests.open().unwrap(), guests.open().unwrap());
    assert!(guests.open().is_none());
    drop(one);
    assert!(guests.open().is_some());
}

#[tokio::test]
async fn a_panic_in_a_guests_call_fails_that_call() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let mut guest = server.guests().open().unwrap();
    guest.submit(1, |_ctx| async { panic!("asked to panic") });
    let replies = replies(&mut guest).await;
    let Some(Err(Status::Error { code, .. })) = &replies[0].result else { panic!("no error") };
    assert_eq!(*code, Status::INTERNAL);
    drop(guest);
    assert_eq!(server.stats().failures, 1);
    assert_eq!(gauge(&server.stats(), "credits_issued"), Some(0.0));
}

#[tokio::test]
async fn guests_may_outlive_their_server() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let guests = server.guests();
    let mut guest = guests.open().unwrap();
    let alive = Arc::new(());
    let held = alive.clone();
    guest.submit(1, move |_| async move {
        let _held = held;
        std::future::pending().await
    });
    until(|| server.stats().outstanding == 1).await;
    let stopped = tokio::spawn({
        let guests = guests.clone();
        async move { guests.stopped().await }
    });
    drop(server);
    stopped.await.unwrap();
    // Nobody runs what is submitted now, and nothing of it may stay in memory.
    let held = alive.clone();
    guest.submit(2, move |_| async move {
        let _held = held;
        Ok(Bytes::new())
    });
    drop(guest);
    drop(guests);
    assert_eq!(Arc::strong_count(&alive), 1);
}
