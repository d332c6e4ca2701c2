//! The run queue: how long until a request that joins now gets to run.

use core::time::Duration;

use crate::estimate::{Ewma, WindowedQuantile};
use crate::time::nanos;

/// Weight of the newest service time in the mean.
const WEIGHT: f64 = 0.05;

/// Service times over which the tail is taken.
const WINDOW: usize = 512;

/// The tail is worked out anew after this many service times: the selection costs about a
/// microsecond.
const REFRESH: usize = 64;

/// Predicts the wait in a queue in front of some workers.
///
/// The age of the oldest waiting request is what Breakwater measures, and it is late: after a burst
/// it tells only how long the burst is ago. The work ahead, requests × mean work / workers, is
/// there at once but knows nothing of a stall. The larger of the two is the prediction.
#[derive(Clone, Debug)]
pub struct RunQueue {
    workers: u32,
    mean: Ewma,
    recent: WindowedQuantile<WINDOW>,
    since_refresh: usize,
    tail: Duration,
}

impl RunQueue {
    /// A predictor that has seen nothing, for `workers` workers (at least one).
    pub fn new(workers: u32) -> Self {
        Self {
            workers: workers.max(1),
            mean: Ewma::new(WEIGHT),
            recent: WindowedQuantile::default(),
            since_refresh: 0,
            tail: Duration::ZERO,
        }
    }

    /// A request was served: it kept a worker for `worked`, and took `service` from its start to
    /// its end, which is longer if it had to wait for something in between.
    pub fn on_served(&mut self, worked: Duration, service: Duration) {
        self.mean.observe(nanos(worked) as f64);
        self.recent.observe(nanos(service));
        self.since_refresh += 1;
        if self.since_refresh >= REFRESH || self.recent.len() < REFRESH {
            self.since_refresh = 0;
            self.tail = Duration::from_nanos(self.recent.value(0.99).unwrap_or(0));
        }
    }

    /// The wait of a request that joins behind `waiting` others, of which the oldest waits for
    /// `age`.
    pub fn wait(&self, waiting: usize, age: Duration) -> Duration {
        let ahead = waiting as f64 * self.mean.value().unwrap_or(0.0) / f64::from(self.workers);
        age.max(Duration::from_nanos(ahead as u64))
    }

    /// Workers that serve the queue, at least one.
    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// Service time, start to end, that 99 % of the newest requests did not exceed; zero before the
    /// first.
    pub fn service_p99(&self) -> Duration {
        self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn predicts_the_larger_of_age_and_work_ahead() {
        let mut queue = RunQueue::new(2);
        assert_eq!(queue.wait(10, us(7)), us(7));
        (0..100).for_each(|_| queue.on_served(us(100), us(5_000)));
        assert_eq!(queue.wait(10, us(7)), us(500)); // a burst that just came
        assert_eq!(queue.wait(1, us(900)), us(900)); // a stall
    }

    #[test]
    fn knows_the_tail_of_recent_service_times() {
        let mut queue = RunQueue::new(1);
        (1..=600).for_each(|i| queue.on_served(us(1), us(i)));
        // As of the newest refresh, after 575 of them: the 99th percentile of 64 to 575.
        assert_eq!(queue.service_p99(), us(570));
    }
}
