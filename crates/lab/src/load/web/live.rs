//! The generator against servers of both protocols, in this process.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use seawall_measure::{Figures, Process, Rates};
use tokio::net::TcpListener;

use super::{Protocol, Requests, Target};
use crate::load::engine::{self, Offer, Run};
use crate::load::workload::Workload;

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// Answers by path: 200, 503, 500, or nothing at all.
async fn http(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let deadline = request.headers().get("seawall").is_some();
    let status = match request.uri().path() {
        "/good" if deadline => StatusCode::OK,
        "/refused" => StatusCode::SERVICE_UNAVAILABLE,
        "/silent" => std::future::pending().await,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = Response::new(Full::new(Bytes::from_static(b"x")).boxed_unsync());
    *response.status_mut() = status;
    Ok(response)
}

/// The same of gRPC.
async fn grpc(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let deadline = request.headers().get("grpc-timeout").is_some();
    let code = match request.uri().path() {
        "/good" if deadline => "0",
        "/refused" => "14",
        "/silent" => std::future::pending().await,
        _ => "13",
    };
    let trailers = HeaderMap::from_iter([(
        hyper::header::HeaderName::from_static("grpc-status"),
        HeaderValue::from_static(code),
    )]);
    let body = Full::new(Bytes::from_static(b"\0\0\0\0\0"));
    Ok(Response::new(body.with_trailers(async { Some(Ok(trailers)) }).boxed_unsync()))
}

/// Starts a server on a thread of its own, for as long as the tests run.
fn server(protocol: Protocol) -> SocketAddr {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        engine::runtime().unwrap().block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            loop {
                let stream = TokioIo::new(listener.accept().await.unwrap().0);
                tokio::spawn(async move {
                    // How connections end is for the client to tell.
                    _ = match protocol {
                        Protocol::Http => {
                            let server = hyper::server::conn::http1::Builder::new();
                            server.serve_connection(stream, service_fn(http)).await
                        }
                        Protocol::Grpc => {
                            let server =
                                hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                            server.serve_connection(stream, service_fn(grpc)).await
                        }
                    };
                });
            }
        });
    });
    address
}

fn run(protocol: Protocol, requests: &str, sleep: bool) -> Run {
    let ms = Duration::from_millis;
    let offer = Offer {
        servers: vec![server(protocol)],
        client: seawall_rpc::ClientConfig::default(),
        web: Some(Target { protocol, host: "localhost".into(), refusals: Vec::new() }),
        workload: Workload::Web(requests.parse::<Requests>().unwrap()),
        sessions: 4,
        retries: false,
        threads: 1,
        sleep,
        process: Process::Constant,
        rates: Rates::constant(400.0),
        warm_up: Duration::ZERO,
        time: ms(500),
        slo: Some(ms(10_000)),
        deadline: Some(ms(10_000)),
        budget: None,
        algorithm: None,
        seed: 1,
        linger: Some(ms(5_000)),
        violation: None,
    };
    engine::run(&offer, |_| {}).unwrap()
}

fn class<'a>(run: &'a Run, name: &str) -> &'a Figures {
    &run.summary.classes.iter().find(|class| class.name == name).unwrap().figures
}

#[test]
fn each_answer_is_counted_as_what_it_is() {
    let requests = "good:0.5:/good,refused:0.25:/refused,broken:0.25:/broken";
    for (protocol, name) in [(Protocol::Http, "HTTP/1.1"), (Protocol::Grpc, "gRPC")] {
        for sleep in [false, true] {
            let run = run(protocol, requests, sleep);
            let (good, refused, broken) =
                (class(&run, "good"), class(&run, "refused"), class(&run, "broken"));
            assert_eq!(run.algorithm, name);
            assert!(good.offered_count > 0 && good.goodput == good.offered, "{good:?}");
            assert_eq!((refused.server_drop_rate, refused.goodput), (1.0, 0.0));
            assert_eq!((broken.failed, broken.goodput), (broken.offered_count, 0.0));
            let failure = run.first_failure.unwrap();
            assert!(failure.contains("500") || failure.contains("13"), "{failure}");
        }
    }
}

#[test]
fn who_finds_no_connection_was_never_sent() {
    let ms = Duration::from_millis;
    let address = server(Protocol::Http);
    let target = Target { protocol: Protocol::Http, host: "x".into(), refusals: Vec::new() };
    let answers = engine::runtime().unwrap().block_on(async {
        let client = super::Client::open(address, &target, 1).await.unwrap();
        let call = |path: &str, left| client.call(0, path.into(), Bytes::new(), Some(left));
        // The only connection waits for an answer that does not come.
        let both = tokio::join!(call("/silent", ms(300)), call("/good", ms(100)));
        // It was closed, and another is opened in its place.
        (both, call("/good", ms(60_000)).await)
    });
    use super::Answer::{GivenUp, Served, Unsent};
    assert_eq!(answers, ((GivenUp, Unsent), Served));
}

#[test]
fn a_stream_that_is_given_up_leaves_the_connection_to_others() {
    let ms = Duration::from_millis;
    let address = server(Protocol::Grpc);
    let target = Target { protocol: Protocol::Grpc, host: "x".into(), refusals: Vec::new() };
    let answers = engine::runtime().unwrap().block_on(async {
        let client = super::Client::open(address, &target, 1).await.unwrap();
        let call = |path: &str, left| client.call(0, path.into(), Bytes::new(), Some(left));
        tokio::join!(call("/silent", ms(200)), call("/good", ms(60_000)))
    });
    assert_eq!(answers, (super::Answer::GivenUp, super::Answer::Served));
}

#[test]
fn that_nobody_listens_is_told() {
    let deserted = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = deserted.local_addr().unwrap();
    drop(deserted);
    let target = Target { protocol: Protocol::Http, host: "x".into(), refusals: Vec::new() };
    let opened = engine::runtime().unwrap().block_on(super::Client::open(address, &target, 1));
    assert!(format!("{:#}", opened.unwrap_err()).contains("cannot call 127.0.0.1"));
}
