//! Why a request has no response.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use http::{Response, StatusCode};
use seawall_control::controller::DropReason;
use seawall_control::fields::{self, Name};
use seawall_control::request::{Rejected, Stage};
use thiserror::Error;

/// An error of any kind, as tower's own middleware has them.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a request has no response.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// It was not sent, and so had no effect: it waited here for leave, and was given up.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It was sent, and its deadline passed without a response; whether it had an effect is
    /// unknown.
    #[error("no response before the deadline")]
    DeadlineExceeded,
    /// It was not sent, because there is no replica.
    #[error("there is no replica")]
    NoReplica,
    /// The service behind has failed.
    #[error("{0}")]
    Inner(#[source] BoxError),
}

/// The client's own queue has refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// Why it was given up.
    pub reason: DropReason,
    /// The refusal, at [`Stage::CLIENT`]: the predicted delay is for how long it waited.
    pub rejected: Rejected,
}

impl Refused {
    pub(super) fn new(reason: DropReason, waited: Duration, left: Duration) -> Self {
        Self { reason, rejected: Rejected::new(Stage::CLIENT, waited, left) }
    }
}

impl Refused {
    /// The same as a server would tell it.
    pub(super) fn response(self, is_grpc: bool) -> Response<()> {
        let mut told = fields::Response::default();
        told.stage = Name::new("client");
        told.predicted = Some(self.rejected.predicted_delay);
        let response = Response::builder().header(fields::NAME, told.to_string());
        let response = if is_grpc {
            // As a gRPC server refuses: a response of trailers only (gRPC over HTTP2).
            response
                .header("content-type", "application/grpc")
                .header("grpc-status", "14")
                .header("grpc-message", "the request was not sent")
        } else {
            response.status(StatusCode::SERVICE_UNAVAILABLE)
        };
        response.body(()).expect("all of it is ASCII")
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            DropReason::Expired => "it could not leave in time",
            DropReason::QueueFull => "too many wait for leave to be sent",
            _ => "the server would refuse it",
        };
        write!(f, "the request was not sent: {reason} (waited {:?})", self.rejected.predicted_delay)
    }
}

impl StdError for Refused {}
