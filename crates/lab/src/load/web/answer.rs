//! What a response means.

use super::{Answer, Protocol};
use hyper::{HeaderMap, StatusCode};

/// Codes of gRPC that are looked at here.
const OK: u16 = 0;
const DEADLINE_EXCEEDED: u16 = 4;
const RESOURCE_EXHAUSTED: u16 = 8;
const UNAVAILABLE: u16 = 14;

/// The codes that mean a refusal: what servers are to answer when they have too much to do
/// (RFC 9110 §15.6.4, RFC 6585 §4; gRPC's `UNAVAILABLE` and `RESOURCE_EXHAUSTED`).
pub(super) fn refusals(protocol: Protocol) -> Vec<u16> {
    match protocol {
        Protocol::Http => vec![429, 503],
        Protocol::Grpc => vec![RESOURCE_EXHAUSTED, UNAVAILABLE],
    }
}

/// What a response of HTTP means.
pub(super) fn of_http(status: StatusCode, refusals: &[u16]) -> Answer {
    match status.as_u16() {
        code if refusals.contains(&code) => Answer::Refused,
        408 | 504 => Answer::GivenUp,
        200..=399 => Answer::Served,
        _ => Answer::Failed(format!("the server said {status}")),
    }
}

/// What a response of gRPC means. Its status is in the trailers, or in the headers where there is
/// nothing else.
pub(super) fn of_grpc(
    status: StatusCode,
    headers: &HeaderMap,
    trailers: Option<&HeaderMap>,
    refusals: &[u16],
) -> Answer {
    let field = |name| {
        let found = trailers.and_then(|map| map.get(name)).or_else(|| headers.get(name))?;
        found.to_str().ok()
    };
    let code = match field("grpc-status").map(str::parse::<u16>) {
        Some(Ok(code)) => code,
        Some(Err(_)) => return Answer::Failed("grpc-status is not a number".into()),
        // As gRPC maps what comes from something else than a gRPC server.
        None if matches!(status.as_u16(), 429 | 502 | 503 | 504) => UNAVAILABLE,
        None => return Answer::Failed(format!("no grpc-status, and HTTP status {status}")),
    };
    match code {
        OK => Answer::Served,
        code if refusals.contains(&code) => Answer::Refused,
        DEADLINE_EXCEEDED => Answer::GivenUp,
        _ => {
            let words = field("grpc-message").unwrap_or_default();
            Answer::Failed(format!("the server said gRPC status {code} {words}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use seawall_measure::Outcome;

    use super::*;

    fn http(code: u16) -> Answer {
        of_http(StatusCode::from_u16(code).unwrap(), &refusals(Protocol::Http))
    }

    fn grpc(http: u16, header: Option<&'static str>, trailer: Option<&'static str>) -> Answer {
        let map = |value: Option<&'static str>| {
            let entry = value.map(|value| (STATUS.clone(), HeaderValue::from_static(value)));
            entry.into_iter().collect::<HeaderMap>()
        };
        let (header, trailer) = (map(header), trailer.map(|value| map(Some(value))));
        let status = StatusCode::from_u16(http).unwrap();
        of_grpc(status, &header, trailer.as_ref(), &refusals(Protocol::Grpc))
    }

    static STATUS: hyper::header::HeaderName =
        hyper::header::HeaderName::from_static("grpc-status");

    #[test]
    fn statuses_of_http_are_read() {
        assert_eq!([200, 204, 304].map(http), [const { Answer::Served }; 3]);
        assert_eq!([429, 503].map(http), [const { Answer::Refused }; 2]);
        assert_eq!([408, 504].map(http), [const { Answer::GivenUp }; 2]);
        assert!(matches!(http(500), Answer::Failed(words) if words.contains("500")));
    }

    #[test]
    fn statuses_of_grpc_are_read_where_they_stand() {
        assert_eq!(grpc(200, None, Some("0")), Answer::Served);
        assert_eq!(grpc(200, Some("14"), None), Answer::Refused);
        assert_eq!(grpc(200, Some("8"), None), Answer::Refused);
        assert_eq!(grpc(200, None, Some("4")), Answer::GivenUp);
        assert_eq!(grpc(503, None, None), Answer::Refused);
        for failed in
            [grpc(200, None, Some("13")), grpc(200, None, None), grpc(200, None, Some("x"))]
        {
            assert!(matches!(failed, Answer::Failed(_)), "{failed:?}");
        }
    }

    #[test]
    fn what_a_refusal_is_can_be_said() {
        let answer = of_http(StatusCode::from_u16(500).unwrap(), &[500]);
        assert_eq!((answer.outcome(), answer.failure()), (Outcome::Rejected, None));
        let failed = http(404);
        assert!(failed.outcome() == Outcome::Failed && failed.failure().is_some());
    }
}
