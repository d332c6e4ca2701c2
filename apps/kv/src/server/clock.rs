//! The wall clock: the only place of this crate that reads it.

use seawall_rpc::clock;

use crate::time::UnixTime;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Now.
pub(super) fn unix_time() -> UnixTime {
    UnixTime::from_secs(clock::realtime_ns() / NANOS_PER_SEC)
}
