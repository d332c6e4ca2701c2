//! The clocks that pages speak in.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`, which all processes of a machine share.
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds of `CLOCK_REALTIME` since 1970, in which jobs say when they began.
pub fn realtime_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_REALTIME)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock).expect("the clock is there on every Linux");
    let (seconds, nanoseconds) =
        (u64::try_from(now.tv_sec()), u64::try_from(now.tv_nsec()).unwrap_or(0));
    // A wall clock that was set before 1970 reads as 1970.
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}
