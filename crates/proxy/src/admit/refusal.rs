//! Why a request is not passed on.

use std::time::Duration;

use seawall_control::request::{RefusalReason, Rejected};

/// A refusal, as it is told and counted.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) rejected: Rejected,
    pub(crate) kind: Kind,
}

/// The kinds of refusal, which clients are told in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The upstream is too busy to serve it in time.
    Overload,
    /// Its sender has asked for more than its share.
    Quota,
    /// Its deadline has passed.
    Expired,
}

impl Refusal {
    /// A refusal of a request that has so much time left, if it has a deadline.
    pub(super) fn new(rejected: Rejected, time_left: Option<Duration>) -> Self {
        let kind = match rejected.reason {
            _ if time_left.is_some_and(|left| left.is_zero()) => Kind::Expired,
            RefusalReason::WindowExceeded | RefusalReason::PrivilegeExceeded => Kind::Quota,
            _ => Kind::Overload,
        };
        Self { rejected, kind }
    }
}
