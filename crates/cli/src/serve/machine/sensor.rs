//! A meter that several read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::steer::Meter;

/// A meter for the semaphore's steering, for signals and for the endpoint at once: hardware has few
/// counters, and so they are opened once. Each makes a rate of its own of what it reads.
#[derive(Clone)]
pub(super) struct Sensor {
    meter: Arc<Mutex<Box<dyn Meter + Send>>>,
    name: Arc<str>,
    resolution: Duration,
}

impl Sensor {
    pub(super) fn new(meter: Box<dyn Meter + Send>) -> Self {
        let (name, resolution) = (meter.name().into(), meter.resolution());
        Self { meter: Arc::new(Mutex::new(meter)), name, resolution }
    }
}

impl Meter for Sensor {
    fn name(&self) -> &str {
        &self.name
    }

    fn total(&mut self) -> Option<u64> {
        self.meter.lock().total()
    }

    fn resolution(&self) -> Duration {
        self.resolution
    }
}

impl fmt::Debug for Sensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sensor").field(&self.name).finish()
    }
}
