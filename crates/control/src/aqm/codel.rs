//! Controlled delay: refuses more and more often while the delay of *every* request stays high.

use core::time::Duration;

use super::Aqm;
use crate::config::duration;
use crate::controller::{Dequeue, Verdict};
use crate::request::{Rejected, Stage};
use crate::time::Instant;

/// `CoDel` (RFC 8289 §5): judges requests, in the order in which they leave the run queue, by the
/// time that they waited in it.
///
/// A queue that drains now and then is a good one, however long it gets in between. So nothing is
/// refused until the wait has been at or above the target for a whole interval; from then on one
/// request is refused every `interval / √count`, where `count` grows with each, until one waited
/// less than the target.
///
/// Deviation: the RFC spares the last packet in a queue. Here a queue of one is not known, and its
/// request waited for no others anyway.
#[derive(Clone, Debug)]
pub struct CoDel {
    target: Duration,
    interval: Duration,
    /// When the wait will have been at or above the target for an interval; `None` while below.
    first_above: Option<Instant>,
    dropping: bool,
    /// When to refuse next. Outside of the dropping state: when it would have been.
    drop_next: Instant,
    /// Refusals since the dropping state began, or what the last one suggests to begin with.
    count: u32,
    /// `count` when the dropping state began.
    count_at_start: u32,
}

/// A dropping state that begins within this many intervals of the last one goes on at its rate.
const MEMORY_INTERVALS: u32 = 16;

impl CoDel {
    /// An empty queue that is to hold requests up for `target`, give or take an `interval`.
    pub const fn new(target: Duration, interval: Duration) -> Self {
        Self {
            target,
            interval,
            first_above: None,
            dropping: false,
            drop_next: Instant::ORIGIN,
            count: 0,
            count_at_start: 0,
        }
    }

    /// Whether the wait has been too long for long enough (the RFC's `dodequeue`).
    fn may_drop(&mut self, now: Instant, sojourn: Duration) -> bool {
        if sojourn < self.target {
            self.first_above = None;
            return false;
        }
        now >= *self.first_above.get_or_insert(now + self.interval)
    }

    /// Begins to drop. If the last time is not long ago, its rate is a good one to start with.
    fn start(&mut self, now: Instant) {
        let grown = self.count - self.count_at_start;
        let recent = now.since(self.drop_next) < self.interval * MEMORY_INTERVALS;
        self.dropping = true;
        self.count = if grown > 1 && recent { grown } else { 1 };
        self.count_at_start = self.count;
        self.drop_next = self.after(now);
    }

    /// The control law: when to refuse next, after a refusal that was due at `drop`.
    fn after(&self, drop: Instant) -> Instant {
        drop + duration::scaled(self.interval, 1.0 / libm::sqrt(f64::from(self.count)))
    }
}

impl Aqm for CoDel {
    const JUDGES_DEQUEUES: bool = true;

    fn on_dequeue(&mut self, now: Instant, dequeue: &Dequeue) -> Verdict {
        if !dequeue.droppable {
            return Verdict::Admit; // it waited ahead of the others, and tells nothing of them
        }
        if !self.may_drop(now, dequeue.sojourn) {
            self.dropping = false;
            return Verdict::Admit;
        }
        if !self.dropping {
            self.start(now);
        } else if now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            self.drop_next = self.after(self.drop_next);
        } else {
            return Verdict::Admit;
        }
        Verdict::Refuse(Rejected::overload(Stage::RUN_QUEUE, dequeue.sojourn))
    }

    fn target_delay(&self) -> Duration {
        self.target
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::SessionId;
    use alloc::vec::Vec;

    const TARGET: Duration = Duration::from_millis(5);
    const INTERVAL: Duration = Duration::from_millis(100);

    fn refused(codel: &mut CoDel, at_ms: u64, sojourn_ms: u64) -> bool {
        let session = SessionId { slot: 0, generation: 0 };
        let dequeue = Dequeue::new(session, Duration::from_millis(sojourn_ms));
        codel.on_dequeue(Instant::from_micros(at_ms * 1_000), &dequeue) != Verdict::Admit
    }

    /// When requests that wait for 5 ms, one each millisecond, are refused.
    fn refusals(codel: &mut CoDel, ms: core::ops::Range<u64>) -> Vec<u64> {
        ms.filter(|at| refused(codel, *at, 5)).collect()
    }

    #[test]
    fn refuses_after_an_interval_and_then_by_the_root_of_the_count() {
        let codel = &mut CoDel::new(TARGET, INTERVAL);
        // 100 + 100/√1 = 200, + 100/√2 = 270.7, + 100/√3 = 328.4, + 50 = 378.4, + 44.7 = 423.2
        assert_eq!(refusals(codel, 0..430), [100, 200, 271, 329, 379, 424]);
    }

    #[test]
    fn one_short_wait_ends_it_and_a_burst_never_begins_it() {
        let codel = &mut CoDel::new(TARGET, INTERVAL);
        assert_eq!(refusals(codel, 0..150), [100]);
        assert!(!refused(codel, 150, 4));
        assert_eq!(refusals(codel, 151..251), []);
        let codel = &mut CoDel::new(TARGET, INTERVAL);
        for at in 0..1_000 {
            let sojourn = if at % 90 == 0 { 0 } else { 60 };
            assert!(!refused(codel, at, sojourn));
        }
    }

    #[test]
    fn resumes_at_the_rate_that_it_had_reached() {
        let codel = &mut CoDel::new(TARGET, INTERVAL);
        assert_eq!(refusals(codel, 0..430).len(), 6); // count is 6, from 1
        assert!(!refused(codel, 430, 0));
        // Above again from 431, so refused at 531, and next after 100/√5 = 44.7.
        assert_eq!(refusals(codel, 431..577), [531, 576]);
        // After 16 intervals it has forgotten.
        assert!(!refused(codel, 600, 0));
        assert_eq!(refusals(codel, 2_300..2_501), [2_400, 2_500]);
    }

    #[test]
    fn a_large_backlog_is_refused_request_by_request() {
        let codel = &mut CoDel::new(TARGET, INTERVAL);
        refusals(codel, 0..101);
        // Nothing left the queue for a second: refusals that are overdue come one after another.
        assert!((0..10).all(|_| refused(codel, 1_100, 1_000)));
    }

    #[test]
    fn what_may_not_be_dropped_is_not_judged() {
        let codel = &mut CoDel::new(TARGET, INTERVAL);
        let session = SessionId { slot: 0, generation: 0 };
        let mut dequeue = Dequeue::new(session, Duration::from_secs(9));
        dequeue.droppable = false;
        for at in 0..1_000 {
            let now = Instant::from_micros(at * 1_000);
            assert_eq!(codel.on_dequeue(now, &dequeue), Verdict::Admit);
        }
        assert_eq!(codel.first_above, None);
    }
}
