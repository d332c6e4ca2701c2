//! The queueing delay of a service: the age of the oldest waiting item, summed over its queues.
//!
//! ```text
//!   queue A: [oldest … newest]      queue B: [oldest … newest]
//!             └ age 40 µs                     └ age 25 µs          delay = 65 µs
//! ```
//!
//! Never an average, and never the wait of those that already left: an item that is stuck counts
//! while it is stuck (Breakwater §3.1, §4).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use crate::time::Instant;

/// Stands for an empty queue.
const EMPTY: u64 = u64::MAX;

/// When the head of one queue began to wait. Written by whoever holds the queue, read by anyone.
#[derive(Debug)]
pub struct QueueAge(AtomicU64);

impl Default for QueueAge {
    fn default() -> Self {
        Self(AtomicU64::new(EMPTY))
    }
}

impl QueueAge {
    /// Tells, after every enqueue and dequeue, since when the oldest item waits; `None` when empty.
    pub fn set_oldest(&self, oldest: Option<Instant>) {
        self.0.store(oldest.map_or(EMPTY, Instant::as_nanos), Relaxed);
    }

    /// Age of the oldest item; zero when the queue is empty.
    pub fn age(&self, now: Instant) -> Duration {
        match self.0.load(Relaxed) {
            EMPTY => Duration::ZERO,
            oldest => now.since(Instant::from_nanos(oldest)),
        }
    }
}

/// The queues that a request passes one after the other, each measured by its own [`QueueAge`].
#[derive(Debug)]
pub struct DelayMeter<const QUEUES: usize> {
    queues: [QueueAge; QUEUES],
}

impl<const QUEUES: usize> Default for DelayMeter<QUEUES> {
    fn default() -> Self {
        Self { queues: core::array::from_fn(|_| QueueAge::default()) }
    }
}

impl<const QUEUES: usize> DelayMeter<QUEUES> {
    /// One of the queues.
    pub fn queue(&self, index: usize) -> &QueueAge {
        &self.queues[index]
    }

    /// The sum of all ages: what a request that arrives now must expect to wait at least.
    pub fn delay(&self, now: Instant) -> Duration {
        self.queues.iter().fold(Duration::ZERO, |sum, queue| sum.saturating_add(queue.age(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_the_ages_of_the_oldest() {
        let meter = DelayMeter::<2>::default();
        let at = Instant::from_micros;
        assert_eq!(meter.delay(at(100)), Duration::ZERO);
        meter.queue(0).set_oldest(Some(at(60)));
        meter.queue(1).set_oldest(Some(at(75)));
        assert_eq!(meter.delay(at(100)), Duration::from_micros(65));
        meter.queue(0).set_oldest(None);
        assert_eq!(meter.delay(at(100)), Duration::from_micros(25));
    }

    #[test]
    fn a_stamp_from_the_future_counts_as_new() {
        let age = QueueAge::default();
        age.set_oldest(Some(Instant::from_micros(9)));
        assert_eq!(age.age(Instant::from_micros(3)), Duration::ZERO);
    }
}
