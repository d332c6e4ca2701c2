//! Responses that take their time.

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use http_body_util::BodyExt;
use seawall_tower::client::Config;

use super::support::{client, get, send, settle, streaming};

fn data(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

#[tokio::test(start_paused = true)]
async fn a_credit_is_used_until_the_body_has_ended() {
    let (client, mut server) = client(Config::default());
    let call = send(&client, get());
    let (frames, answer) = streaming(&[("seawall", "window=1, seq=1")]);
    server.next().await.answer(answer);
    let mut body = call.await.unwrap().unwrap().into_body();
    let next = send(&client, get());
    for part in ["a", "b"] {
        frames.send(data(part)).unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), part);
    }
    assert!(server.arrived().await.is_empty());
    assert_eq!((client.outstanding(), client.pending()), (1, 1));
    drop(frames);
    assert!(body.frame().await.is_none());
    server.next().await.serve("");
    next.await.unwrap().unwrap();
    assert_eq!(client.outstanding(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_window_in_the_head_counts_before_the_end() {
    let (client, mut server) = client(Config::default());
    let call = send(&client, get());
    let (_frames, answer) = streaming(&[("seawall", "window=3, seq=1")]);
    server.next().await.answer(answer);
    let _open = call.await.unwrap().unwrap();
    let _others: Vec<_> = (0..3).map(|_| send(&client, get())).collect();
    assert_eq!(server.arrived().await.len(), 2, "beside the one that is open");
}

#[tokio::test(start_paused = true)]
async fn a_window_in_the_trailers_counts_too() {
    let (client, mut server) = client(Config::default());
    let call = send(&client, get());
    let (frames, answer) = streaming(&[("seawall", "window=1, seq=1")]);
    server.next().await.answer(answer);
    let mut body = call.await.unwrap().unwrap().into_body();
    let mut trailers = HeaderMap::new();
    trailers.insert("seawall", "window=2, seq=2".parse().unwrap());
    frames.send(Frame::trailers(trailers)).unwrap();
    assert!(body.frame().await.unwrap().unwrap().is_trailers());
    assert_eq!(client.outstanding(), 0, "trailers are the end");
    let _others: Vec<_> = (0..3).map(|_| send(&client, get())).collect();
    let arrived = server.arrived().await;
    assert_eq!(arrived.len(), 2);
    assert_eq!(arrived[0].told().ack, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_gives_its_credit_back_once() {
    let (client, mut server) = client(Config::default());
    let call = send(&client, get());
    let (frames, answer) = streaming(&[("seawall", "window=1, seq=1")]);
    server.next().await.answer(answer);
    let mut body = call.await.unwrap().unwrap().into_body();
    frames.send(data("a")).unwrap();
    body.frame().await.unwrap().unwrap();
    let _others: Vec<_> = (0..2).map(|_| send(&client, get())).collect();
    settle().await;
    drop(body);
    assert!(frames.send(data("b")).is_err(), "the stream is cancelled");
    let _next = server.next().await;
    assert!(server.arrived().await.is_empty());
    assert_eq!((client.outstanding(), client.pending()), (1, 1));
}
