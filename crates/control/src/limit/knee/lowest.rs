//! The lowest latency of late.

use core::time::Duration;

use crate::time::Instant;

/// How long a latency is remembered that is not seen any more.
const MEMORY: Duration = Duration::from_secs(60);

/// Samples before a mean counts. Few, because of those that come first, to a service that was idle,
/// there are few.
const SAMPLES_MIN: u32 = 2;

/// The newest sample's weight once there are many.
const WEIGHT: f64 = 1.0 / 64.0;

/// Numbers in flight are told apart by their powers of two.
const ROWS: usize = 16;

/// The lowest of the mean latencies at different loads: what a request takes that does not wait.
///
/// Means, not single samples, whose lowest is the smallest request there is.
#[derive(Clone, Debug, Default)]
pub(super) struct Lowest {
    rows: [Row; ROWS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    mean: f64,
    count: u32,
    seen: Instant,
}

impl Lowest {
    /// A request took `latency` that was one of so many when it was let in.
    pub(super) fn observe(&mut self, now: Instant, in_flight: u32, latency: f64) {
        let row = &mut self.rows[(in_flight.max(1).ilog2() as usize).min(ROWS - 1)];
        if now.since(row.seen) > MEMORY {
            row.count = 0;
        }
        row.seen = now;
        row.count = row.count.saturating_add(1);
        row.mean += (latency - row.mean) * WEIGHT.max(1.0 / f64::from(row.count));
    }

    /// In seconds; infinite before anything was seen.
    pub(super) fn value(&self, now: Instant) -> f64 {
        let counts = |row: &&Row| row.count >= SAMPLES_MIN && now.since(row.seen) <= MEMORY;
        let lowest = f64::INFINITY;
        self.rows.iter().filter(counts).fold(lowest, |lowest, row| lowest.min(row.mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_mean_at_the_load_that_has_the_lowest() {
        let mut lowest = Lowest::default();
        let now = Instant::from_micros(1);
        assert_eq!(lowest.value(now), f64::INFINITY);
        for latency in [1.0, 3.0, 1.0, 3.0] {
            lowest.observe(now, 1, latency);
            lowest.observe(now, 5, latency * 4.0);
        }
        lowest.observe(now, 70, 0.1); // one alone proves nothing
        assert_eq!(lowest.value(now), 2.0);
    }

    #[test]
    fn is_forgotten_once_it_is_not_seen_any_more() {
        let mut lowest = Lowest::default();
        let at = |seconds: u64| Instant::from_micros(seconds * 1_000_000);
        (0..10).for_each(|_| lowest.observe(at(1), 1, 2.0));
        (0..10).for_each(|_| lowest.observe(at(50), 9, 7.0));
        assert_eq!((lowest.value(at(60)), lowest.value(at(62))), (2.0, 7.0));
    }
}
