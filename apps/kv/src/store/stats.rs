//! What a store says about itself.

/// A snapshot of a store's counters since it was built, under memcached's names.
///
/// Each number is exact; numbers that belong together may be apart by the operations that ran
/// while the snapshot was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Items in the table now, those not yet seen to be expired or flushed included.
    pub curr_items: u64,
    /// Items ever stored.
    pub total_items: u64,
    /// Bytes of keys and values in the table now.
    pub bytes: u64,
    /// Slab memory taken so far, in bytes. It never shrinks.
    pub page_bytes: u64,
    /// The limit on slab memory, in bytes.
    pub limit_maxbytes: u64,
    /// Buckets of the hash table, which is also the number of item locks.
    pub hash_buckets: u64,
    /// Keys looked up by get and gets.
    pub cmd_get: u64,
    /// Storage commands that reached the table, whatever their outcome.
    pub cmd_set: u64,
    /// Keys looked up by touch, gat and gats.
    pub cmd_touch: u64,
    /// Times that `flush_all` was called.
    pub cmd_flush: u64,
    /// Lookups by get and gets that found an item.
    pub get_hits: u64,
    /// Lookups by get and gets that found none.
    pub get_misses: u64,
    /// Lookups by touch, gat and gats that found an item.
    pub touch_hits: u64,
    /// Lookups by touch, gat and gats that found none.
    pub touch_misses: u64,
    /// Deletions that found an item.
    pub delete_hits: u64,
    /// Deletions that found none.
    pub delete_misses: u64,
    /// Increments that found an item.
    pub incr_hits: u64,
    /// Increments that found none.
    pub incr_misses: u64,
    /// Decrements that found an item.
    pub decr_hits: u64,
    /// Decrements that found none.
    pub decr_misses: u64,
    /// Compare-and-swaps that stored.
    pub cas_hits: u64,
    /// Compare-and-swaps that found no item.
    pub cas_misses: u64,
    /// Compare-and-swaps that found a changed item.
    pub cas_badval: u64,
    /// Live items removed to make room.
    pub evictions: u64,
    /// Items removed because their time was over.
    pub expired: u64,
    /// Items removed because of `flush_all`.
    pub flushed: u64,
}

/// One slab class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// The class's number, from 1 as in memcached.
    pub class: u32,
    /// Size of its chunks, in bytes.
    pub chunk_bytes: u64,
    /// Pages that belong to it.
    pub pages: u64,
    /// Chunks that hold an item, or are being filled for one.
    pub chunks_used: u64,
    /// Chunks that do not.
    pub chunks_free: u64,
}

/// The result of counting everything in a store, bucket by bucket and chunk by chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// Items found in the table.
    pub items: u64,
    /// Bytes of keys and values found in the table.
    pub bytes: u64,
    /// Chunks handed out by the slab allocator.
    pub chunks_used: u64,
    /// Whether each item's chunk is handed out, once, and for that item's bucket.
    pub chunks_match_items: bool,
    /// Whether each class's chunks, used and free, add up to those ever made, and all pages to no
    /// more than the limit.
    pub slabs_balance: bool,
}
