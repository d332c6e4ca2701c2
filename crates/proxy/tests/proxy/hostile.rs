//! What nobody should send, and who is slow or dies.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::{Response, StatusCode};
use seawall_proxy::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::support::*;

/// An upstream that says what requests it saw, each on one connection of its own.
async fn witness() -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let (tell, told) = mpsc::unbounded_channel();
    let address = raw(move |mut tcp, _| {
        let tell = tell.clone();
        async move {
            loop {
                let head = read_head(&mut tcp).await;
                if head.is_empty() {
                    return;
                }
                tell.send(head).unwrap();
                tcp.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            }
        }
    })
    .await;
    (address, told)
}

#[tokio::test]
async fn what_breaks_http_is_refused_and_reaches_nobody() {
    let (address, mut seen) = witness().await;
    let mut config = config(&[address]);
    config.limits.head_bytes = 8192;
    let proxy = Proxy::start(config).unwrap();
    let long = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(10_000));
    let many = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(200));
    for (bytes, status) in [
        ("nonsense\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nhost: a b\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nhost : a\r\n\r\n", "400"),
        ("GET http://u:p@a/ HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
        ("CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n", "405"),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd", "400"),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3, 4\r\n\r\nabcd", "400"),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +3\r\n\r\nabc", "400"),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, gzip\r\n\r\n", "400"),
        ("POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nhost: a\r\nx: a\r\n b\r\n\r\n", "400"),
        (&long, "431"),
        (&many, "431"),
    ] {
        let mut tcp = TcpStream::connect(proxy.address()).await.unwrap();
        tcp.write_all(bytes.as_bytes()).await.unwrap();
        let head = read_head(&mut tcp).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{bytes:?}: {head}");
    }
    assert!(seen.try_recv().is_err(), "nothing was passed on");
}

#[tokio::test]
async fn two_lengths_cannot_smuggle_a_request() {
    // Chunked counts (RFC 9112 §6.3), the other length is not passed on, and the connection ends.
    let (address, mut seen) = witness().await;
    let proxy = proxy(&[address]);
    for fields in [
        "content-length: 44\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 44\r\n",
    ] {
        let smuggled = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";
        let request = format!("POST /first HTTP/1.1\r\nhost: a\r\n{fields}\r\n0\r\n\r\n{smuggled}");
        let answer = talk(proxy.address(), request.as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
        let head = seen.recv().await.unwrap().to_ascii_lowercase();
        assert!(head.starts_with("post /first") && !head.contains("content-length: 44"), "{head}");
        // What follows for the witness is the body's end, and no request.
        while let Ok(next) = seen.try_recv() {
            assert_eq!(next, "0\r\n\r\n");
        }
    }
}

#[tokio::test]
async fn targets_are_passed_on_as_paths() {
    let (address, mut seen) = witness().await;
    let proxy = proxy(&[address]);
    for (target, method, line) in [
        ("http://b.example/x?y", "GET", "GET /x?y HTTP/1.1\r\n"),
        ("*", "OPTIONS", "OPTIONS * HTTP/1.1\r\n"),
        ("/a//b/../c", "GET", "GET /a//b/../c HTTP/1.1\r\n"),
    ] {
        let request =
            format!("{method} {target} HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n");
        talk(proxy.address(), request.as_bytes()).await;
        let head = seen.recv().await.unwrap();
        assert!(head.starts_with(line), "{head}");
        let host = if target.starts_with("http") { "b.example" } else { "a.example" };
        assert!(head.contains(&format!("host: {host}\r\n")), "{head}");
    }
}

#[tokio::test]
async fn a_client_that_expects_100_gets_it_when_its_body_is_wanted() {
    let upstream = Upstream::start(|request| async move {
        let expected = request.headers().contains_key("expect");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        assert!(!expected, "it is answered here");
        Response::new(crate::support::body(http_body_util::Full::new(body)))
    })
    .await;
    let proxy = proxy(&[upstream.address]);
    let mut tcp = TcpStream::connect(proxy.address()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";
    tcp.write_all(head.as_bytes()).await.unwrap();
    assert!(read_head(&mut tcp).await.starts_with("HTTP/1.1 100 "));
    tcp.write_all(b"body").await.unwrap();
    assert!(read_head(&mut tcp).await.starts_with("HTTP/1.1 200 "));
    let mut body = [0; 4];
    tcp.read_exact(&mut body).await.unwrap();
    assert_eq!(&body, b"body");
}

#[tokio::test]
async fn a_refused_client_that_expects_100_sends_no_body() {
    let mut config = config(&[nobody().await]);
    config.limits.body_bytes = Some(3);
    let proxy = Proxy::start(config).unwrap();
    let head = "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";
    let mut tcp = TcpStream::connect(proxy.address()).await.unwrap();
    tcp.write_all(head.as_bytes()).await.unwrap();
    assert!(read_head(&mut tcp).await.starts_with("HTTP/1.1 413 "));
}

#[tokio::test]
async fn a_body_that_grows_too_long_is_refused() {
    let upstream = Upstream::start(|request| async {
        let _ = request.into_body().collect().await;
        Response::new(text("all of it"))
    })
    .await;
    let mut config = config(&[upstream.address]);
    config.limits.body_bytes = Some(1000);
    let proxy = Proxy::start(config).unwrap();
    let frame = Frame::data(Bytes::from(vec![0; 600]));
    let frames = [Ok::<_, std::io::Error>(frame), Ok(Frame::data(Bytes::from(vec![0; 600])))];
    let content = body(StreamBody::new(tokio_stream::iter(frames)));
    let response = Client::connect(proxy.address()).await.send(post("/", content)).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_client_that_stalls_is_cut_off() {
    let upstream = Upstream::start(|request| async {
        let _ = request.into_body().collect().await;
        Response::new(text("all of it"))
    })
    .await;
    let mut config = config(&[upstream.address]);
    config.timeouts.stall = Duration::from_millis(50);
    config.timeouts.head = Duration::from_millis(50);
    let proxy = Proxy::start(config).unwrap();
    let in_the_head = talk(proxy.address(), b"GET / HTTP/1.1\r\nhost").await;
    assert!(!in_the_head.contains("200"), "{in_the_head}");
    assert_eq!(talk(proxy.address(), b"").await, "", "who says nothing at all");
    assert_eq!(talk(proxy.address(), b"PR").await, "", "who might speak HTTP/2");
    let head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc";
    let in_the_body = talk(proxy.address(), head).await;
    assert!(in_the_body.starts_with("HTTP/1.1 408 "), "{in_the_body}");
}

#[tokio::test]
async fn a_client_that_takes_nothing_does_not_keep_the_upstream() {
    let (ended, mut end) = mpsc::channel::<()>(1);
    let upstream = Upstream::start(move |_| {
        let ended = ended.clone();
        async move {
            let (pieces, stream) = mpsc::channel::<Result<Frame<Bytes>, std::io::Error>>(1);
            tokio::spawn(async move {
                let piece = Bytes::from(vec![0; 64 * 1024]);
                while pieces.send(Ok(Frame::data(piece.clone()))).await.is_ok() {}
                let _ = ended.send(()).await;
            });
            Response::new(body(StreamBody::new(ReceiverStream::new(stream))))
        }
    })
    .await;
    let mut config = config(&[upstream.address]);
    config.timeouts.stall = Duration::from_millis(50);
    let proxy = Proxy::start(config).unwrap();
    let mut tcp = TcpStream::connect(proxy.address()).await.unwrap();
    tcp.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    tokio::time::timeout(PATIENCE, end.recv()).await.expect("the upstream is let go");
}

#[tokio::test]
async fn a_client_that_leaves_ends_what_the_upstream_does_for_it() {
    let (ended, mut end) = mpsc::channel::<()>(1);
    let upstream = Upstream::start(move |_| {
        let ended = ended.clone();
        async move {
            /// Tells when it is dropped.
            struct Tell(mpsc::Sender<()>);
            impl Drop for Tell {
                fn drop(&mut self) {
                    let _ = self.0.try_send(());
                }
            }
            let _tell = Tell(ended);
            std::future::pending().await
        }
    })
    .await;
    let proxy = proxy(&[upstream.address]);
    let mut tcp = TcpStream::connect(proxy.address()).await.unwrap();
    tcp.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    until("the request is there", async || upstream.requests() == 1).await;
    drop(tcp);
    tokio::time::timeout(PATIENCE, end.recv()).await.expect("the upstream is told");
}

#[tokio::test]
async fn an_upstream_that_dies_in_its_response_breaks_the_clients() {
    let address = raw(|mut tcp, number| async move {
        read_head(&mut tcp).await;
        let head: &[u8] = match number {
            0 => b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
            _ => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        };
        tcp.write_all(head).await.unwrap();
    })
    .await;
    let proxy = proxy(&[address]);
    for _ in 0..2 {
        let response = Client::connect(proxy.address()).await.get("/").await;
        assert_eq!(response.status(), 200, "the head had passed");
        assert!(response.into_body().collect().await.is_err(), "it must not look whole");
    }
}

#[tokio::test]
async fn an_upstream_that_speaks_no_http_is_a_502() {
    for answer in ["nonsense", "HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\n", ""] {
        let address = raw(move |mut tcp, _| async move {
            read_head(&mut tcp).await;
            let _ = tcp.write_all(answer.as_bytes()).await;
        })
        .await;
        let proxy = proxy(&[address]);
        let response = Client::connect(proxy.address()).await.send(post("/", empty())).await;
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY, "{answer:?}");
    }
}

#[tokio::test]
async fn an_upstream_that_does_not_answer_is_a_504() {
    let upstream = Upstream::start(|_| std::future::pending()).await;
    let mut config = config(&[upstream.address]);
    config.timeouts.response = Duration::from_millis(20);
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    let response = client.get("/").await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(response.headers()["proxy-status"], "seawall; error=http_response_timeout");
    let mut request = get("/");
    request.headers_mut().insert("x-envoy-expected-rq-timeout-ms", "5".parse().unwrap());
    let response = client.send(request).await;
    assert_eq!(said(response).await, "the request's deadline has passed\n");
}

#[tokio::test]
async fn a_slow_upload_is_not_held_against_the_upstream() {
    let upstream = Upstream::start(|request| async {
        let _ = request.into_body().collect().await;
        Response::new(text("all of it"))
    })
    .await;
    let mut config = config(&[upstream.address]);
    config.timeouts.response = Duration::from_millis(100);
    let proxy = Proxy::start(config).unwrap();
    let (pieces, stream) = mpsc::channel::<Result<Frame<Bytes>, std::io::Error>>(1);
    tokio::spawn(async move {
        for _ in 0..20 {
            let _ = pieces.send(Ok(Frame::data(Bytes::from_static(b"x")))).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let content = body(StreamBody::new(ReceiverStream::new(stream)));
    let response = Client::connect(proxy.address()).await.send(post("/", content)).await;
    assert_eq!(said(response).await, "all of it");
}

#[tokio::test]
async fn no_more_connections_are_open_than_is_allowed() {
    let upstream = Upstream::saying("hello").await;
    let mut config = config(&[upstream.address]);
    config.limits.connections = 1;
    let proxy = Proxy::start(config).unwrap();
    let mut first = Client::connect(proxy.address()).await;
    assert_eq!(said(first.get("/").await).await, "hello");
    let second = tokio::spawn({
        let address = proxy.address();
        async move { said(Client::connect(address).await.get("/").await).await }
    });
    assert_eq!(said(first.get("/").await).await, "hello");
    assert!(!second.is_finished(), "it waits");
    drop(first);
    assert_eq!(tokio::time::timeout(PATIENCE, second).await.unwrap().unwrap(), "hello");
}
