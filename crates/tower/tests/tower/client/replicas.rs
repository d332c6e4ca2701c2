//! Which replica is asked.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use seawall_control::replica::Selection;
use seawall_tower::client::{Config, Error, Replay, Replicas};
use tokio::time::{Instant, advance};
use tower::discover::Change;

use super::support::{Mock, Server, mock, ms, send, settle};

type Sent = Replay<Empty<Bytes>>;

fn client() -> Replicas<Mock<Sent>> {
    let mut config = Config::default();
    config.admission.client.replicas.choose = Selection::First;
    Replicas::new(config).unwrap()
}

fn add(client: &Replicas<Mock<Sent>>, name: &str) -> Server<Sent> {
    let (mock, server) = mock();
    client.insert(name, mock);
    server
}

fn get() -> Request<Empty<Bytes>> {
    Request::new(Empty::new())
}

#[tokio::test(start_paused = true)]
async fn without_replicas_there_is_nobody_to_ask() {
    let error = send(&client(), get()).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::NoReplica), "{error}");
}

#[tokio::test(start_paused = true)]
async fn who_has_no_credit_for_it_is_passed_over() {
    let client = client();
    let (mut one, mut two) = (add(&client, "a"), add(&client, "b"));
    let call = send(&client, get());
    one.next().await.serve("window=1, seq=1");
    call.await.unwrap().unwrap();
    let _running = send(&client, get());
    let at_one = one.next().await;
    let begun = Instant::now();
    let moved = send(&client, get());
    let at_two = two.next().await;
    assert!(begun.elapsed() <= ms(3), "a round trip, and a timer's precision");
    assert_eq!(at_two.told().attempt, None, "it was not sent before");
    at_two.serve("");
    moved.await.unwrap().unwrap();
    assert_eq!(client.retries().moves, 1);
    at_one.serve("");
}

#[tokio::test(start_paused = true)]
async fn who_cannot_be_reached_is_left_out_for_a_while() {
    let client = client();
    let (dead, mut alive) = (add(&client, "a"), add(&client, "b"));
    drop(dead); // connections to it are refused
    for (pause, moves) in [(0, 1), (1, 1), (60, 2), (60, 2), (60, 3)] {
        advance(ms(pause)).await;
        let call = send(&client, get());
        alive.next().await.serve("");
        call.await.unwrap().unwrap();
        assert_eq!(client.retries().moves, moves, "after {pause} ms");
    }
    drop(alive);
    let error = send(&client, get()).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Inner(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn replicas_come_and_go() {
    let client = client();
    let (mut one, mut two) = (add(&client, "a"), add(&client, "b"));
    let running = send(&client, get());
    let at_one = one.next().await;
    assert!(client.remove("a") && !client.remove("a"));
    let call = send(&client, get());
    two.next().await.serve("");
    call.await.unwrap().unwrap();
    at_one.serve("");
    running.await.unwrap().unwrap();
    let mut again = add(&client, "b"); // in the place of the other
    assert_eq!(client.names(), ["b".into()]);
    let call = send(&client, get());
    again.next().await.serve("");
    call.await.unwrap().unwrap();
    assert!(two.arrived().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn replicas_are_those_that_are_discovered() {
    let client = client();
    let (mock_one, mut one) = mock();
    let (mock_two, mut two) = mock();
    let (to, mut changes) = tokio::sync::mpsc::unbounded_channel();
    let discovered = futures_util::stream::poll_fn(move |cx| changes.poll_recv(cx));
    let follower = tokio::spawn({
        let client = client.clone();
        async move { client.follow(discovered).await }
    });
    let change = |change| to.send(Ok::<_, Infallible>(change)).unwrap();
    change(Change::Insert(7, mock_one));
    settle().await;
    let call = send(&client, get());
    one.next().await.serve("");
    call.await.unwrap().unwrap();
    change(Change::Insert(8, mock_two));
    change(Change::Remove(7));
    settle().await;
    assert_eq!(client.names(), ["8".into()]);
    let call = send(&client, get());
    two.next().await.serve("");
    call.await.unwrap().unwrap();
    drop(to);
    follower.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_choices_spread_the_load_by_responses_that_are_open() {
    let client = Replicas::new(Config::default()).unwrap();
    let (mut one, mut two) = (add(&client, "a"), add(&client, "b"));
    // Both have told that there are many credits.
    for _ in 0..8 {
        let call = send(&client, get());
        settle().await;
        for arrived in one.arrived().await.into_iter().chain(two.arrived().await) {
            arrived.serve("window=64, seq=1");
        }
        call.await.unwrap().unwrap();
        advance(Duration::from_millis(1)).await;
    }
    let _calls: Vec<_> = (0..20).map(|_| send(&client, get())).collect();
    settle().await;
    let (one, two) = (one.arrived().await.len(), two.arrived().await.len());
    assert_eq!((one, two), (10, 10), "of two, always the one that has fewer");
}
