//! How upstreams say that a request was not begun, or that it failed.

use hyper::Response;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use seawall_control::gate::End;
use seawall_tower::client::Refusal;
use seawall_tower::headers::{ENVOY_OVERLOADED, GRPC_STATUS, is_grpc};

/// The statuses of gRPC that say that a service did not do the work that it usually does: UNKNOWN,
/// DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE, DATA_LOSS.
const FAILURES: [&[u8]; 6] = [b"2", b"4", b"8", b"13", b"14", b"15"];

/// How a call of gRPC ended, if it failed.
pub(super) fn end_of_grpc(fields: &HeaderMap) -> Option<End> {
    let status = fields.get(GRPC_STATUS)?.as_bytes();
    FAILURES.contains(&status).then_some(End::Failed)
}

/// How a request ends whose response begins so.
pub(super) fn end_of(response: &Response<Incoming>) -> End {
    if response.status().is_server_error() {
        return End::Failed;
    }
    end_of_grpc(response.headers()).unwrap_or(End::Served)
}

/// The refusal that a response is: it says that the request was not begun, and may go elsewhere.
///
/// A client knows its servers, and takes each 503 with a `Retry-After` for that. Here it may be
/// anybody's, who may have begun: only those who name a stage, or speak like Envoy, or gRPC whose
/// pushback says so, are taken at their word. What was refused because of its client's quota, it
/// would be elsewhere, too.
pub(super) fn read<B>(response: &Response<B>) -> Option<Refusal> {
    let refusal = Refusal::of(response)?;
    let headers = response.headers();
    let is_sure =
        refusal.stage.is_some() || headers.contains_key(ENVOY_OVERLOADED) || is_grpc(headers);
    (is_sure && !refusal.quota).then_some(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refusal(status: u16, headers: &[(&str, &str)]) -> bool {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        read(&response.body(()).unwrap()).is_some()
    }

    #[test]
    fn only_who_says_that_nothing_was_begun_is_believed() {
        let stage = ("seawall", "stage=\"lock:orders\"");
        let grpc = ("content-type", "application/grpc");
        for refused in [
            (503, &[stage][..]),
            (529, &[stage]),
            (503, &[("x-envoy-overloaded", "true")]),
            (200, &[grpc, ("grpc-status", "14"), ("grpc-retry-pushback-ms", "5")]),
            (200, &[grpc, ("grpc-status", "14"), stage]),
        ] {
            assert!(is_refusal(refused.0, refused.1), "{refused:?}");
        }
        for other in [
            (200, &[][..]),
            (503, &[]),
            (503, &[("retry-after", "1")]),
            (429, &[("retry-after", "1")]),
            (429, &[stage]),
            (500, &[("x-envoy-overloaded", "true")]),
            (200, &[grpc]),
            (200, &[grpc, ("grpc-status", "14")]),
            (200, &[grpc, ("grpc-status", "8"), stage]),
        ] {
            assert!(!is_refusal(other.0, other.1), "{other:?}");
        }
    }
}
