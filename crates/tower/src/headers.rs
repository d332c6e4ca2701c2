//! Headers that are read and written here: Seawall's own, and the conventions of gRPC and Envoy.
//!
//! `docs/http.md` has all of them.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use bytes::BytesMut;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use seawall_control::fields::{self, timeout};

/// The field of requests and responses ([`fields`]).
pub const SEAWALL: HeaderName = HeaderName::from_static(fields::NAME);
/// By which a sender proves who it is.
pub const TOKEN: HeaderName = HeaderName::from_static("seawall-token");
/// How long the client of a gRPC call will wait.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static(timeout::NAME);
/// How a gRPC call has ended.
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// The same in words.
pub const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// When a gRPC call may be tried again, in milliseconds (gRFC A6).
pub const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
/// How long the client will wait, in milliseconds, as Envoy tells its upstreams.
pub const ENVOY_TIMEOUT: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");
/// The request was refused for overload, by Envoy or by who speaks like it.
pub const ENVOY_OVERLOADED: HeaderName = HeaderName::from_static("x-envoy-overloaded");

/// Bytes of a field that is not unusual.
const FIELD_LEN: usize = 96;

/// The type of the content if it is a message of gRPC, in whichever encoding.
pub fn grpc_type(headers: &HeaderMap) -> Option<&HeaderValue> {
    let kind = headers.get(CONTENT_TYPE)?;
    let rest = kind.as_bytes().strip_prefix(b"application/grpc")?;
    // Not gRPC-Web, whose statuses are in its body.
    matches!(rest.first(), None | Some(b'+' | b';')).then_some(kind)
}

/// True if it is a message of gRPC, in whichever encoding.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    grpc_type(headers).is_some()
}

/// All lines of Seawall's field.
pub fn lines(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers.get_all(SEAWALL).into_iter().map(HeaderValue::as_bytes)
}

/// Puts Seawall's field where it belongs, in place of one that is there; none if it says nothing.
/// It is a [`fields::Request`] or a [`fields::Response`].
pub fn write_field(headers: &mut HeaderMap, field: &impl Display) {
    let value = ascii(field);
    if value.is_empty() {
        headers.remove(SEAWALL);
    } else {
        headers.insert(SEAWALL, value);
    }
}

/// What is written in printable ASCII.
pub(crate) fn ascii(value: &impl Display) -> HeaderValue {
    let mut text = BytesMut::with_capacity(FIELD_LEN);
    write!(text, "{value}").expect("memory takes what is written");
    HeaderValue::from_maybe_shared(text.freeze()).expect("it is written in printable ASCII")
}

/// Reads what Envoy tells; `None` if it is no time. Envoy takes 0 for no limit at all.
pub(crate) fn envoy_timeout(value: &[u8]) -> Option<Duration> {
    let digits = value.iter().all(u8::is_ascii_digit);
    let millis: u64 = str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_known_by_its_content() {
        let is = |kind| {
            let headers = [(CONTENT_TYPE, HeaderValue::from_static(kind))];
            is_grpc(&headers.into_iter().collect())
        };
        for kind in ["application/grpc", "application/grpc+proto", "application/grpc;v=1"] {
            assert!(is(kind), "{kind}");
        }
        for kind in ["application/json", "application/grpc-web+proto", ""] {
            assert!(!is(kind), "{kind}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }

    #[test]
    fn a_field_that_says_nothing_is_not_there() {
        let mut headers = HeaderMap::new();
        let field = fields::Request::read([&b"demand=3"[..]]).fields;
        write_field(&mut headers, &field);
        assert_eq!(lines(&headers).collect::<Vec<_>>(), [b"demand=3"]);
        write_field(&mut headers, &fields::Request::default());
        assert!(headers.is_empty());
    }
}
