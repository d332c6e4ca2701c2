//! What several tests need.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use seawall_control::admission;
use seawall_control::fields::{self, Reading};
use seawall_tower::server::Config;
use tokio::net::TcpStream;

/// So long, nothing of these tests takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A layer that lets all in, in its own time.
pub(crate) fn patient() -> Config {
    let admission = admission::Config::named("none");
    Config { admission, slo: LONG, ..Config::default() }
}

/// A connection that speaks HTTP/1.
pub(crate) async fn connect(server: SocketAddr) -> SendRequest<Empty<Bytes>> {
    let tcp = TcpStream::connect(server).await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(tcp)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) fn request(path: &str, headers: &[(&str, &str)]) -> Request<Empty<Bytes>> {
    let mut request = Request::builder().uri(path).header("host", "shop");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Empty::new()).unwrap()
}

/// The response to a GET by a connection of its own.
pub(crate) async fn get(
    server: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Response<String> {
    let mut connection = connect(server).await;
    let response = connection.send_request(request(path, headers)).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Response::from_parts(head, String::from_utf8(body.into()).unwrap())
}

/// The field of a response, if it has one.
pub(crate) fn field(headers: &HeaderMap) -> Option<fields::Response> {
    let lines = headers.get_all(fields::NAME);
    lines.iter().next()?;
    let read = fields::Response::read(lines.iter().map(http::HeaderValue::as_bytes));
    let Reading { fields, ignored: 0, malformed: false } = read else { panic!("{read:?}") };
    Some(fields)
}

/// Waits until something is so, which somebody else is about to bring about.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within(waiting).await;
}

/// What takes forever is a failure, and not a test that never ends.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("it ends")
}
