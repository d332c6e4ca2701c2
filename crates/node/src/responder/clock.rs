//! What the kernel's clocks are ahead of the one in requests.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use seawall_control::Instant;

/// What `CLOCK_TAI` is ahead of `CLOCK_REALTIME`: leap seconds, so whole seconds. Zero where nobody
/// has told the kernel of any.
///
/// A step of the one steps the other, so that this changes only with the kernel's knowledge of leap
/// seconds.
pub(super) fn tai_ahead_ns() -> i64 {
    let ahead = since_epoch(ClockId::CLOCK_TAI) - since_epoch(ClockId::CLOCK_REALTIME);
    // The clocks were read one after the other.
    let second = 1_000_000_000;
    (ahead + second / 2).div_euclid(second) * second
}

/// What `CLOCK_MONOTONIC` is ahead of `CLOCK_REALTIME`: a negative number. It changes whenever the
/// clock is set.
pub(super) fn monotonic_ahead_ns() -> i64 {
    // The narrowest of some readings is the best.
    let reading = |_| {
        let before = since_epoch(ClockId::CLOCK_MONOTONIC);
        let real = since_epoch(ClockId::CLOCK_REALTIME);
        let after = since_epoch(ClockId::CLOCK_MONOTONIC);
        (after - before, before + (after - before) / 2 - real)
    };
    (0..3).map(reading).min().map_or(0, |(_, ahead)| ahead)
}

/// The time on the clock that boosts and freezes end by.
pub fn monotonic_now() -> Instant {
    Instant::from_nanos(u64::try_from(since_epoch(ClockId::CLOCK_MONOTONIC)).unwrap_or(0))
}

fn since_epoch(clock: ClockId) -> i64 {
    let time = clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_compared() {
        let tai = tai_ahead_ns();
        assert_eq!(tai % 1_000_000_000, 0);
        assert!((0..100_000_000_000).contains(&tai), "{tai}");
        assert!(monotonic_ahead_ns() < 0, "it is not 1970");
        assert!(monotonic_now() > Instant::from_nanos(0));
    }
}
