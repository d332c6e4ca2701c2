//! What passes through, and how.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body as _, Frame};
use hyper::header::HeaderMap;
use hyper::{Response, StatusCode, Version};
use seawall_proxy::Proxy;
use seawall_proxy::config::{Forwarded, Protocol};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::support::*;

/// Answers with the request's head and body in words.
async fn mirror() -> Upstream {
    Upstream::start(|request| async {
        let (parts, body) = request.into_parts();
        let mut words = format!("{} {} {:?}\n", parts.method, parts.uri, parts.version);
        for (name, value) in &parts.headers {
            words += &format!("{name}: {}\n", value.to_str().unwrap());
        }
        let body = body.collect().await.unwrap().to_bytes();
        words += &format!("{}\n", String::from_utf8_lossy(&body));
        Response::new(crate::support::body(Full::new(Bytes::from(words))))
    })
    .await
}

fn lines(words: &str, name: &str) -> Vec<String> {
    let prefix = format!("{name}: ");
    words.lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_request_arrives_as_it_was_and_so_does_its_response() {
    let upstream = mirror().await;
    let proxy = proxy(&[upstream.address]);
    let mut client = Client::connect(proxy.address()).await;
    let mut request = post("/a/b?c=d%20e", text("the body"));
    request.headers_mut().insert("x-own", "kept".parse().unwrap());
    let response = client.send(request).await;
    assert_eq!(response.status(), 200);
    let words = said(response).await;
    assert!(words.starts_with("POST /a/b?c=d%20e HTTP/1.1\n"), "{words}");
    assert!(words.ends_with("\nthe body\n"), "{words}");
    assert_eq!(lines(&words, "host"), ["a.example"]);
    assert_eq!(lines(&words, "x-own"), ["kept"]);
    assert_eq!(lines(&words, "content-length"), ["8"]);
}

#[tokio::test]
async fn connections_are_used_again_on_both_sides() {
    let upstream = Upstream::saying("hello").await;
    let proxy = proxy(&[upstream.address]);
    let mut client = Client::connect(proxy.address()).await;
    for _ in 0..50 {
        assert_eq!(said(client.get("/").await).await, "hello");
    }
    assert_eq!((upstream.connections(), upstream.requests()), (1, 50));
}

#[tokio::test]
async fn each_side_has_its_own_version() {
    let upstream = mirror().await;
    for (protocol, version) in [(Protocol::Http1, "HTTP/1.1"), (Protocol::Http2, "HTTP/2.0")] {
        let mut config = config(&[upstream.address]);
        crate::support::upstream(&mut config).protocol = protocol;
        let proxy = Proxy::start(config).unwrap();
        let words = said(Client::connect(proxy.address()).await.get("/x").await).await;
        assert!(words.lines().next().unwrap().ends_with(version), "{words}");

        let mut client = http2(proxy.address()).await;
        let request = hyper::Request::post("http://a.example/x?y")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .body(text("body"))
            .unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.version(), Version::HTTP_2);
        let words = said(response).await;
        assert!(words.lines().next().unwrap().ends_with(version), "{words}");
        assert!(words.contains("/x?y") && words.ends_with("\nbody\n"), "{words}");
        if protocol == Protocol::Http1 {
            assert_eq!(lines(&words, "host"), ["a.example"]);
            assert_eq!(lines(&words, "cookie"), ["a=1; b=2"], "one field in HTTP/1.1");
        } else {
            assert!(words.contains("http://a.example/x?y"), "{words}");
            assert_eq!(lines(&words, "host"), [""; 0]);
        }
    }
}

#[tokio::test]
async fn what_concerns_one_connection_stays_there() {
    let upstream = Upstream::start(|request| async move {
        let names: Vec<_> = request.headers().keys().map(ToString::to_string).collect();
        Response::builder()
            .header("connection", "x-hop")
            .header("x-hop", "1")
            .header("keep-alive", "timeout=5")
            .header("proxy-authenticate", "Basic")
            .header("x-names", names.join(","))
            .body(text("hello"))
            .unwrap()
    })
    .await;
    let proxy = proxy(&[upstream.address]);
    let mut request = get("/");
    let fields = [
        ("connection", "x-mine, keep-alive"),
        ("x-mine", "1"),
        ("keep-alive", "timeout=1"),
        ("proxy-connection", "keep-alive"),
        ("proxy-authorization", "Basic eDp5"),
        ("te", "gzip"),
        ("upgrade", "h2c"),
        ("x-stays", "1"),
    ];
    for (name, value) in fields {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let response = Client::connect(proxy.address()).await.send(request).await;
    let names = response.headers()["x-names"].to_str().unwrap().to_owned();
    for (name, _) in &fields[..7] {
        assert!(!names.split(',').any(|other| other == *name), "{name} in {names}");
    }
    assert!(names.contains("x-stays"));
    for name in ["connection", "x-hop", "keep-alive", "proxy-authenticate"] {
        assert!(!response.headers().contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn upstreams_are_told_who_asked() {
    let upstream = mirror().await;
    for (forwarded, via) in
        [(Forwarded::Append, false), (Forwarded::Replace, true), (Forwarded::Off, false)]
    {
        let mut config = config(&[upstream.address]);
        (config.forwarded, config.via) = (forwarded, via);
        let proxy = Proxy::start(config).unwrap();
        let mut request = get("/");
        request.headers_mut().insert("x-forwarded-for", "10.1.2.3".parse().unwrap());
        request.headers_mut().insert("x-forwarded-proto", "https".parse().unwrap());
        let words = said(Client::connect(proxy.address()).await.send(request).await).await;
        let told = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"]
            .map(|name| lines(&words, name).join(", "));
        let expected = match forwarded {
            Forwarded::Append => ["10.1.2.3, 127.0.0.1", "https", "a.example"],
            Forwarded::Replace => ["127.0.0.1", "http", "a.example"],
            Forwarded::Off => ["10.1.2.3", "https", ""],
        };
        assert_eq!(told, expected, "{forwarded:?}");
        let expected: &[&str] = if via { &["1.1 seawall"] } else { &[] };
        assert_eq!(lines(&words, "via"), expected);
    }
}

#[tokio::test]
async fn bodies_stream_both_ways_at_once() {
    // Each piece is answered before the next is sent: nothing may be gathered anywhere.
    let upstream =
        Upstream::start(|request| async { Response::new(body(request.into_body())) }).await;
    for is_http2 in [false, true] {
        let mut config = config(&[upstream.address]);
        if is_http2 {
            crate::support::upstream(&mut config).protocol = Protocol::Http2;
        }
        let proxy = Proxy::start(config).unwrap();
        let (pieces, stream) = mpsc::channel::<Result<Frame<Bytes>, std::io::Error>>(1);
        let request = hyper::Request::post("http://a.example/")
            .header("host", "a.example")
            .body(body(StreamBody::new(ReceiverStream::new(stream))))
            .unwrap();
        let response = if is_http2 {
            http2(proxy.address()).await.send_request(request).await.unwrap()
        } else {
            Client::connect(proxy.address()).await.send(request).await
        };
        let mut echo = response.into_body();
        for number in 0..20_u8 {
            pieces.send(Ok(Frame::data(Bytes::from(vec![number; 1000])))).await.unwrap();
            let mut seen = 0;
            while seen < 1000 {
                let frame = echo.frame().await.unwrap().unwrap().into_data().unwrap();
                assert!(frame.iter().all(|byte| *byte == number));
                seen += frame.len();
            }
        }
        drop(pieces);
        let rest = echo.collect().await.unwrap();
        assert!(rest.to_bytes().is_empty());
    }
}

#[tokio::test]
async fn who_takes_nothing_slows_the_upstream_down() {
    // The upstream has a permit for each piece that it could hand on.
    let sent = Arc::new(Semaphore::new(0));
    let counter = sent.clone();
    let upstream = Upstream::start(move |_| {
        let counter = counter.clone();
        async move {
            let (pieces, stream) = mpsc::channel::<Result<Frame<Bytes>, std::io::Error>>(1);
            tokio::spawn(async move {
                let piece = Bytes::from(vec![0; 64 * 1024]);
                while pieces.send(Ok(Frame::data(piece.clone()))).await.is_ok() {
                    counter.add_permits(1);
                }
            });
            Response::new(body(StreamBody::new(ReceiverStream::new(stream))))
        }
    })
    .await;
    let proxy = proxy(&[upstream.address]);
    let response = Client::connect(proxy.address()).await.get("/").await;
    // What buffers of sockets hold may pass, and then nothing more.
    let mut before = usize::MAX;
    until("the upstream waits", async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = sent.available_permits();
        let stands = now == before && now > 0;
        before = now;
        stands
    })
    .await;
    assert!(before < 1000, "{before} pieces of 64 KiB");
    let mut body = response.into_body();
    for _ in 0..before + 100 {
        body.frame().await.unwrap().unwrap();
    }
    until("it goes on", async || sent.available_permits() > before).await;
}

#[tokio::test]
async fn trailers_pass() {
    let upstream = Upstream::start(|request| async {
        let collected = request.into_body().collect().await.unwrap();
        let sum = collected.trailers().map(|trailers| trailers["x-sum"].clone());
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", sum.unwrap());
        let frames =
            [Ok::<_, std::io::Error>(Frame::data("x".into())), Ok(Frame::trailers(trailers))];
        Response::builder()
            .header("trailer", "x-sum")
            .body(body(StreamBody::new(tokio_stream::iter(frames))))
            .unwrap()
    })
    .await;
    for (is_http2, protocol) in [
        (true, Protocol::Http2),
        (true, Protocol::Http1),
        (false, Protocol::Http2),
        (false, Protocol::Http1),
    ] {
        let mut config = config(&[upstream.address]);
        crate::support::upstream(&mut config).protocol = protocol;
        let proxy = Proxy::start(config).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "17".parse().unwrap());
        let frames =
            [Ok::<_, std::io::Error>(Frame::data("y".into())), Ok(Frame::trailers(trailers))];
        let request = hyper::Request::post("http://a.example/")
            .header("host", "a.example")
            .header("te", "trailers")
            .header("trailer", "x-sum")
            .body(body(StreamBody::new(tokio_stream::iter(frames))))
            .unwrap();
        let response = if is_http2 {
            http2(proxy.address()).await.send_request(request).await.unwrap()
        } else {
            Client::connect(proxy.address()).await.send(request).await
        };
        let collected = response.into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["x-sum"], "17", "{is_http2} {protocol:?}");
    }
}

#[tokio::test]
async fn responses_without_a_body_have_none() {
    let upstream = Upstream::start(|request| async move {
        let status = if request.uri() == "/304" { 304 } else { 204 };
        let status = if request.uri() == "/head" { 200 } else { status };
        let mut response = Response::builder().status(status);
        if status == 200 {
            response = response.header("content-length", "1234");
        }
        response.body(empty()).unwrap()
    })
    .await;
    let proxy = proxy(&[upstream.address]);
    let mut client = Client::connect(proxy.address()).await;
    let mut head = get("/head");
    *head.method_mut() = hyper::Method::HEAD;
    let response = client.send(head).await;
    assert_eq!(response.headers()["content-length"], "1234");
    assert!(response.body().is_end_stream());
    for (path, status) in [("/304", StatusCode::NOT_MODIFIED), ("/", StatusCode::NO_CONTENT)] {
        let response = client.get(path).await;
        assert_eq!(response.status(), status);
        assert_eq!(said(response).await, "");
    }
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn deadlines_shrink_on_the_way() {
    let upstream = Upstream::start(|request| async move {
        let told = |name| request.headers()[name].to_str().unwrap().to_owned();
        let told = format!("{} {}", told("grpc-timeout"), told("x-envoy-expected-rq-timeout-ms"));
        Response::new(body(Full::new(Bytes::from(told))))
    })
    .await;
    let proxy = proxy(&[upstream.address]);
    let mut request = get("/");
    request.headers_mut().insert("grpc-timeout", "90S".parse().unwrap());
    request.headers_mut().insert("x-envoy-expected-rq-timeout-ms", "60000".parse().unwrap());
    let told = said(Client::connect(proxy.address()).await.send(request).await).await;
    let (grpc, envoy) = told.split_once(' ').unwrap();
    let micros: u64 = grpc.strip_suffix('u').unwrap().parse().unwrap();
    assert!(micros < 60_000_000, "{told}: the least of both, less what has passed");
    assert!(envoy.parse::<u64>().unwrap() < 60_000, "{told}");
}

#[tokio::test]
async fn routes_send_requests_where_they_belong() {
    let (one, two) = (Upstream::saying("one").await, Upstream::saying("two").await);
    let file = format!(
        "listen = '127.0.0.1:0'\n\
         upstreams.one.replicas = ['http://{}']\n\
         upstreams.two.replicas = ['http://{}']\n\
         [[routes]]\npath = '/api'\nmethods = ['GET']\nupstream = 'two'\n\
         [[routes]]\nname = 'below'\nhost = '*.b.example'\nupstream = 'two'\n\
         [[routes]]\nname = 'a'\nhost = 'a.example'\nupstream = 'one'\n",
        one.address, two.address
    );
    let config = seawall_proxy::config::from_layers(Some(("a.toml", &file)), &[]).unwrap();
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    for (method, host, path, expected) in [
        ("GET", "a.example", "/api", "two"),
        ("GET", "a.example:80", "/api/x?y", "two"),
        ("POST", "a.example", "/api", "one"),
        ("GET", "A.example", "/apix", "one"),
        ("GET", "x.b.example", "/", "two"),
        ("GET", "b.example", "/", "no route takes this request\n"),
        ("GET", "xb.example", "/", "no route takes this request\n"),
    ] {
        let request = hyper::Request::builder().method(method).uri(path).header("host", host);
        let response = client.send(request.body(empty()).unwrap()).await;
        assert_eq!(said(response).await, expected, "{method} {host} {path}");
    }
}
