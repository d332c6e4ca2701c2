//! Asking a listener, as a client.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper::{HeaderMap, Request, StatusCode, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// When a reading was taken, in seconds on the server's own clock.
pub(super) const AT: &str = "seawall-at";

/// What runs there, percent-encoded.
pub(super) const ABOUT: &str = "seawall-about";

/// How long an answer may take. A server that is overloaded is slow to answer, and not gone.
const PATIENCE: Duration = Duration::from_secs(3);

/// No process has so many metrics that their text is longer.
const BYTES_MAX: usize = 16 << 20;

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    headers: HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        Some(self.headers.get(name)?.to_str().ok()?.to_owned())
    }
}

/// Gets `path` of the server at `authority`, `HOST:PORT`. Each time anew, so that it does not
/// matter whether the server is still the same.
///
/// # Errors
///
/// If it cannot be reached, takes too long, or answers otherwise than with what was asked for.
pub(crate) async fn get(authority: &str, path: &str) -> Result<Reply> {
    let reply = tokio::time::timeout(PATIENCE, exchange(authority, path)).await;
    reply.with_context(|| format!("{authority} does not answer within {PATIENCE:?}"))?
}

async fn exchange(authority: &str, path: &str) -> Result<Reply> {
    let stream = TcpStream::connect(authority)
        .await
        .with_context(|| format!("cannot connect to {authority}"))?;
    let (mut send, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let request =
        Request::get(path).header(HOST, authority).body(Empty::<Bytes>::new()).context("a path")?;
    let reply = send.send_request(request).await.context("no answer")?;
    let (parts, body) = reply.into_parts();
    let body = Limited::new(body, BYTES_MAX).collect().await;
    driver.abort();
    let body = body.map_err(|error| anyhow::anyhow!("the answer is not complete: {error}"))?;
    let body = String::from_utf8(body.to_bytes().into()).context("the answer is not UTF-8")?;
    if parts.status != StatusCode::OK {
        let said: String = body.lines().next().unwrap_or_default().chars().take(200).collect();
        bail!("{authority}{path} answers {}: {said}", parts.status);
    }
    Ok(Reply { headers: parts.headers, body })
}
