//! A client that nothing holds back.

use crate::controller::{ClientController, Demand, Departure, Response};
use crate::metrics::Metrics;
use crate::time::Instant;

/// Sends at once, whatever the server says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

impl ClientController for Open {
    fn on_demand(&mut self, _now: Instant, _demand: &Demand) -> Departure {
        Departure::Now
    }

    fn on_response(&mut self, _now: Instant, _response: &Response) {}

    fn metrics(&self) -> Metrics {
        Metrics::new()
    }
}
