//! Connections that switch to another protocol.

use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::*;

/// Switches if it is asked to, and sends back what comes then.
async fn echo() -> Upstream {
    Upstream::start(|mut request| async move {
        let Some(protocol) = request.headers().get("upgrade").cloned() else {
            return Response::new(text("plain"));
        };
        tokio::spawn(async move {
            let switched = hyper::upgrade::on(&mut request).await.unwrap();
            let (mut read, mut write) = tokio::io::split(TokioIo::new(switched));
            let _ = tokio::io::copy(&mut read, &mut write).await;
        });
        Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header("connection", "upgrade")
            .header("upgrade", protocol)
            .body(empty())
            .unwrap()
    })
    .await
}

fn switch_to(protocol: &str) -> Request<Body> {
    let request = Request::builder().uri("/socket").header("host", "a.example");
    let request = request.header("connection", "Upgrade").header("upgrade", protocol);
    request.body(empty()).unwrap()
}

#[tokio::test]
async fn websockets_pass_both_ways() {
    let upstream = echo().await;
    let proxy = proxy(&[upstream.address]);
    let mut client = Client::connect(proxy.address()).await;
    let mut response = client.send(switch_to("websocket")).await;
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(response.headers()["upgrade"], "websocket");
    let mut socket = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    for word in ["one", "two", "three"] {
        socket.write_all(word.as_bytes()).await.unwrap();
        let mut back = vec![0; word.len()];
        socket.read_exact(&mut back).await.unwrap();
        assert_eq!(back, word.as_bytes());
    }
    socket.shutdown().await.unwrap();
    assert_eq!(socket.read(&mut [0; 1]).await.unwrap(), 0, "the end passes, too");
}

#[tokio::test]
async fn other_protocols_are_not_offered_to_the_upstream() {
    let upstream = echo().await;
    let proxy = proxy(&[upstream.address]);
    for protocol in ["h2c", "websocket, h2c", "other"] {
        let mut client = Client::connect(proxy.address()).await;
        assert_eq!(said(client.send(switch_to(protocol)).await).await, "plain", "{protocol}");
    }
}

#[tokio::test]
async fn an_upstream_that_does_not_switch_answers() {
    let upstream = Upstream::saying("no").await;
    let proxy = proxy(&[upstream.address]);
    let mut client = Client::connect(proxy.address()).await;
    let response = client.send(switch_to("websocket")).await;
    assert_eq!((response.status(), said(response).await.as_str()), (StatusCode::OK, "no"));
}
