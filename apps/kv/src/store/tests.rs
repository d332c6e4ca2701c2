//! Tests of the store's semantics, one thread, with time as an argument.

use super::*;

const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);

fn later(secs: u64) -> UnixTime {
    UnixTime::from_secs(NOW.as_secs() + secs)
}
