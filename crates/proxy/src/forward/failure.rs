//! What clients are told when there is no response to pass on.

use bytes::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use metrics::counter;
use seawall_control::Rng;
use seawall_control::fields::{self, Name};
use seawall_control::request::Rejected;
use seawall_measure::names;

use super::body::Body;
use crate::admit::{Kind, Refusal};
use crate::clock;
use crate::config;
use crate::upstream::ConnectError;

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
const OWN: HeaderName = HeaderName::from_static(fields::NAME);
const X_ENVOY_OVERLOADED: HeaderName = HeaderName::from_static("x-envoy-overloaded");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Why there is no response to pass on.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request breaks HTTP.
    Bad(&'static str),
    /// `CONNECT`, which a gateway has no use for.
    Method,
    /// No route matches.
    NoRoute,
    /// The body is longer than is allowed.
    TooLong,
    /// The client did not send its body in time.
    ClientStalled,
    /// The client's connection broke while it sent its body.
    ClientGone,
    /// No connection to any replica.
    Connect(ConnectError),
    /// The connection to the replica was lost before the response.
    Lost(String),
    /// The response did not begin in time.
    TimedOut,
    /// The request's own deadline has passed.
    Expired,
    /// It was refused before the upstream had it.
    Refused {
        /// Why.
        refusal: Refusal,
        /// How that is told.
        status: config::Status,
    },
}

/// How a failure is told, in HTTP, in `Proxy-Status` (RFC 9209 §2.3), and in gRPC.
struct Told {
    status: StatusCode,
    error: &'static str,
    grpc: u8,
}

/// Status codes of gRPC.
mod grpc {
    pub(super) const DEADLINE_EXCEEDED: u8 = 4;
    pub(super) const RESOURCE_EXHAUSTED: u8 = 8;
    pub(super) const UNIMPLEMENTED: u8 = 12;
    pub(super) const INTERNAL: u8 = 13;
    pub(super) const UNAVAILABLE: u8 = 14;
}

impl Failure {
    fn told(&self) -> Told {
        let (status, error, grpc) = match self {
            Self::Bad(_) | Self::ClientGone => {
                (StatusCode::BAD_REQUEST, "http_request_error", grpc::INTERNAL)
            }
            Self::Method => {
                (StatusCode::METHOD_NOT_ALLOWED, "http_request_denied", grpc::UNIMPLEMENTED)
            }
            Self::NoRoute => (StatusCode::NOT_FOUND, "destination_not_found", grpc::UNIMPLEMENTED),
            Self::TooLong => {
                (StatusCode::PAYLOAD_TOO_LARGE, "http_request_denied", grpc::RESOURCE_EXHAUSTED)
            }
            Self::ClientStalled => {
                (StatusCode::REQUEST_TIMEOUT, "http_request_error", grpc::UNAVAILABLE)
            }
            Self::Connect(error) => (
                match error {
                    ConnectError::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
                    _ => StatusCode::BAD_GATEWAY,
                },
                connect_error(error),
                grpc::UNAVAILABLE,
            ),
            // It may have run; gRPC's clients retry UNAVAILABLE, and know that by their own means.
            Self::Lost(_) => (StatusCode::BAD_GATEWAY, "connection_terminated", grpc::UNAVAILABLE),
            Self::TimedOut | Self::Expired => {
                (StatusCode::GATEWAY_TIMEOUT, "http_response_timeout", grpc::DEADLINE_EXCEEDED)
            }
            Self::Refused { refusal, status } => match refusal.kind {
                Kind::Overload => (code(status.overload), "http_request_denied", grpc::UNAVAILABLE),
                Kind::Quota => {
                    (code(status.quota), "http_request_denied", grpc::RESOURCE_EXHAUSTED)
                }
                Kind::Expired => {
                    (StatusCode::GATEWAY_TIMEOUT, "http_request_denied", grpc::DEADLINE_EXCEEDED)
                }
            },
        };
        Told { status, error, grpc }
    }

    /// Whether the client could have had a response, had it done otherwise.
    pub(super) fn is_the_clients(&self) -> bool {
        matches!(
            self,
            Self::Bad(_) | Self::TooLong | Self::ClientStalled | Self::ClientGone | Self::Expired
        )
    }

    /// Counts it, by its name in `Proxy-Status`; refusals are counted where they are decided.
    pub(super) fn count(&self) {
        if !matches!(self, Self::Refused { .. }) {
            counter!(names::PROXY_FAILURES.name, "error" => self.told().error).increment(1);
        }
    }

    /// In words, for people.
    fn text(&self) -> String {
        match self {
            Self::Bad(problem) => (*problem).to_owned(),
            Self::Method => "CONNECT is not for gateways".into(),
            Self::NoRoute => "no route takes this request".into(),
            Self::TooLong => "the body is longer than is allowed".into(),
            Self::ClientStalled => "the body did not come in time".into(),
            Self::ClientGone => "the body broke off".into(),
            Self::Connect(error) => error.to_string(),
            Self::Lost(error) => format!("the upstream's response was lost: {error}"),
            Self::TimedOut => "the upstream's response did not begin in time".into(),
            Self::Expired => "the request's deadline has passed".into(),
            Self::Refused { refusal, .. } => match refusal.kind {
                Kind::Expired => "the request's deadline has passed".into(),
                _ => refusal.rejected.to_string(),
            },
        }
    }

    /// The response that says so, in the way of gRPC (trailers only) if the request was that.
    pub(crate) fn response(&self, is_grpc: bool) -> Response<Body> {
        let told = self.told();
        let text = self.text();
        let mut headers = HeaderMap::new();
        let proxy_status = HeaderValue::try_from(format!("seawall; error={}", told.error));
        headers.insert(PROXY_STATUS, proxy_status.expect("errors have plain names"));
        if let Self::Refused { refusal, .. } = self {
            tell_refusal(&mut headers, refusal, is_grpc);
        }
        if is_grpc {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert(GRPC_STATUS, HeaderValue::from(u16::from(told.grpc)));
            if let Ok(message) = HeaderValue::try_from(percent_encoded(&text)) {
                headers.insert(GRPC_MESSAGE, message);
            }
            return respond(StatusCode::OK, headers, Body::empty());
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if matches!(self, Self::Method) {
            headers.insert(ALLOW, HeaderValue::from_static(METHODS));
        }
        respond(told.status, headers, Body::text(Bytes::from(text + "\n")))
    }
}

/// Says where a request was refused, and when it may come again: not all at once.
fn tell_refusal(headers: &mut HeaderMap, refusal: &Refusal, is_grpc: bool) {
    let Rejected { stage, predicted_delay, retry_after, .. } = refusal.rejected;
    let mut own = fields::Response::default();
    own.stage = stage.name().and_then(Name::new);
    own.predicted = Some(predicted_delay);
    own.retry_after = Some(retry_after);
    if let Ok(value) = HeaderValue::try_from(own.to_string()) {
        headers.insert(OWN, value);
    }
    if refusal.kind == Kind::Expired {
        return; // it is worthless, and so would be another one
    }
    let mut random = Rng::new(clock::now().as_nanos());
    let retry_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX).min(RETRY_MS_MAX);
    let retry_ms = (retry_ms + random.below(retry_ms / 2 + 1)).max(1);
    if is_grpc {
        headers.insert(GRPC_PUSHBACK, HeaderValue::from(retry_ms));
        return;
    }
    if refusal.kind == Kind::Overload {
        headers.insert(X_ENVOY_OVERLOADED, HeaderValue::from_static("true"));
    }
    // RFC 9110 §10.2.3 has whole seconds.
    headers.insert(RETRY_AFTER, HeaderValue::from(retry_ms.div_ceil(1000)));
}

/// Nobody is sent away for longer.
const RETRY_MS_MAX: u64 = 60_000;

fn code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
}

const METHODS: &str = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, TRACE";

fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The name of an error in RFC 9209 §2.3.
fn connect_error(error: &ConnectError) -> &'static str {
    match error {
        ConnectError::Name { .. } => "dns_error",
        ConnectError::Refused => "connection_refused",
        ConnectError::TimedOut(_) => "connection_timeout",
        ConnectError::Failed(_) => "destination_unavailable",
        ConnectError::Tls(_) => "tls_protocol_error",
        ConnectError::Http(_) => "http_protocol_error",
    }
}

/// As `grpc-message` is written: what is not plain ASCII, and the percent sign, as `%XX`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if (0x20..0x7f).contains(&byte) && byte != b'%' {
            encoded.push(byte as char);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_told_in_its_own_way() {
        let response = Failure::Expired.response(true);
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], "4");
        assert_eq!(response.headers()["content-type"], "application/grpc");
        let response = Failure::Connect(ConnectError::Refused).response(false);
        assert_eq!(response.status(), 502);
        assert_eq!(response.headers()["proxy-status"], "seawall; error=connection_refused");
    }

    #[test]
    fn messages_of_grpc_are_plain() {
        assert_eq!(percent_encoded("50 % of \u{b5}s\n"), "50 %25 of %C2%B5s%0A");
    }
}
