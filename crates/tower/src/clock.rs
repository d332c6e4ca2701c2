//! The process's clocks: the only place of this crate that reads time.

use std::sync::LazyLock;
use std::time::Duration;

use seawall_abi::clock;
use seawall_control::Instant;

/// One moment as two clocks tell it: the kernel's, and the standard library's, whose origin is
/// hidden. The kernel's is read first, so that what is converted comes late rather than early.
static MOMENT: LazyLock<(Instant, std::time::Instant)> =
    LazyLock::new(|| (Instant::from_nanos(clock::monotonic_ns()), std::time::Instant::now()));

/// Now, on the monotonic clock of the kernel, whose origin is the machine's start.
///
/// `seawall-sync` reads the same clock, so that its locks understand the deadlines of contexts that
/// are made here. It is read by way of tokio, whose clock stands still in tests that say so.
pub fn now() -> Instant {
    let (own, std) = *MOMENT;
    own + tokio::time::Instant::now().into_std().saturating_duration_since(std)
}

/// Now, on the realtime clock, in nanoseconds since 1970.
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
        let (at, wait) = (now(), Duration::from_secs(7));
        assert_eq!(to_tokio(at + wait).duration_since(to_tokio(at)), wait);
        let earlier = std::time::Instant::now();
        assert!(to_tokio(now()).into_std() >= earlier);
        to_tokio(Instant::NEVER); // does not overflow
    }

    #[test]
    fn all_who_read_the_kernel_s_clock_agree() {
        let own = now();
        assert!(MOMENT.0 <= own && own.as_nanos() <= clock::monotonic_ns());
    }

    #[tokio::test(start_paused = true)]
    async fn it_stands_still_with_tokio_s() {
        let before = now();
        assert_eq!(now(), before);
        tokio::time::advance(Duration::from_millis(5)).await;
        assert_eq!(now().since(before), Duration::from_millis(5));
    }
}
