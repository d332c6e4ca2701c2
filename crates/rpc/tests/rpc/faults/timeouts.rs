//! Clients that begin something and do not end it, and clients that are only slow.

use std::time::{Duration, Instant};

use seawall_control::wire::{Hello, Request, RequestOp, Status};
use seawall_rpc::{Limits, Server, ServerConfig};

use crate::support::raw::{Raw, call, hello_frame};
use crate::support::{Bystander, ECHO, GROW, balanced, closed, config, router, until};

fn config_with(limits: Limits) -> ServerConfig {
    ServerConfig { limits, ..config("breakwater") }
}

#[tokio::test]
async fn a_frame_must_be_complete_in_time() {
    let frame_timeout = Duration::from_millis(150);
    let server =
        Server::start(config_with(Limits { frame_timeout, ..Limits::default() }), router());
    let server = server.unwrap();
    let bystander = Bystander::start(&server).await;
    let whole = call(1, ECHO, &[7; 1000]);
    // A part of the header; a header whose body never comes; a body without its last byte.
    for (done, cut) in [5, 64, whole.len() - 1].into_iter().enumerate() {
        let mut client = Raw::open(server.address()).await;
        let began = Instant::now();
        client.send(&whole[..cut]).await;
        assert_eq!(client.farewell().await, "a frame was not completed in time", "{cut} bytes");
        assert!(began.elapsed() >= frame_timeout);
        assert_eq!(closed(&server, "frame_timeout"), done as u64 + 1);
    }
    bystander.leave().await;
    balanced(&server).await;
}

#[tokio::test]
async fn a_hello_must_be_complete_in_time() {
    let hello_timeout = Duration::from_millis(150);
    let server =
        Server::start(config_with(Limits { hello_timeout, ..Limits::default() }), router());
    let server = server.unwrap();
    let bystander = Bystander::start(&server).await;
    let hello = hello_frame(&Hello { name: "slow".into(), ..Hello::default() });
    for (done, cut) in [0, 7, hello.len() - 1].into_iter().enumerate() {
        let began = Instant::now();
        let mut client = Raw::connect(server.address()).await;
        client.send(&hello[..cut]).await;
        assert_eq!(client.farewell().await, "the hello did not come in time", "{cut} bytes");
        assert!(began.elapsed() >= hello_timeout);
        assert_eq!(closed(&server, "hello_timeout"), done as u64 + 1);
    }
    bystander.leave().await;
    balanced(&server).await;
}

#[tokio::test]
async fn one_byte_at_a_time_is_slow_but_legal() {
    let server = Server::start(config("breakwater"), router()).unwrap();
    let bystander = Bystander::start(&server).await;
    let mut client = Raw::connect(server.address()).await;
    client.tcp.set_nodelay(true).unwrap();
    let stream = [
        hello_frame(&Hello { name: "slow-loris".into(), ..Hello::default() }),
        call(7, ECHO, b"patience"),
    ];
    for byte in stream.concat() {
        client.send(&[byte]).await;
        tokio::task::yield_now().await;
    }
    let answer = client.reply(7).await;
    assert_eq!((answer.status(), answer.text()), (Some(Status::Ok), "patience".into()));
    drop(client);
    bystander.leave().await;
    balanced(&server).await;
}

#[tokio::test]
async fn a_connection_that_is_always_within_some_frame_does_not_time_out() {
    // Each write ends one frame and begins the next, so that a beginning always waits for its end.
    let frame_timeout = Duration::from_millis(400);
    let server =
        Server::start(config_with(Limits { frame_timeout, ..Limits::default() }), router());
    let server = server.unwrap();
    let mut client = Raw::open(server.address()).await;
    let frame = |id| call(id, ECHO, &[7; 200]);
    let (began, mut id) = (Instant::now(), 0);
    client.send(&frame(0)[..100]).await;
    while began.elapsed() < frame_timeout * 3 {
        let step = [&frame(id)[100..], &frame(id + 1)[..100]].concat();
        client.send(&step).await;
        assert_eq!(client.reply(id).await.status(), Some(Status::Ok));
        id += 1;
    }
    drop(client);
    balanced(&server).await;
}

#[tokio::test]
async fn a_frame_that_the_server_does_not_read_is_not_late() {
    // A reply that the client does not read keeps the server from reading the rest of a frame.
    let len = 24_u32 << 20;
    let mut config = config("none");
    config.limits.frame_timeout = Duration::from_secs(1);
    config.limits.unread_bytes = 32 << 20; // and reading stops at half
    let server = Server::start(config, router()).unwrap();
    let mut client = Raw::connect_narrow(server.address()).await.greet(&Hello::default()).await;
    let late = call(2, ECHO, b"not too late");
    client.send(&[&call(1, GROW, &len.to_le_bytes()), &late[..70]].concat()).await;
    let began = Instant::now();
    // Long enough for the sweeper to have come by.
    until(|| began.elapsed() > Duration::from_millis(1_600)).await;
    client.send(&late[70..]).await;
    client.widen();
    assert_eq!(client.reply(1).await.body.len(), len as usize);
    assert_eq!(client.reply(2).await.text(), "not too late");
    drop(client);
    balanced(&server).await;
}

#[tokio::test]
async fn an_idle_session_stays() {
    let short = Duration::from_millis(50);
    let limits = Limits {
        hello_timeout: Duration::from_secs(5),
        frame_timeout: short,
        write_timeout: short,
        ..Limits::default()
    };
    let server = Server::start(config_with(limits), router()).unwrap();
    let mut client = Raw::open(server.address()).await;
    let began = Instant::now();
    // Long enough for the sweeper to have come by.
    until(|| began.elapsed() > Duration::from_millis(600)).await;
    client.send(&call(1, ECHO, b"still here")).await;
    assert_eq!(client.reply(1).await.text(), "still here");
    client.send(&Request::new(RequestOp::Goodbye).encode()).await;
    assert_eq!(client.rest().await, []);
    assert_eq!(balanced(&server).await.closed["left"], 1);
}
