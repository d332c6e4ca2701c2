//! The process's clocks: the only place of the live system that reads time.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use seawall_control::Instant;

static ORIGIN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// Now, on the monotonic clock. Its origin is the first call in this process.
pub fn now() -> Instant {
    Instant::from_nanos(u64::try_from(ORIGIN.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Now, on the realtime clock, in nanoseconds since 1970: the form in which times travel.
pub fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The same point in time as tokio counts it, for its timers.
pub(crate) fn to_tokio(at: Instant) -> tokio::time::Instant {
    let since_origin = std::time::Duration::from_nanos(at.as_nanos());
    let far = std::time::Duration::from_secs(86_400 * 365);
    tokio::time::Instant::from_std(*ORIGIN + since_origin.min(ORIGIN.elapsed() + far))
}
