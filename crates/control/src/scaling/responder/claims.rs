//! What senders say of the start of a job, and whether to believe it. The eBPF program of the node
//! agent does the same in the kernel.

use core::time::Duration;

use crate::time::Instant;

/// A service is boosted for at most this of each time twice as long: half of any second. A boost is
/// for the time until the slower controller has seen the surge, which is shorter.
pub const BOOSTED_MAX: Duration = Duration::from_millis(500);

/// Why the start of a job is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unbelievable {
    /// There is none.
    Absent,
    /// It lies in the future: the sender's clock is ahead.
    Future,
    /// It is too long ago: nobody waits for that job any more, or the sender's clock is wrong.
    Stale,
}

/// `observedTimeFromStart` of a request that comes now (SurgeGuard equation 5). Both times are
/// nanoseconds of the wall clock; `start_ns` is what the request claims.
///
/// # Errors
///
/// When the claim cannot be believed.
pub fn observed(
    start_ns: u64,
    realtime_ns: u64,
    age_max: Duration,
) -> Result<Duration, Unbelievable> {
    if start_ns == 0 {
        return Err(Unbelievable::Absent);
    }
    let passed = realtime_ns.checked_sub(start_ns).ok_or(Unbelievable::Future)?;
    let passed = Duration::from_nanos(passed);
    if passed > age_max { Err(Unbelievable::Stale) } else { Ok(passed) }
}

/// Whether a service's requests are believed to be late. Clocks that disagree make all of them
/// late, for ever; a surge ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trust {
    /// Since when all requests that could be judged were late.
    late_since: Option<Instant>,
    turn: Turn,
}

/// A bound on the time for which one service is boosted. Where one sender's clock is behind while
/// others' requests are in time, some are late for ever.
///
/// A turn begins with a boost and lasts for `boosted_max`; as long again nothing follows. So of any
/// time twice as long, the service is boosted for half at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    began: Option<Instant>,
}

impl Turn {
    /// Until when a boost lasts that is to last until `until`; `None` if there has been enough.
    pub fn grant(
        &mut self,
        now: Instant,
        until: Instant,
        boosted_max: Duration,
    ) -> Option<Instant> {
        let is_over = |began: &Instant| now.since(*began) >= boosted_max.saturating_mul(2);
        if self.began.as_ref().is_none_or(is_over) {
            self.began = Some(now);
        }
        let end = self.began? + boosted_max;
        (now < end).then(|| until.min(end))
    }
}

impl Trust {
    /// A request was judged. Whether its lateness is to be believed: not if there was none in time
    /// for longer than `late_max`.
    pub fn on_judged(&mut self, now: Instant, is_late: bool, late_max: Duration) -> bool {
        if !is_late {
            self.late_since = None;
            return false;
        }
        now.since(*self.late_since.get_or_insert(now)) <= late_max
    }

    /// Until when a boost of the service lasts that is to last until `until`; `None` if it has been
    /// boosted for half of a second.
    pub fn grant(&mut self, now: Instant, until: Instant) -> Option<Instant> {
        self.turn.grant(now, until, BOOSTED_MAX)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_cannot_be_is_told_apart() {
        let max = Duration::from_secs(10);
        assert_eq!(observed(100, 350, max), Ok(Duration::from_nanos(250)));
        assert_eq!(observed(350, 350, max), Ok(Duration::ZERO));
        assert_eq!(observed(0, 350, max), Err(Unbelievable::Absent));
        assert_eq!(observed(351, 350, max), Err(Unbelievable::Future));
        assert_eq!(observed(1, 20_000_000_000, max), Err(Unbelievable::Stale));
    }

    #[test]
    fn if_all_are_late_for_long_none_is_believed() {
        let mut trust = Trust::default();
        let mut judge = |second: u64, is_late| {
            let now = Instant::from_micros(second * 1_000_000);
            trust.on_judged(now, is_late, Duration::from_secs(10))
        };
        assert!((0..=10).all(|second| judge(second, true)));
        assert!(!judge(11, true));
        assert!(!judge(12, false));
        assert!(judge(12, true));
    }

    #[test]
    fn of_any_second_half_is_boosted_at_most() {
        let at = |ms: u64| Instant::from_micros(ms * 1_000);
        let mut trust = Trust::default();
        // A request is late in every millisecond, and each boost is for 100.
        let boosted: Vec<(u64, u64)> = (0..5_000)
            .filter_map(|ms| Some((ms, trust.grant(at(ms), at(ms + 100))?.as_nanos() / 1_000_000)))
            .collect();
        let is_boosted = |ms: u64| boosted.iter().any(|(from, to)| (*from..*to).contains(&ms));
        let all: Vec<bool> = (0..6_000).map(is_boosted).collect();
        let most = all.windows(1_000).map(|second| second.iter().filter(|it| **it).count()).max();
        assert_eq!(most, Some(500));
        assert_eq!(all.iter().filter(|it| **it).count(), 2_500, "and no less");
    }

    proptest! {
        #[test]
        fn any_clocks_give_an_answer(start: u64, now: u64, age_max: u64) {
            let age_max = Duration::from_nanos(age_max);
            match observed(start, now, age_max) {
                Ok(passed) => prop_assert!(passed <= age_max && start <= now),
                Err(Unbelievable::Absent) => prop_assert_eq!(start, 0),
                Err(Unbelievable::Future) => prop_assert!(start > now),
                Err(Unbelievable::Stale) => prop_assert!(now - start > 0),
            }
        }
    }
}
