//! A client that sends only what its window allows.

use crate::controller::{ClientController, Demand, Departure, Feedback, Response};
use crate::credit::is_before;
use crate::metrics::Metrics;
use crate::time::Instant;

/// Client half of every credit scheme (Breakwater §3.3).
#[derive(Clone, Copy, Debug, Default)]
pub struct Credit {
    window: u32,
    seq: u32,
    registered: bool,
    tells_all: bool,
}

impl Credit {
    /// The same for a server that wants to hear of every change of the demand.
    #[must_use]
    pub fn telling_all(mut self, tells_all: bool) -> Self {
        self.tells_all = tells_all;
        self
    }

    /// Applies a window unless a newer one is already known: order of arrival does not matter.
    fn apply(&mut self, feedback: Feedback) {
        if let Feedback::Window { size, seq } = feedback
            && !is_before(seq, self.seq)
        {
            self.window = size;
            self.seq = seq;
        }
    }
}

impl ClientController for Credit {
    fn on_demand(&mut self, _now: Instant, demand: &Demand) -> Departure {
        // The first call needs no credit: it registers the session and carries its demand (§3).
        if demand.outstanding < self.window || !self.registered {
            self.registered = true;
            return Departure::Now;
        }
        Departure::Hold
    }

    fn on_response(&mut self, _now: Instant, response: &Response) {
        self.apply(response.feedback);
    }

    fn on_push(&mut self, _now: Instant, feedback: Feedback) {
        self.apply(feedback);
    }

    fn window_ack(&self) -> u32 {
        self.seq
    }

    fn tells_all(&self) -> bool {
        self.tells_all
    }

    fn metrics(&self) -> Metrics {
        Metrics::new().with("credit_window", f64::from(self.window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_call_is_free_and_the_window_binds_after_it() {
        let mut credit = Credit::default();
        let now = Instant::ORIGIN;
        assert_eq!(credit.on_demand(now, &Demand::new(0)), Departure::Now);
        assert_eq!(credit.on_demand(now, &Demand::new(1)), Departure::Hold);
        credit.on_push(now, Feedback::Window { size: 2, seq: 1 });
        assert_eq!(credit.on_demand(now, &Demand::new(1)), Departure::Now);
        assert_eq!(credit.on_demand(now, &Demand::new(2)), Departure::Hold);
    }

    #[test]
    fn a_late_window_does_not_undo_a_newer_one() {
        let mut credit = Credit::default();
        credit.on_push(Instant::ORIGIN, Feedback::Window { size: 1, seq: 5 });
        credit.on_push(Instant::ORIGIN, Feedback::Window { size: 9, seq: 4 });
        assert_eq!((credit.window, credit.window_ack()), (1, 5));
    }
}
