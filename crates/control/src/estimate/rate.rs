//! Events per second, with exponential forgetting.

use core::time::Duration;

use crate::time::{Instant, nanos};

/// A decaying rate of events.
///
/// Each event adds one to a count that decays with time constant `tau`; for steady events the count
/// settles at rate × `tau`. Reading computes the decayed value and stores nothing.
#[derive(Clone, Debug)]
pub struct Rate {
    tau: f64,
    count: f64,
    last: Instant,
}

impl Rate {
    /// No events so far; `tau` (clamped to at least 1 ns) is how far back the rate remembers.
    pub fn new(tau: Duration) -> Self {
        Self { tau: nanos(tau).max(1) as f64, count: 0.0, last: Instant::ORIGIN }
    }

    /// Counts one event.
    pub fn observe(&mut self, now: Instant) {
        self.count = self.decayed(now) + 1.0;
        self.last = self.last.max(now);
    }

    /// Events per second as of `now`.
    pub fn per_second(&self, now: Instant) -> f64 {
        self.decayed(now) * 1e9 / self.tau
    }

    fn decayed(&self, now: Instant) -> f64 {
        self.count * libm::exp(-(nanos(now.since(self.last)) as f64) / self.tau)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settles_at_the_true_rate_and_fades() {
        let mut rate = Rate::new(Duration::from_millis(100));
        for i in 0..10_000 {
            rate.observe(Instant::from_micros(i * 100));
        }
        let now = Instant::from_micros(1_000_000);
        assert!((rate.per_second(now) - 10_000.0).abs() < 100.0);
        assert!(rate.per_second(now + Duration::from_secs(2)) < 1.0);
    }
}
