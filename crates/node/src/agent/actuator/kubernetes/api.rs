//! A connection to the API server, and what it says when it does not do what it is asked.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use seawall_control::config::duration;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time;
use tokio_rustls::TlsConnector;

use crate::agent::actuator::ActuatorError;

/// Bytes of an answer: a page of pods has less than a tenth of it.
const BODY_MAX: usize = 32 << 20;

/// Characters of a server's message that are kept.
const MESSAGE_MAX: usize = 400;

/// A wait that the server asks for is not longer than this for us.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// How the server is reached. It holds names of files only, so that it can be written down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Server {
    /// Where it is.
    pub url: String,
    /// The file with the authority that has signed its certificate.
    pub ca: PathBuf,
    /// The file with the token.
    pub token: PathBuf,
    /// How long it may take to answer.
    #[serde(with = "duration")]
    pub timeout: Duration,
}

/// Why a request was in vain.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum ApiError {
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the API server does not answer within {}", duration::format(*.0))]
    TimedOut(Duration),
    #[error("the API server says {code}: {message}{}", hint(*code, message))]
    Status { code: u16, message: String, retry_after: Option<Duration> },
    #[error("the API server's answer is not one: {0}")]
    Garbled(String),
    /// What this process needs itself.
    #[error("{0}")]
    Local(String),
}

fn hint(code: u16, message: &str) -> &'static str {
    match code {
        401 => "; its token is not known to the server",
        // Admission refuses with the same number: quotas, limits of the namespace.
        403 if message.contains(" cannot ") => {
            "; deploy/kubernetes/node.yaml has the role that the agent needs"
        }
        _ => "",
    }
}

impl ApiError {
    /// Whether the same request may succeed a little later.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut(_) => true,
            Self::Status { code, .. } => *code == 429 || *code >= 500,
            Self::Garbled(_) | Self::Local(_) => false,
        }
    }

    /// The server's number, if it answered with one.
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// How long the server wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "api_unreachable",
            Self::TimedOut(_) => "api_timeout",
            Self::Garbled(_) => "api_garbled",
            Self::Local(_) => "api_token",
            Self::Status { code, .. } => match code {
                401 => "api_unauthorized",
                403 => "api_forbidden",
                404 => "api_not_found",
                409 => "api_conflict",
                422 => "api_invalid",
                429 => "api_throttled",
                _ => "api_failed",
            },
        }
    }
}

impl From<ApiError> for ActuatorError {
    fn from(error: ApiError) -> Self {
        Self::Api { kind: error.word(), message: error.to_string() }
    }
}

/// What the server says of a failure (`Status` of `meta/v1`).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Failure {
    message: String,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: u64,
}

impl Server {
    /// Whether it is an address that can be used.
    pub(super) fn check(url: &str) -> Result<(), String> {
        parse(url).map(drop).map_err(str::to_owned)
    }
}

/// Host, port and the path before all others.
fn parse(url: &str) -> Result<(String, u16, String), &'static str> {
    let wrong = "write https://HOST:PORT";
    let uri: Uri = url.parse().map_err(|_| wrong)?;
    if uri.scheme_str() != Some("https") {
        return Err("a token goes over TLS only: write https://HOST:PORT");
    }
    if uri.query().is_some() {
        return Err(wrong);
    }
    // It is written down and shown.
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("it must hold no user and no password: write https://HOST:PORT");
    }
    let host = uri.host().filter(|host| !host.is_empty()).ok_or(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok((host, uri.port_u16().unwrap_or(443), uri.path().trim_end_matches('/').to_owned()))
}

/// One connection, which is made again when it is lost.
#[derive(Debug)]
pub(super) struct Client {
    server: Server,
    open: Option<SendRequest<Full<Bytes>>>,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Path and query.
    pub(super) path: String,
    /// What kind of body, and the body.
    pub(super) body: Option<(&'static str, Vec<u8>)>,
}

impl Call {
    pub(super) fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: None }
    }
}

impl Client {
    pub(super) fn new(server: Server) -> Self {
        Self { server, open: None }
    }

    /// Asks once, and a second time if the connection had been closed meanwhile, or the token been
    /// rotated. All that is asked for can be asked for twice.
    pub(super) async fn call(&mut self, call: &Call) -> Result<Bytes, ApiError> {
        let had_one = self.open.as_ref().is_some_and(|open| !open.is_closed());
        let token = self.token()?;
        match self.call_once(call, &token).await {
            Err(ApiError::Unreachable(_)) if had_one => self.call_once(call, &token).await,
            Err(error) if error.code() == Some(401) => {
                let newer = self.token()?;
                if newer == token {
                    return Err(error);
                }
                self.call_once(call, &newer).await
            }
            answer => answer,
        }
    }

    async fn call_once(&mut self, call: &Call, token: &str) -> Result<Bytes, ApiError> {
        let timeout = self.server.timeout;
        let answer = time::timeout(timeout, self.exchange(call, token)).await;
        let answer = answer.unwrap_or(Err(ApiError::TimedOut(timeout)));
        if matches!(answer, Err(ApiError::Unreachable(_) | ApiError::TimedOut(_))) {
            // Its answer may still come, to a question that nobody asks any more.
            self.open = None;
        }
        answer
    }

    async fn exchange(&mut self, call: &Call, token: &str) -> Result<Bytes, ApiError> {
        let (host, port, before) =
            parse(&self.server.url).map_err(|problem| ApiError::Local(problem.to_owned()))?;
        let mut sender = match self.open.take() {
            Some(open) if !open.is_closed() => open,
            _ => self.connect(&host, port).await?,
        };
        sender.ready().await.map_err(|error| lost(&error))?;
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{before}{}", call.path))
            .header(HOST, authority(&host, port))
            .header(AUTHORIZATION, secret(token)?)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("seawall-node/", env!("CARGO_PKG_VERSION")));
        let mut body = Bytes::new();
        if let Some((kind, bytes)) = &call.body {
            request = request.header(CONTENT_TYPE, *kind);
            body = bytes.clone().into();
        }
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| ApiError::Local(error.to_string()))?;
        let response = sender.send_request(request).await.map_err(|error| lost(&error))?;
        let (status, after) = (response.status(), response.headers().get(RETRY_AFTER).cloned());
        let body = Limited::new(response.into_body(), BODY_MAX).collect().await;
        let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
            Ok(error) => lost(&error),
            Err(_) => ApiError::Garbled(format!("it has more than {BODY_MAX} bytes")),
        })?;
        self.open = Some(sender);
        judge(status, after.as_ref(), body.to_bytes())
    }

    async fn connect(&self, host: &str, port: u16) -> Result<SendRequest<Full<Bytes>>, ApiError> {
        let unreachable = |what: &str, error: &dyn std::fmt::Display| {
            ApiError::Unreachable(format!("{what} {}: {error}", authority(host, port)))
        };
        // Read anew for each connection: authorities are replaced, too.
        let config = self.tls()?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| ApiError::Local(format!("{host}: {error}")))?;
        let tcp = TcpStream::connect((host, port)).await;
        let tcp = tcp.map_err(|error| unreachable("no connection to", &error))?;
        let _ = tcp.set_nodelay(true);
        let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
        let tls = tls.map_err(|error| unreachable("no TLS with", &error))?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(tls)).await.map_err(|error| lost(&error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the API server ended");
            }
        });
        Ok(sender)
    }

    fn tls(&self) -> Result<ClientConfig, ApiError> {
        let local =
            |problem: String| ApiError::Local(format!("{}: {problem}", self.server.ca.display()));
        let mut roots = RootCertStore::empty();
        let found = CertificateDer::pem_file_iter(&self.server.ca);
        for one in found.map_err(|error| local(error.to_string()))? {
            let added = one.map_err(|error| error.to_string());
            let added = added.and_then(|one| roots.add(one).map_err(|error| error.to_string()));
            added.map_err(local)?;
        }
        if roots.is_empty() {
            return Err(local("it has no certificate".to_owned()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| local(error.to_string()))?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn token(&self) -> Result<String, ApiError> {
        let path = &self.server.token;
        let text = fs::read_to_string(path)
            .map_err(|error| ApiError::Local(format!("no token in {}: {error}", path.display())))?;
        Ok(text.trim().to_owned())
    }
}

fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn secret(token: &str) -> Result<HeaderValue, ApiError> {
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value =
        value.map_err(|_| ApiError::Local("the token has characters of no token".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn lost(error: &hyper::Error) -> ApiError {
    if error.is_parse() {
        ApiError::Garbled(error.to_string())
    } else {
        ApiError::Unreachable(format!("the connection was lost: {error}"))
    }
}

fn judge(status: StatusCode, after: Option<&HeaderValue>, body: Bytes) -> Result<Bytes, ApiError> {
    if status.is_success() {
        return Ok(body);
    }
    let failure: Failure = serde_json::from_slice(&body).unwrap_or_default();
    let message = match failure.message.as_str() {
        // A proxy in between answers in its own words.
        "" => plain(&String::from_utf8_lossy(&body[..body.len().min(MESSAGE_MAX)])),
        message => plain(message),
    };
    let after = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
    let after = after.or(failure.details.map(|details| details.retry_after_seconds));
    let after = after.filter(|seconds| *seconds > 0).map(Duration::from_secs);
    let retry_after = after.map(|after| after.min(RETRY_AFTER_MAX));
    Err(ApiError::Status { code: status.as_u16(), message, retry_after })
}

/// One line of bounded length, whatever a server sends.
pub(super) fn plain(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(MESSAGE_MAX).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parsed = |url| parse(url).map(|(host, port, path)| format!("{host} {port} {path}"));
        assert_eq!(parsed("https://10.0.0.1:6443").as_deref(), Ok("10.0.0.1 6443 "));
        assert_eq!(parsed("https://api.example/k8s/").as_deref(), Ok("api.example 443 /k8s"));
        assert_eq!(parsed("https://[fd00::1]:6443").as_deref(), Ok("fd00::1 6443 "));
        let wrong = ["http://10.0.0.1", "10.0.0.1:6443", "", "https://", "https://a/?b", "/x"];
        for wrong in wrong.into_iter().chain(["https://me:secret@10.0.0.1:6443"]) {
            assert!(parsed(wrong).unwrap_err().contains("https://HOST:PORT"), "{wrong}");
        }
        assert_eq!(authority("fd00::1", 443), "[fd00::1]:443");
    }

    #[test]
    fn failures_are_told_in_the_servers_words() {
        // As Kubernetes 1.36 answers.
        let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
            "message":"pods \"web\" is forbidden: User \"nobody\" cannot patch it",
            "reason":"Forbidden","details":{"name":"web","kind":"pods"},"code":403}"#;
        let error = judge(StatusCode::FORBIDDEN, None, body.into()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("403: pods \"web\" is forbidden"), "{text}");
        assert!(text.contains("deploy/kubernetes/node.yaml"), "{text}");
        assert!(!error.is_transient());
        assert_eq!(error.word(), "api_forbidden");

        let error = judge(StatusCode::BAD_GATEWAY, None, "<html>\n\u{7}".into()).unwrap_err();
        assert_eq!(error.to_string(), "the API server says 502: <html>");
        assert!(error.is_transient());
    }

    #[test]
    fn a_wait_that_the_server_asks_for_is_bounded() {
        let wait = |header: &str, body: &'static str| {
            let header = HeaderValue::from_str(header).unwrap();
            let busy = StatusCode::TOO_MANY_REQUESTS;
            judge(busy, Some(&header), body.into()).unwrap_err().retry_after()
        };
        assert_eq!(wait("2", ""), Some(Duration::from_secs(2)));
        assert_eq!(wait("99999999", ""), Some(RETRY_AFTER_MAX));
        let body = r#"{"details":{"retryAfterSeconds":3}}"#;
        assert_eq!(wait("soon", body), Some(Duration::from_secs(3)));
        assert_eq!(wait("0", ""), None);
    }

    #[test]
    fn messages_are_bounded() {
        assert_eq!(plain(" a\nb\u{1b}[1m "), "a b [1m");
        assert_eq!(plain(&"x".repeat(10_000)).len(), MESSAGE_MAX);
    }
}
