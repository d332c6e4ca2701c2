//! Refusals that upstreams tell: the request was not begun, and may go elsewhere.

use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::{Response, StatusCode};
use seawall_control::fields;
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
    /// How long it would have waited there.
    pub(super) predicted: Duration,
}

/// The stage of this name; those that an application names concern not all of its requests.
fn known(name: &str) -> Stage {
    let own = (0..Stage::FIRST_OWN).map(Stage).find(|stage| stage.name() == Some(name));
    own.unwrap_or(Stage(Stage::FIRST_OWN))
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
            return Some(Self { stage: known(stage.as_str()), predicted });
        }
        let is_refusal = if is_grpc {
            // Trailers only: the handler has not begun. A pushback may be in them.
            headers.get(GRPC_STATUS).is_some_and(|status| status.as_bytes() == UNAVAILABLE)
                && headers.contains_key(GRPC_PUSHBACK)
        } else {
            response.status() == StatusCode::SERVICE_UNAVAILABLE
                && headers.contains_key(X_ENVOY_OVERLOADED)
        };
        is_refusal.then_some(Self { stage: Stage::ADMISSION, predicted: Duration::ZERO })
    }
}
