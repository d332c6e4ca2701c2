//! Active queue management at entry: refuse what would wait too long.

use core::time::Duration;

use crate::controller::{Arrival, Refusal, RefusalReason, Verdict};

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

    /// Judges an arrival. The refusal tells the client when the queue should have drained.
    pub fn on_arrival(&self, arrival: &Arrival) -> Verdict {
        if !arrival.droppable || arrival.queue_delay < self.drop_delay {
            return Verdict::Admit;
        }
        let mut refusal = Refusal::at_entry(RefusalReason::Overload, arrival.queue_delay);
        refusal.rejected = refusal.rejected.with_retry_after(arrival.queue_delay);
        Verdict::Refuse(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::SessionId;

    #[test]
    fn refuses_from_the_threshold_on_but_never_the_privileged() {
        let aqm = Threshold::new(Duration::from_micros(160));
        let mut arrival = Arrival::new(SessionId { slot: 0, generation: 0 });
        let mut refused = |micros, droppable| {
            arrival.queue_delay = Duration::from_micros(micros);
            arrival.droppable = droppable;
            aqm.on_arrival(&arrival) != Verdict::Admit
        };
        assert!(!refused(159, true));
        assert!(refused(160, true));
        assert!(!refused(160, false));
    }
}
