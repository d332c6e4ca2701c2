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
    /// That it fails was said, and it has answered nothing since.
    is_failing: AtomicBool,
}

/// What follows from a request that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Nothing yet.
    Counted,
    /// The replica is left out from now on, for so long.
    LeftOut(Duration),
    /// It would be left out, were another one well. Said once.
    Last,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            is_up: AtomicBool::new(true),
            lost: AtomicU32::new(0),
            ejections: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
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

    /// Whether as many requests were lost in a row as others are left out for.
    pub(super) fn fails(&self, config: &config::Health) -> bool {
        config.eject_after != 0 && self.lost.load(Relaxed) >= config.eject_after
    }

    /// A request was answered; true if that it fails had been said.
    pub(super) fn on_success(&self) -> bool {
        // Read first: in all but a few cases nothing has to be written.
        if self.lost.load(Relaxed) != 0 {
            self.lost.store(0, Relaxed);
        }
        if self.ejections.load(Relaxed) != 0 {
            self.ejections.store(0, Relaxed);
        }
        self.is_failing.load(Relaxed) && self.is_failing.swap(false, Relaxed)
    }

    /// A request was lost. The last replica that is well is never left out.
    pub(super) fn on_failure(
        &self,
        now: Instant,
        config: &config::Health,
        is_last: impl FnOnce() -> bool,
    ) -> Loss {
        self.lost.fetch_add(1, Relaxed);
        if !self.fails(config) || !self.is_well(now) {
            return Loss::Counted;
        }
        let was_said = self.is_failing.swap(true, Relaxed);
        if is_last() {
            return if was_said { Loss::Counted } else { Loss::Last };
        }
        self.lost.store(0, Relaxed);
        let earlier = self.ejections.fetch_add(1, Relaxed).min(16);
        let time = config.eject_for.saturating_mul(1 << earlier).min(EJECTED_MAX);
        self.ejected_until.store((now + time).as_nanos(), Relaxed);
        Loss::LeftOut(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_micros(1_000_000);

    fn config() -> config::Health {
        config::Health { eject_after: 3, ..config::Health::default() }
    }

    /// A request was lost, and others are well.
    fn lose(health: &Health, now: Instant, config: &config::Health) -> bool {
        matches!(health.on_failure(now, config, || false), Loss::LeftOut(_))
    }

    #[test]
    fn failures_in_a_row_leave_it_out_longer_each_time() {
        let (health, config) = (Health::default(), config());
        let mut now = NOW;
        for seconds in [1, 2, 4] {
            assert!(!lose(&health, now, &config) && !lose(&health, now, &config));
            assert!(lose(&health, now, &config) && !health.is_well(now));
            let back = now + Duration::from_secs(seconds);
            assert!(!health.is_well(back - Duration::from_nanos(1)) && health.is_well(back));
            now = back;
        }
        assert!(health.on_success() && !health.on_success(), "that it is back is told once");
        assert!((0..3).any(|_| lose(&health, now, &config)));
        assert!(health.is_well(now + Duration::from_secs(1)), "it begins anew");
    }

    #[test]
    fn the_last_that_is_well_is_never_left_out() {
        let (health, config) = (Health::default(), config());
        let lose_last = || health.on_failure(NOW, &config, || true);
        let told: Vec<_> = (0..20).map(|_| lose_last()).collect();
        assert_eq!(told.iter().position(|loss| *loss == Loss::Last), Some(2));
        assert_eq!(told.iter().filter(|loss| **loss != Loss::Counted).count(), 1, "said once");
        assert!(health.is_well(NOW) && health.fails(&config));
        assert!(lose(&health, NOW, &config), "another one is well again");
        assert!(health.on_success() && !health.fails(&config));
    }

    #[test]
    fn an_answer_in_between_starts_the_count_anew() {
        let (health, config) = (Health::default(), config());
        for _ in 0..10 {
            assert!(!lose(&health, NOW, &config) && !lose(&health, NOW, &config));
            assert!(!health.on_success());
        }
        assert!(health.is_well(NOW));
    }

    #[test]
    fn it_is_never_left_out_longer_than_a_minute_and_not_at_all_where_that_is_off() {
        let (health, config) = (Health::default(), config());
        let mut now = NOW;
        for _ in 0..100 {
            (0..3).for_each(|_| _ = lose(&health, now, &config));
            now = now + EJECTED_MAX;
            assert!(health.is_well(now));
        }
        let off = config::Health { eject_after: 0, ..config };
        assert!(!(0..1000).any(|_| lose(&health, now, &off)));
    }

    #[test]
    fn who_is_down_is_not_well_whatever_requests_say() {
        let health = Health::default();
        assert!(health.set_up(false) && !health.set_up(false));
        health.on_success();
        assert!(!health.is_well(NOW));
    }
}
