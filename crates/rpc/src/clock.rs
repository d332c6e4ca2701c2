//! The process's clocks: the only place of the live system that reads time.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
use seawall_control::Instant;

/// One moment as two clocks tell it: ours, and the standard library's, whose origin is hidden. Ours
/// is read first, so that what is converted comes late rather than early.
static MOMENT: LazyLock<(Instant, std::time::Instant)> =
    LazyLock::new(|| (now(), std::time::Instant::now()));

/// Now, on the monotonic clock of the kernel, whose origin is the machine's start.
///
/// The origin is the kernel's and not this crate's, so that all who read this clock agree on it
/// without knowing each other: `seawall-sync` reads it, too, and its locks understand the deadlines
/// of contexts that were made here.
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the monotonic clock always runs");
    Instant::from_nanos(u64::try_from(Duration::from(time).as_nanos()).unwrap_or(u64::MAX))
}

/// Now, on the realtime clock, in nanoseconds since 1970: the form in which times travel.
pub fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The same point in time as tokio counts it, for its timers.
pub(crate) fn to_tokio(at: Instant) -> tokio::time::Instant {
    let (own, std) = *MOMENT;
    let far = Duration::from_secs(86_400 * 365);
    tokio::time::Instant::from_std(std + at.since(own).min(std.elapsed() + far))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokio_is_told_the_same_point_in_time() {
        LazyLock::force(&MOMENT); // what was before it is taken for it
        let (at, wait) = (now(), Duration::from_secs(7));
        assert_eq!(to_tokio(at + wait).duration_since(to_tokio(at)), wait);
        let earlier = std::time::Instant::now();
        assert!(to_tokio(now()).into_std() >= earlier);
        to_tokio(Instant::NEVER); // does not overflow
    }
}
