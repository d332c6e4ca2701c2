//! A bound on the queueing delay at entry: refuse what would wait too long.

use core::time::Duration;

use super::Aqm;
use crate::controller::{Arrival, Verdict};
use crate::request::{Rejected, Stage};
use crate::time::Instant;

/// Refuses a request when the queueing delay has reached a threshold (Breakwater §3.2.3).
///
/// It bounds the tail when overcommitted credits bring more requests at once than the server can
/// take; the credits keep such refusals rare.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    drop_delay: Duration,
}

impl Threshold {
    /// Refuses from a queueing delay of `drop_delay` on.
    pub const fn new(drop_delay: Duration) -> Self {
        Self { drop_delay }
    }
}

impl Aqm for Threshold {
    fn on_arrival(&mut self, _now: Instant, arrival: &Arrival) -> Verdict {
        if !arrival.droppable || arrival.queue_delay < self.drop_delay {
            return Verdict::Admit;
        }
        Verdict::Refuse(Rejected::overload(Stage::ADMISSION, arrival.queue_delay))
    }

    fn target_delay(&self) -> Duration {
        self.drop_delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::SessionId;

    #[test]
    fn refuses_from_the_threshold_on_but_never_the_privileged() {
        let mut aqm = Threshold::new(Duration::from_micros(160));
        let mut arrival = Arrival::new(SessionId { slot: 0, generation: 0 });
        let mut refused = |micros, droppable| {
            arrival.queue_delay = Duration::from_micros(micros);
            arrival.droppable = droppable;
            aqm.on_arrival(Instant::ORIGIN, &arrival) != Verdict::Admit
        };
        assert!(!refused(159, true));
        assert!(refused(160, true));
        assert!(!refused(160, false));
    }
}
