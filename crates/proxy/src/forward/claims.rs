//! What of a request's claims counts.

use std::time::Duration;

use metrics::counter;
use seawall_control::request::{Claims, Priority};
use seawall_measure::names;
use seawall_tower::server::parts::{Sender, Told};

use crate::route::Route;

/// The claims of a request, with so much time left, as far as its sender is believed; the route's
/// own word counts before the sender's. What was not understood and not believed is counted.
pub(super) fn believed(
    told: &Told,
    (_, peer): Sender<'_>,
    route: &Route,
    left: Option<Duration>,
) -> Claims {
    if told.malformed {
        counter!(names::PROTOCOL_ERRORS.name, "kind" => "malformed_field").increment(1);
    }
    if told.ignored > 0 {
        let ignored = u64::from(told.ignored);
        counter!(names::PROTOCOL_ERRORS.name, "kind" => "unknown_field").increment(ignored);
    }
    let (mut claims, struck) = told.claims(peer);
    if struck.privilege {
        counter!(names::PRIVILEGE_VIOLATIONS.name).increment(1);
    }
    if struck.hint {
        counter!(names::HINTS_DISTRUSTED.name).increment(1);
    }
    claims.deadline = left;
    claims.priority = route.config.priority.map_or(claims.priority, Priority);
    claims.droppable &= route.config.droppable;
    claims
}
