//! What clients are told when there is no response to pass on.

use bytes::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use metrics::counter;
use seawall_measure::names;
use seawall_tower::headers::{GRPC_MESSAGE, GRPC_STATUS};
use seawall_tower::server::Statuses;
use seawall_tower::server::parts::{self, Kind};

use super::body::Body;
use crate::admit::Refusal;
use crate::upstream::ConnectError;

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

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
    /// Its sender must be somebody known, and is not.
    Unidentified,
    /// It was refused before the upstream had it.
    Refused(Box<Refusal>, Statuses),
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
            // Told as all who refuse tell it.
            Self::Unidentified | Self::Refused(..) => {
                (StatusCode::SERVICE_UNAVAILABLE, "http_request_denied", grpc::UNAVAILABLE)
            }
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
        if !matches!(self, Self::Refused(..)) {
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
            Self::Connect(ConnectError::Refused) => {
                "the service behind this proxy refused the connection".into()
            }
            Self::Connect(ConnectError::TimedOut(time)) => {
                format!("the service behind this proxy took no connection within {time:?}")
            }
            Self::Connect(error) => {
                format!("the service behind this proxy cannot be reached: {error}")
            }
            Self::Lost(error) => {
                format!("the response of the service behind this proxy was lost: {error}")
            }
            Self::TimedOut => {
                "the response of the service behind this proxy did not begin in time".into()
            }
            Self::Expired => "the request's deadline has passed".into(),
            Self::Unidentified => "the sender must say who it is".into(),
            Self::Refused(refusal, _) => match refusal.told.kind {
                Kind::Expired => "the request's deadline has passed".into(),
                _ => refusal.to_string(),
            },
        }
    }

    /// The response that says so, in the way of gRPC (trailers only) if the request was that;
    /// `grpc` is the type of its content.
    pub(crate) fn response(&self, grpc: Option<&HeaderValue>) -> Response<Body> {
        let told = self.told();
        let body = match grpc {
            Some(_) => Body::empty(),
            None => Body::text(Bytes::from(self.text() + "\n")),
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        let proxy_status = HeaderValue::try_from(format!("seawall; error={}", told.error));
        headers.insert(PROXY_STATUS, proxy_status.expect("errors have plain names"));
        if matches!(self, Self::Method) {
            headers.insert(ALLOW, HeaderValue::from_static(METHODS));
        }
        match grpc {
            None => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
                *response.status_mut() = told.status;
            }
            Some(kind) => {
                headers.insert(CONTENT_TYPE, kind.clone());
                headers.insert(GRPC_STATUS, HeaderValue::from(u16::from(told.grpc)));
                if let Ok(message) = HeaderValue::try_from(percent_encoded(&self.text())) {
                    headers.insert(GRPC_MESSAGE, message);
                }
            }
        }
        match self {
            Self::Refused(refusal, statuses) => refusal.told.write(statuses, grpc, &mut response),
            Self::Unidentified => {
                parts::Refusal::unidentified().write(&Statuses::default(), grpc, &mut response);
            }
            _ => {}
        }
        response
    }
}

const METHODS: &str = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, TRACE";

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
        let grpc = HeaderValue::from_static("application/grpc+proto");
        let response = Failure::Expired.response(Some(&grpc));
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], "4");
        assert_eq!(response.headers()["content-type"], "application/grpc+proto");
        let response = Failure::Connect(ConnectError::Refused).response(None);
        assert_eq!(response.status(), 502);
        assert_eq!(response.headers()["proxy-status"], "seawall; error=connection_refused");
    }

    #[test]
    fn messages_of_grpc_are_plain() {
        assert_eq!(percent_encoded("50 % of \u{b5}s\n"), "50 %25 of %C2%B5s%0A");
    }
}
