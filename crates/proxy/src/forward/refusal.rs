//! Refusals that upstreams tell: the request was not begun, and may go elsewhere.

use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName};
use hyper::{Response, StatusCode};
use seawall_control::fields::{self, Name};
use seawall_control::gate::End;
use seawall_control::request::Stage;

const X_ENVOY_OVERLOADED: HeaderName = HeaderName::from_static("x-envoy-overloaded");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The status of gRPC that says "not now".
const UNAVAILABLE: &[u8] = b"14";

/// What a refusal tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    /// Where the request was refused.
    pub(super) stage: Stage,
    /// What that is called there; empty if it was not said.
    pub(super) name: Option<Name>,
    /// How long it would have waited there.
    pub(super) predicted: Duration,
}

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

/// The stage of this name; those that an application names concern not all of its requests.
fn known(name: &str) -> Stage {
    Stage::named(name).unwrap_or(Stage(Stage::FIRST_OWN))
}

impl Refused {
    /// The refusal that a response is, if it is one.
    pub(super) fn read(response: &Response<Incoming>, is_grpc: bool) -> Option<Self> {
        let headers = response.headers();
        let told = fields::Response::read(super::own_lines(headers)).fields;
        let is_failure = if is_grpc {
            headers.contains_key(GRPC_STATUS) // trailers only: the handler sent nothing
        } else {
            response.status() == StatusCode::SERVICE_UNAVAILABLE
        };
        if let Some(stage) = told.stage.filter(|_| is_failure) {
            let predicted = told.predicted.unwrap_or_default();
            return Some(Self { stage: known(stage.as_str()), name: Some(stage), predicted });
        }
        let is_refusal = if is_grpc {
            // Trailers only: the handler has not begun. A pushback may be in them.
            headers.get(GRPC_STATUS).is_some_and(|status| status.as_bytes() == UNAVAILABLE)
                && headers.contains_key(GRPC_PUSHBACK)
        } else {
            response.status() == StatusCode::SERVICE_UNAVAILABLE
                && headers.contains_key(X_ENVOY_OVERLOADED)
        };
        is_refusal.then_some(Self {
            stage: Stage::ADMISSION,
            name: None,
            predicted: Duration::ZERO,
        })
    }
}
