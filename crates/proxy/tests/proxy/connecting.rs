//! Services that are slow to take connections, or take none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use hyper::StatusCode;
use seawall_proxy::Proxy;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::support::*;

/// A listener whose accept queue has room for two connections (Linux adds one to what is asked).
fn short_queue() -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.listen(1).unwrap()
}

/// Answers all requests of one connection.
async fn answer(mut tcp: TcpStream) {
    while !read_head(&mut tcp).await.is_empty() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        if tcp.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// Connections that fill the accept queue of a listener that takes none.
async fn fill(address: SocketAddr) -> Vec<TcpStream> {
    let mut taken = Vec::new();
    loop {
        let connecting = TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_millis(100), connecting).await {
            Ok(connected) => taken.push(connected.unwrap()),
            Err(_) => return taken,
        }
    }
}

#[tokio::test]
async fn a_burst_is_served_by_who_accepts_slowly() {
    let listener = short_queue();
    let address = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counter = accepted.clone();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            counter.fetch_add(1, SeqCst);
            tokio::spawn(answer(tcp));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let proxy = proxy(&[address]);
    let mut clients = JoinSet::new();
    for _ in 0..100 {
        let mut client = Client::connect(proxy.address()).await;
        clients.spawn(async move { said(client.get("/").await).await });
    }
    while let Some(answer) = clients.join_next().await {
        assert_eq!(answer.unwrap(), "ok");
    }
    let accepted = accepted.load(SeqCst);
    assert!(accepted < 50, "connections that come free are used: {accepted}");
}

/// A request to a proxy before a replica that takes no connection until the first attempt to
/// connect was given up.
async fn ask_who_is_late(attempts: u8) -> StatusCode {
    let listener = short_queue();
    let address = listener.local_addr().unwrap();
    let taken = fill(address).await;
    let mut config = config(&[address]);
    config.timeouts.connect = Duration::from_millis(300);
    upstream(&mut config).retry.attempts = attempts;
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    let asked = tokio::spawn(async move { client.send(post("/", text("body"))).await.status() });
    tokio::time::sleep(Duration::from_millis(450)).await;
    drop(taken);
    tokio::spawn(async move {
        loop {
            tokio::spawn(answer(listener.accept().await.unwrap().0));
        }
    });
    asked.await.unwrap()
}

#[tokio::test]
async fn an_attempt_to_connect_that_took_too_long_is_made_again() {
    assert_eq!(ask_who_is_late(16).await, StatusCode::OK);
    assert_eq!(ask_who_is_late(1).await, StatusCode::GATEWAY_TIMEOUT);
}

#[tokio::test]
async fn a_request_that_has_a_deadline_does_not_wait_beyond_it() {
    let listener = short_queue();
    let address = listener.local_addr().unwrap();
    let _taken = fill(address).await;
    let mut config = config(&[address]);
    config.timeouts.connect = Duration::from_secs(3600);
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    let mut request = get("/");
    let deadline = "100".parse().unwrap();
    request.headers_mut().insert("x-envoy-expected-rq-timeout-ms", deadline);
    let response = client.send(request).await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(response.headers()["proxy-status"], "seawall; error=http_response_timeout");
}
