//! What clients are told when there is no response to pass on.

use bytes::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::body::Body;
use crate::upstream::ConnectError;

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
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
        };
        Told { status, error, grpc }
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
        }
    }

    /// The status that it has in HTTP, also where it is told in the way of gRPC.
    pub(crate) fn status(&self) -> StatusCode {
        self.told().status
    }

    /// The response that says so, in the way of gRPC (trailers only) if the request was that.
    pub(crate) fn response(&self, is_grpc: bool) -> Response<Body> {
        let told = self.told();
        let text = self.text();
        let mut headers = HeaderMap::new();
        let proxy_status = HeaderValue::try_from(format!("seawall; error={}", told.error));
        headers.insert(PROXY_STATUS, proxy_status.expect("errors have plain names"));
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
        if told.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        respond(told.status, headers, Body::text(Bytes::from(text + "\n")))
    }
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
