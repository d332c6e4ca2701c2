//! The process's clocks: the only place of the live system that reads time.

use std::sync::LazyLock;
use std::time::Duration;

use seawall_abi::clock;
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
    Instant::from_nanos(clock::monotonic_ns())
}

/// Now, on the realtime clock, in nanoseconds since 1970: the form in which times travel.
pub fn realtime_ns() -> u64 {
    clock::realtime_ns()
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
        LazyLock::force(&MOMENT); // what is earlier is told as that
        let (at, wait) = (now(), Duration::from_secs(7));
        assert_eq!(to_tokio(at + wait).duration_since(to_tokio(at)), wait);
        let earlier = std::time::Instant::now();
        assert!(to_tokio(now()).into_std() >= earlier);
        to_tokio(Instant::NEVER); // does not overflow
    }
}
