//! The process's monotonic clock: the only place of the proxy that reads time.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use seawall_control::Instant;

/// Now, on the monotonic clock of the kernel.
pub(crate) fn now() -> Instant {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the monotonic clock always runs");
    Instant::from_nanos(u64::try_from(Duration::from(time).as_nanos()).unwrap_or(u64::MAX))
}
