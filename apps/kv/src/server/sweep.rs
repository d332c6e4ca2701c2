//! Frees the memory of expired items that nobody looks at.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::clock::unix_time;
use crate::store::Store;

/// A round over the table is made of this many steps, so that none of them is long.
const STEPS_PER_ROUND: u32 = 1024;

/// Buckets visited before other tasks of the thread get their turn: some microseconds.
const BUCKETS_PER_SLICE: u64 = 64;

/// Goes round the table for ever, each time in `period`.
pub(super) async fn sweep(store: Arc<Store>, period: Duration) {
    let buckets = store.stats().hash_buckets;
    let (begin, mut visited) = (Instant::now(), 0);
    loop {
        tokio::time::sleep(period / STEPS_PER_ROUND).await;
        let due = due(begin.elapsed(), period, buckets);
        // What a process that was asleep has missed is one round to do, not several.
        visited = due.saturating_sub(buckets).max(visited);
        while visited < due {
            let slice = (due - visited).min(BUCKETS_PER_SLICE);
            store.sweep(unix_time(), slice as usize);
            visited += slice;
            tokio::task::yield_now().await;
        }
    }
}

/// How many buckets must have been visited since the begin, counted in all rounds. Steps take time
/// as well, and a busy thread wakes up late, so that only the clock keeps the period.
fn due(elapsed: Duration, period: Duration, buckets: u64) -> u64 {
    let due = u128::from(buckets) * elapsed.as_nanos() / period.as_nanos();
    due.try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_is_due_once_in_a_period() {
        let period = Duration::from_secs(60);
        let after = |seconds| due(Duration::from_secs(seconds), period, 1 << 16);
        assert_eq!([0, 30, 60, 90].map(after), [0, 1 << 15, 1 << 16, 3 << 15]);
        // Steps that are too short for a whole bucket add up.
        let step = period / STEPS_PER_ROUND;
        let small: Vec<u64> = (0..=STEPS_PER_ROUND).map(|n| due(step * n, period, 16)).collect();
        assert!(small.is_sorted());
        assert_eq!((small[63], small[64]), (0, 1));
        assert_eq!(due(period, period, 16), 16);
        assert_eq!(due(Duration::MAX, Duration::from_secs(1), 1 << 26), u64::MAX);
    }
}
