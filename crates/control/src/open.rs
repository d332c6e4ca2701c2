//! No control: everything is admitted, nothing is told. What overload does to a server, to compare
//! with.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::client;
use crate::controller::{Algorithm, Arrival, ClientController, Init, ServerController, Verdict};
use crate::metrics::Metrics;
use crate::time::Instant;

/// No control, as an [`Algorithm`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

impl Algorithm for Open {
    fn name(&self) -> &'static str {
        "none"
    }

    fn bounds_waits(&self) -> bool {
        false
    }

    fn server(self: Arc<Self>, _init: Init) -> Box<dyn ServerController> {
        Box::new(*self)
    }

    fn client(self: Arc<Self>, _init: Init) -> Box<dyn ClientController> {
        Box::new(client::Open)
    }
}

impl ServerController for Open {
    fn on_arrival(&mut self, _now: Instant, _arrival: &Arrival) -> Verdict {
        Verdict::Admit
    }

    fn metrics(&self) -> Metrics {
        Metrics::new()
    }
}
