//! Why a request is not passed on.

use std::time::Duration;

use seawall_control::request::Rejected;

/// A refusal, as it is told and counted.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) rejected: Rejected,
    /// The class of the request.
    pub(crate) class: String,
    pub(crate) reason: Reason,
}

/// The kinds of refusal, which clients are told in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    /// The upstream is too busy to serve it in time.
    Overload,
    /// Its sender has asked for more than its share.
    Quota,
    /// It was worthless when it came.
    Expired,
}

impl Refusal {
    pub(super) fn new(rejected: Rejected, class: String, reason: Reason) -> Self {
        Self { rejected, class, reason }
    }

    /// A refusal by the gate, of a request that had so much time left when it came.
    pub(super) fn at_gate(rejected: Rejected, class: String, deadline: Option<Duration>) -> Self {
        let is_expired = deadline.is_some_and(|left| left.is_zero());
        let reason = if is_expired { Reason::Expired } else { Reason::Overload };
        Self::new(rejected, class, reason)
    }
}

impl Reason {
    /// As metrics have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Overload => "overload",
            Self::Quota => "quota",
            Self::Expired => "expired",
        }
    }
}
