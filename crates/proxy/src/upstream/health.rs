//! Whether a replica is well, by what it is asked and by what becomes of requests.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seawall_control::Instant;

use crate::config;

/// The longest time for which a replica is left out in one go.
const EJECTED_MAX: Duration = Duration::from_secs(60);

/// What is known of one replica.
#[derive(Debug)]
pub(crate) struct Health {
    /// What probes say; true where there are none.
    is_up: AtomicBool,
    /// Requests in a row that were lost.
    lost: AtomicU32,
    /// Times in a row at which it was left out.
    ejections: AtomicU32,
    /// Until when it is left out, in nanoseconds.
    ejected_until: AtomicU64,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            is_up: AtomicBool::new(true),
            lost: AtomicU32::new(0),
            ejections: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
        }
    }
}

impl Health {
    /// Whether requests should go there.
    pub(crate) fn is_well(&self, now: Instant) -> bool {
        self.is_up.load(Relaxed) && self.ejected_until.load(Relaxed) <= now.as_nanos()
    }

    /// What probes have found; true if that is news.
    pub(super) fn set_up(&self, is_up: bool) -> bool {
        self.is_up.swap(is_up, Relaxed) != is_up
    }

    /// A request was answered.
    pub(super) fn on_success(&self) {
        // Read first: in all but a few cases nothing has to be written.
        if self.lost.load(Relaxed) != 0 {
            self.lost.store(0, Relaxed);
        }
        if self.ejections.load(Relaxed) != 0 {
            self.ejections.store(0, Relaxed);
        }
    }

    /// A request was lost; true if the replica is left out from now on.
    pub(super) fn on_failure(&self, now: Instant, config: &config::Health) -> bool {
        let lost = self.lost.fetch_add(1, Relaxed) + 1;
        if config.eject_after == 0 || lost < config.eject_after || !self.is_well(now) {
            return false;
        }
        self.lost.store(0, Relaxed);
        let earlier = self.ejections.fetch_add(1, Relaxed).min(16);
        let time = config.eject_for.saturating_mul(1 << earlier).min(EJECTED_MAX);
        self.ejected_until.store((now + time).as_nanos(), Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_micros(1_000_000);

    fn config() -> config::Health {
        config::Health { eject_after: 3, ..config::Health::default() }
    }

    #[test]
    fn failures_in_a_row_leave_it_out_longer_each_time() {
        let (health, config) = (Health::default(), config());
        let mut now = NOW;
        for seconds in [1, 2, 4] {
            assert!(!health.on_failure(now, &config) && !health.on_failure(now, &config));
            assert!(health.on_failure(now, &config) && !health.is_well(now));
            let back = now + Duration::from_secs(seconds);
            assert!(!health.is_well(back - Duration::from_nanos(1)) && health.is_well(back));
            now = back;
        }
        health.on_success();
        assert!((0..3).any(|_| health.on_failure(now, &config)));
        assert!(health.is_well(now + Duration::from_secs(1)), "it begins anew");
    }

    #[test]
    fn an_answer_in_between_starts_the_count_anew() {
        let (health, config) = (Health::default(), config());
        for _ in 0..10 {
            assert!(!health.on_failure(NOW, &config) && !health.on_failure(NOW, &config));
            health.on_success();
        }
        assert!(health.is_well(NOW));
    }

    #[test]
    fn it_is_never_left_out_longer_than_a_minute_and_not_at_all_where_that_is_off() {
        let (health, config) = (Health::default(), config());
        let mut now = NOW;
        for _ in 0..100 {
            (0..3).for_each(|_| _ = health.on_failure(now, &config));
            now = now + EJECTED_MAX;
            assert!(health.is_well(now));
        }
        let off = config::Health { eject_after: 0, ..config };
        assert!(!(0..1000).any(|_| health.on_failure(now, &off)));
    }

    #[test]
    fn who_is_down_is_not_well_whatever_requests_say() {
        let health = Health::default();
        assert!(health.set_up(false) && !health.set_up(false));
        health.on_success();
        assert!(!health.is_well(NOW));
    }
}
