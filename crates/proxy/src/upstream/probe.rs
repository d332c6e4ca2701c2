//! Asks replicas whether they are well.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::client::conn::{http1, http2};
use hyper::header::{CONTENT_TYPE, HOST, TE, USER_AGENT};
use hyper::{Method, Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::connect::ConnectError;
use super::replica::Replica;
use crate::config::{self, Probe};

/// Bytes of an answer that are looked at.
const ANSWER_MAX: usize = 64 * 1024;

/// Why a replica counts as not well, in words.
type Problem = String;

/// Begins to ask each replica, if it is to be asked at all.
pub(super) fn start(
    config: &config::Health,
    replicas: &[Arc<Replica>],
    runtime: &Handle,
) -> Vec<AbortHandle> {
    if config.probe == Probe::None {
        replicas.iter().for_each(|replica| _ = replica.health.set_up(true));
        return Vec::new();
    }
    let watch = |replica: &Arc<Replica>| {
        runtime.spawn(watch(config.clone(), replica.clone())).abort_handle()
    };
    replicas.iter().map(watch).collect()
}

async fn watch(config: config::Health, replica: Arc<Replica>) {
    let mut ticks = interval(config.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut is_first, mut in_a_row, mut was_well) = (true, 0, true);
    loop {
        ticks.tick().await;
        let answer = replica.probe(&config).await;
        let is_well = answer.is_ok();
        in_a_row = if is_well == was_well { in_a_row + 1 } else { 1 };
        was_well = is_well;
        let enough = if is_well { config.rise } else { config.fall };
        if !is_first && in_a_row < enough {
            continue;
        }
        is_first = false;
        if replica.health.set_up(is_well) {
            match answer {
                // As loud as that it is not: who was told of that wants to know that it is over.
                Ok(()) => tracing::warn!("{replica} is well again"),
                Err(problem) => tracing::warn!("{replica} is not well: {problem}"),
            }
        }
    }
}

impl Replica {
    /// Asks once, if it is to be asked at all.
    pub(crate) async fn probe(&self, config: &config::Health) -> Result<(), Problem> {
        let asked = timeout(config.timeout, ask(&config.probe, self, config.timeout)).await;
        let late = || format!("no answer {}within {:?}", to(&config.probe), config.timeout);
        asked.unwrap_or_else(|_| Err(late()))
    }
}

/// What an answer is to.
fn to(probe: &Probe) -> String {
    match probe {
        Probe::Http(path) => format!("to GET {path} "),
        Probe::Grpc(_) => format!("to {CHECK} "),
        Probe::None | Probe::Tcp => String::new(),
    }
}

async fn ask(probe: &Probe, replica: &Replica, patience: Duration) -> Result<(), Problem> {
    match probe {
        Probe::None => Ok(()),
        Probe::Tcp => replica
            .dialer
            .dial(false, patience)
            .await
            .map(|_| ())
            .map_err(|error| error.to_string()),
        Probe::Http(path) => http(replica, path, patience).await,
        Probe::Grpc(service) => grpc(replica, service, patience).await,
    }
}

async fn http(replica: &Replica, path: &str, patience: Duration) -> Result<(), Problem> {
    let (stream, is_http2) =
        replica.dialer.dial(false, patience).await.map_err(|error| error.to_string())?;
    let is_http2 = is_http2 || replica.protocol() == config::Protocol::Http2;
    let request = Request::builder().uri(uri(replica, path, is_http2)).header(USER_AGENT, AGENT);
    let status = if is_http2 {
        let request = request.body(Empty::<Bytes>::new()).map_err(text)?;
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(text)?;
        let _connection = Task::spawn(async move { _ = connection.await });
        sender.send_request(request).await.map_err(text)?.status()
    } else {
        let request = request.header(HOST, replica.dialer.authority());
        let request = request.body(Empty::<Bytes>::new()).map_err(text)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
        let _connection = Task::spawn(async move { _ = connection.await });
        sender.send_request(request).await.map_err(text)?.status()
    };
    let status = status.as_u16();
    if (200..400).contains(&status) { Ok(()) } else { Err(format!("GET {path} said {status}")) }
}

/// The method that tells how a service of gRPC is.
const CHECK: &str = "/grpc.health.v1.Health/Check";

/// The standard health service of gRPC (`grpc.health.v1`).
async fn grpc(replica: &Replica, service: &str, patience: Duration) -> Result<(), Problem> {
    let (stream, _) = replica
        .dialer
        .dial(false, patience)
        .await
        .map_err(|error: ConnectError| error.to_string())?;
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(uri(replica, CHECK, true))
        .header(CONTENT_TYPE, "application/grpc")
        .header(USER_AGENT, AGENT)
        .header(TE, "trailers")
        .body(Full::new(check_request(service)))
        .map_err(text)?;
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(text)?;
    let _connection = Task::spawn(async move { _ = connection.await });
    let response = sender.send_request(request).await.map_err(text)?;
    let body = Limited::new(response.into_body(), ANSWER_MAX);
    let answer = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
    if is_serving(&answer) { Ok(()) } else { Err(format!("{CHECK} did not say SERVING")) }
}

const AGENT: &str = concat!("seawall-proxy/", env!("CARGO_PKG_VERSION"));

/// A length-prefixed `HealthCheckRequest { string service = 1; }`.
fn check_request(service: &str) -> Bytes {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        let mut len = service.len();
        while len >= 0x80 {
            message.push(len as u8 | 0x80);
            len >>= 7;
        }
        message.push(len as u8);
        message.extend_from_slice(service.as_bytes());
    }
    let mut frame = vec![0];
    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend_from_slice(&message);
    frame.into()
}

/// Whether a length-prefixed `HealthCheckResponse { ServingStatus status = 1; }` says SERVING, 1.
fn is_serving(frame: &[u8]) -> bool {
    matches!(frame, [0, 0, 0, 0, 2, 0x08, 1])
}

fn uri(replica: &Replica, path: &str, is_absolute: bool) -> String {
    if is_absolute { format!("{}{path}", replica.dialer.endpoint()) } else { path.to_owned() }
}

fn text(error: impl std::fmt::Display) -> Problem {
    error.to_string()
}

/// A task that ends with what it is for.
struct Task(AbortHandle);

impl Task {
    fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_checks_are_protobuf() {
        assert_eq!(&check_request("")[..], [0, 0, 0, 0, 0]);
        assert_eq!(&check_request("ab")[..], [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        let long = "s".repeat(300);
        assert_eq!(&check_request(&long)[5..8], [0x0a, 0xac, 2]);
        assert!(is_serving(&[0, 0, 0, 0, 2, 8, 1]) && !is_serving(&[0, 0, 0, 0, 2, 8, 2]));
        assert!(!is_serving(&[]));
    }
}
