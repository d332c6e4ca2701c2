//! Frees the memory of expired items that nobody looks at.

use std::sync::Arc;
use std::time::Duration;

use super::clock::unix_time;
use crate::store::Store;

/// A round over the table is made of this many equal steps, so that none of them is long.
const STEPS_PER_ROUND: u32 = 1024;

/// Buckets visited before other tasks of the thread get their turn: some microseconds.
const BUCKETS_PER_SLICE: usize = 64;

/// Goes round the table for ever, each time in `period`.
pub(super) async fn sweep(store: Arc<Store>, period: Duration) {
    let buckets_per_step = store.stats().hash_buckets.div_ceil(u64::from(STEPS_PER_ROUND)) as usize;
    loop {
        tokio::time::sleep(period / STEPS_PER_ROUND).await;
        let mut left = buckets_per_step;
        while left > 0 {
            let slice = left.min(BUCKETS_PER_SLICE);
            store.sweep(unix_time(), slice);
            left -= slice;
            tokio::task::yield_now().await;
        }
    }
}
