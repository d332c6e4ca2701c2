//! Event counters that threads can bump without meeting each other.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::stats::Stats;

/// Stripes of counters. Enough that the few dozen threads of a server seldom share one.
const STRIPES: usize = 64;

/// What is counted. The variants index a stripe.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counter {
    Items,
    ItemsStored,
    Bytes,
    Stores,
    Flushes,
    GetHits,
    GetMisses,
    TouchHits,
    TouchMisses,
    DeleteHits,
    DeleteMisses,
    IncrHits,
    IncrMisses,
    DecrHits,
    DecrMisses,
    CasHits,
    CasMisses,
    CasBadValue,
    Evicted,
    Expired,
    Flushed,
}

const COUNTERS: usize = Counter::Flushed as usize + 1;

/// Counters striped by bucket: relaxed, so exact in sum and cheap to bump.
///
/// An item is counted in and out on its bucket's stripe, so no stripe ever goes below zero.
#[derive(Debug)]
pub(super) struct Counters {
    stripes: Box<[Stripe]>,
}

/// Two cache lines apart, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; COUNTERS]);

impl Counters {
    pub(super) fn new() -> Self {
        Self { stripes: (0..STRIPES).map(|_| Stripe::default()).collect() }
    }

    /// Counts one event on behalf of `bucket`.
    pub(super) fn count(&self, bucket: u32, counter: Counter) {
        self.cell(bucket, counter).fetch_add(1, Relaxed);
    }

    /// Counts a hit or a miss on behalf of `bucket`.
    pub(super) fn either(&self, bucket: u32, found: bool, hit: Counter, miss: Counter) {
        self.count(bucket, if found { hit } else { miss });
    }

    /// An item of `bytes` came into the table.
    pub(super) fn linked(&self, bucket: u32, bytes: usize) {
        self.count(bucket, Counter::Items);
        self.count(bucket, Counter::ItemsStored);
        self.cell(bucket, Counter::Bytes).fetch_add(bytes as u64, Relaxed);
    }

    /// An item of `bytes` left the table.
    pub(super) fn unlinked(&self, bucket: u32, bytes: usize) {
        self.cell(bucket, Counter::Items).fetch_sub(1, Relaxed);
        self.cell(bucket, Counter::Bytes).fetch_sub(bytes as u64, Relaxed);
    }

    /// An item's size changed in place.
    pub(super) fn resized(&self, bucket: u32, before: usize, after: usize) {
        // Two's complement: adding the difference modulo 2^64 also subtracts.
        let difference = (after as u64).wrapping_sub(before as u64);
        self.cell(bucket, Counter::Bytes).fetch_add(difference, Relaxed);
    }

    /// The counters' part of a snapshot; the sizes are left at zero.
    pub(super) fn snapshot(&self) -> Stats {
        let sum = |counter: Counter| -> u64 {
            let values = self.stripes.iter().map(|stripe| stripe.0[counter as usize].load(Relaxed));
            values.sum()
        };
        let (get_hits, get_misses) = (sum(Counter::GetHits), sum(Counter::GetMisses));
        let (touch_hits, touch_misses) = (sum(Counter::TouchHits), sum(Counter::TouchMisses));
        Stats {
            curr_items: sum(Counter::Items),
            total_items: sum(Counter::ItemsStored),
            bytes: sum(Counter::Bytes),
            cmd_get: get_hits + get_misses,
            cmd_set: sum(Counter::Stores),
            cmd_touch: touch_hits + touch_misses,
            cmd_flush: sum(Counter::Flushes),
            get_hits,
            get_misses,
            touch_hits,
            touch_misses,
            delete_hits: sum(Counter::DeleteHits),
            delete_misses: sum(Counter::DeleteMisses),
            incr_hits: sum(Counter::IncrHits),
            incr_misses: sum(Counter::IncrMisses),
            decr_hits: sum(Counter::DecrHits),
            decr_misses: sum(Counter::DecrMisses),
            cas_hits: sum(Counter::CasHits),
            cas_misses: sum(Counter::CasMisses),
            cas_badval: sum(Counter::CasBadValue),
            evictions: sum(Counter::Evicted),
            expired: sum(Counter::Expired),
            flushed: sum(Counter::Flushed),
            ..Stats::default()
        }
    }

    fn cell(&self, bucket: u32, counter: Counter) -> &AtomicU64 {
        &self.stripes[bucket as usize % STRIPES].0[counter as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_shrink_and_grow_exactly() {
        let counters = Counters::new();
        counters.linked(3, 100);
        counters.linked(STRIPES as u32 + 4, 50);
        counters.resized(3, 100, 20);
        counters.resized(3, 20, 30);
        counters.unlinked(STRIPES as u32 + 4, 50);
        let stats = counters.snapshot();
        assert_eq!((stats.curr_items, stats.total_items, stats.bytes), (1, 2, 30));
    }
}
