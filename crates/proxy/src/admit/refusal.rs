//! Why a request is not passed on.

use seawall_control::request::Rejected;
use seawall_tower::server::parts;

/// A refusal, as it was decided and as it is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) rejected: Rejected,
    pub(crate) told: parts::Refusal,
}
