//! Whole-store operations: flushing, sweeping, statistics and the audit.

use core::sync::atomic::Ordering::Relaxed;
use std::collections::HashMap;

use super::counters::Counter;
use super::{Audit, ClassStats, Stats, Store, UnixTime};

impl Store {
    /// Invalidates every item stored before `at`, once `at` is reached; at once if it has been.
    ///
    /// A later call replaces one that is still pending, as in memcached. Memory is given back as
    /// the dead items are met.
    pub fn flush_all(&self, now: UnixTime, at: UnixTime) {
        // One that is due already takes effect before it is replaced.
        self.horizon(now);
        if at <= now {
            self.flush.now(self.last_cas.load(Relaxed));
        } else {
            self.flush.at(at);
        }
        self.counters.count(0, Counter::Flushes);
    }

    /// Removes expired and flushed items from the next `buckets_max` buckets, and says how many
    /// items that were. Repeated calls go round the whole table.
    ///
    /// Each bucket costs one short item lock. A call every second with a sixtieth of the buckets
    /// frees the memory of an expired item within a minute.
    pub fn sweep(&self, now: UnixTime, buckets_max: usize) -> usize {
        let horizon = self.horizon(now);
        let visits = buckets_max.min(self.items.len());
        let start = self.sweep_cursor.fetch_add(visits, Relaxed);
        let mut removed = 0;
        for offset in 0..visits {
            // The number of buckets is a power of two, so the cursor may wrap around.
            let number = (start.wrapping_add(offset) & (self.items.len() - 1)) as u32;
            let mut chunks = Vec::new();
            let mut bucket = self.items.lock_plain(number);
            for item in bucket.extract_if(|item| horizon.death(item).is_some()) {
                let cause = horizon.death(&item).expect("just judged dead");
                self.counters.count(number, cause);
                self.counters.unlinked(number, item.size());
                chunks.push(item.into_chunk());
            }
            drop(bucket);
            if !chunks.is_empty() {
                removed += chunks.len();
                self.slabs.lock_plain().release(chunks);
            }
        }
        removed
    }

    /// A snapshot of the counters. Takes the slab lock for an instant and no item lock.
    pub fn stats(&self) -> Stats {
        let pages = self.slabs.lock_plain().pages();
        Stats {
            page_bytes: u64::from(pages) * self.page_bytes as u64,
            limit_maxbytes: u64::from(self.pages_max) * self.page_bytes as u64,
            hash_buckets: self.items.len() as u64,
            ..self.counters.snapshot()
        }
    }

    /// Statistics of the slab classes that have pages.
    pub fn class_stats(&self) -> Vec<ClassStats> {
        self.slabs.lock_plain().class_stats()
    }

    /// Counts every item and chunk, for tests and for diagnosis.
    ///
    /// Locks every bucket in turn. The result is meaningful only while no other thread uses the
    /// store, because items move between the steps.
    pub fn audit(&self) -> Audit {
        let (mut items, mut bytes) = (0, 0);
        let mut homes = HashMap::new();
        for number in 0..self.items.len() as u32 {
            for item in self.items.lock_plain(number).items() {
                items += 1;
                bytes += item.size() as u64;
                homes.insert(item.chunk_id(), number);
            }
        }
        let slabs = self.slabs.lock_plain();
        let chunks_used = slabs.chunks_in_use().count() as u64;
        let at_home = |(chunk, bucket)| homes.get(&chunk) == Some(&bucket);
        Audit {
            items,
            bytes,
            chunks_used,
            chunks_match_items: homes.len() as u64 == items
                && chunks_used == items
                && slabs.chunks_in_use().all(at_home),
            slabs_balance: slabs.is_balanced(),
        }
    }
}
