//! The store: a hash table of items whose bytes live in slab memory.
//!
//! ```text
//!   key ──hash──► bucket (item lock) ──► item: cas, flags, expiry ─┐
//!                                                                  │ owns
//!   slab lock ──► size classes ──► pages ──► chunk: key, value ◄───┘
//!                      └─► order of eviction: chunk ──► bucket
//! ```
//!
//! - An item belongs to a bucket, a chunk belongs to an item or to the free list of its size class.
//!   Both are moved, never shared, so no reader can see memory that is being reused.
//! - Locks refuse a request that cannot wait for them (Protego §5.3). It leaves nothing behind.
//! - Reads take one item lock. Writes also take the slab lock, briefly, before and after. No thread
//!   ever holds two of the store's locks; `locks.rs` states the rule and what follows from it.
//! - When the memory limit is reached, a write evicts an item of its own size class, chosen by the
//!   clock rule (second chance), an approximation of least recently used.
//! - Time is an argument. Expired and flushed items stay in the table until somebody looks at them:
//!   an access to their key, an eviction, or [`Store::sweep`].
//!
//! ```
//! use seawall_control::Instant;
//! use seawall_control::request::{Claims, Context};
//! use seawall_kv::store::{Config, Entry, Store};
//! use seawall_kv::{Exptime, UnixTime};
//!
//! let store = Store::new(&Config { memory_limit_mib: 1, ..Config::default() })?;
//! let now = UnixTime::from_secs(1_700_000_000);
//! let exptime = Exptime::from_wire(60);
//! let ctx = Context::new(Claims::default(), Instant::ORIGIN); // a request that may wait for ever
//! store.set(&ctx, now, &Entry { key: b"greeting", value: b"hello", flags: 0, exptime })?;
//! assert_eq!(store.get(&ctx, now, b"greeting")?.unwrap().data, "hello");
//! assert_eq!(store.get(&ctx, UnixTime::from_secs(1_700_000_060), b"greeting")?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arithmetic;
mod bucket;
mod classes;
mod config;
mod counters;
mod death;
mod locks;
mod lru;
mod maintain;
mod reserve;
mod slabs;
mod stats;
mod write;

use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::hash::RandomState;

use bytes::Bytes;
use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use seawall_control::request::{Context, Rejected};

use self::bucket::{Bucket, Item, Spot};
use self::classes::SizeClasses;
use self::counters::{Counter, Counters};
use self::death::{Flush, Horizon};
use self::locks::{Guard, ItemLocks, SlabLock};
use self::reserve::Reservation;
use self::slabs::Slabs;
use crate::time::{Expiry, Exptime, UnixTime};

pub use self::arithmetic::ArithmeticError;
pub use seawall_control::predict::lock::LockKind;

pub use self::config::{Config, ConfigError, ITEM_BYTES_MAX, KEY_BYTES_MAX, PAGE_BYTES};
pub use self::locks::{ITEM_LOCK, SLAB_LOCK};
pub use self::stats::{Audit, ClassStats, Stats};
pub use self::write::{Entry, StoreError, StoreMode, StoreOutcome};

/// A key-value store with a memory limit, to be shared between threads in an `Arc`.
///
/// Methods wait for the store's own locks and for nothing else, and those that serve a request wait
/// no longer than its context allows: a refused request has changed nothing, except that an item
/// may have been evicted to make room for it. `now` is the present in Unix time;
/// see [`UnixTime`] for what is asked of it.
#[derive(Debug)]
pub struct Store {
    items: ItemLocks,
    slabs: SlabLock,
    classes: SizeClasses,
    counters: Counters,
    flush: Flush,
    /// The last compare-and-swap number given out; the first is 1.
    last_cas: AtomicU64,
    /// The bucket where the next [`Store::sweep`] begins.
    sweep_cursor: AtomicUsize,
    hash_seed: (u64, SharedSeed),
    page_bytes: usize,
    pages_max: u32,
}

/// What a lookup found.
///
/// The bytes are a copy. A view into the chunk would be cheaper to make, but it would keep the
/// chunk, and with it a part of the memory limit, in use for as long as the slowest client takes
/// to read its reply; so would holding the item lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The value's bytes.
    pub data: Bytes,
    /// What the client that stored it attached to it.
    pub flags: u32,
    /// The number of this version of the item, for [`StoreMode::Cas`].
    pub cas: u64,
}

impl Store {
    /// An empty store with a random hash seed, so that nobody can send keys that collide.
    ///
    /// # Errors
    ///
    /// If `config` is not valid.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        // The standard library seeds this from the operating system.
        Self::with_seed(config, RandomState::new().hash_one(0))
    }

    /// An empty store whose hash function follows from `seed`, for experiments that must repeat.
    ///
    /// # Errors
    ///
    /// If `config` is not valid.
    pub fn with_seed(config: &Config, seed: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        let classes = SizeClasses::new(config);
        let slabs = Slabs::new(&classes, config.page_bytes(), config.pages_max(), config.evict);
        Ok(Self {
            items: ItemLocks::new(config.hash_power, config.locks),
            slabs: SlabLock::new(slabs, config.locks),
            classes,
            counters: Counters::new(),
            flush: Flush::new(),
            last_cas: AtomicU64::new(0),
            sweep_cursor: AtomicUsize::new(0),
            hash_seed: (seed, SharedSeed::from_u64(!seed)),
            page_bytes: config.page_bytes(),
            pages_max: config.pages_max(),
        })
    }

    /// Looks up `key`. Serves both `get` and `gets`: the answer carries its compare-and-swap
    /// number.
    ///
    /// # Errors
    ///
    /// The request cannot wait for the item lock.
    pub fn get(&self, ctx: &Context, now: UnixTime, key: &[u8]) -> Result<Option<Value>, Rejected> {
        let spot = self.spot(key);
        let value = self.with_live(ctx, now, spot, key, |item| Value::copy_of(item))?;
        self.counters.either(spot.bucket, value.is_some(), Counter::GetHits, Counter::GetMisses);
        Ok(value)
    }

    /// How many bytes the value of `key` has, which is not copied. It counts as no lookup.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get).
    pub fn value_len(
        &self,
        ctx: &Context,
        now: UnixTime,
        key: &[u8],
    ) -> Result<Option<usize>, Rejected> {
        self.with_live(ctx, now, self.spot(key), key, |item| item.value().len())
    }

    /// Looks up `key` and gives it a new expiration time: `gat` and `gats`.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get).
    pub fn gat(
        &self,
        ctx: &Context,
        now: UnixTime,
        key: &[u8],
        exptime: Exptime,
    ) -> Result<Option<Value>, Rejected> {
        let spot = self.spot(key);
        let value = self.with_live(ctx, now, spot, key, |item| {
            item.expiry = Expiry::new(exptime, now);
            Value::copy_of(item)
        })?;
        self.count_touch(spot, value.is_some());
        Ok(value)
    }

    /// Gives `key` a new expiration time; `false` if there is no such item.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get).
    pub fn touch(
        &self,
        ctx: &Context,
        now: UnixTime,
        key: &[u8],
        exptime: Exptime,
    ) -> Result<bool, Rejected> {
        let spot = self.spot(key);
        let touched = self.with_live(ctx, now, spot, key, |item| {
            item.expiry = Expiry::new(exptime, now);
        })?;
        self.count_touch(spot, touched.is_some());
        Ok(touched.is_some())
    }

    /// Removes `key`; `false` if there is no such item.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get).
    pub fn delete(&self, ctx: &Context, now: UnixTime, key: &[u8]) -> Result<bool, Rejected> {
        let spot = self.spot(key);
        let bucket = self.items.lock(ctx, spot.bucket)?;
        let deleted = self.unlink_key(Some(ctx), bucket, now, spot, key);
        self.counters.either(spot.bucket, deleted, Counter::DeleteHits, Counter::DeleteMisses);
        Ok(deleted)
    }

    /// The largest item that fits, in bytes of key and value together.
    pub fn item_bytes_max(&self) -> usize {
        self.classes.largest()
    }

    /// Runs `access` on the live item under `key`, with its item lock held, and marks it used.
    fn with_live<R>(
        &self,
        ctx: &Context,
        now: UnixTime,
        spot: Spot,
        key: &[u8],
        access: impl FnOnce(&mut Item) -> R,
    ) -> Result<Option<R>, Rejected> {
        let horizon = self.horizon(now);
        let mut dead = None;
        let mut bucket = self.items.lock(ctx, spot.bucket)?;
        let found = self.find_live(Some(ctx), &mut bucket, spot, key, &horizon, &mut dead);
        Ok(found.map(|index| {
            let item = bucket.item_mut(index);
            item.referenced = true;
            access(item)
        }))
    }

    /// Unlinks `key` from its locked bucket, and says whether it was alive.
    fn unlink_key(
        &self,
        payer: Option<&Context>,
        bucket: Guard<'_, Bucket>,
        now: UnixTime,
        spot: Spot,
        key: &[u8],
    ) -> bool {
        let horizon = self.horizon(now);
        let mut unlinked = None;
        let mut bucket = bucket; // to be dropped before what was unlinked
        let found = self.find_live(payer, &mut bucket, spot, key, &horizon, &mut unlinked);
        if let Some(index) = found {
            unlinked = Some(self.unlink(payer, &mut bucket, spot.bucket, index));
        }
        // First unlock, then give back.
        drop(bucket);
        drop(unlinked);
        found.is_some()
    }

    /// The place of the live item under `key`. A dead one is unlinked into `dead`, which the
    /// caller must drop after the lock.
    fn find_live<'s>(
        &'s self,
        payer: Option<&'s Context>,
        bucket: &mut Bucket,
        spot: Spot,
        key: &[u8],
        horizon: &Horizon,
        dead: &mut Option<Reservation<'s>>,
    ) -> Option<usize> {
        let index = bucket.find(spot.tag, key)?;
        let Some(cause) = horizon.death(bucket.item_mut(index)) else { return Some(index) };
        self.counters.count(spot.bucket, cause);
        *dead = Some(self.unlink(payer, bucket, spot.bucket, index));
        None
    }

    fn unlink<'s>(
        &'s self,
        payer: Option<&'s Context>,
        bucket: &mut Bucket,
        number: u32,
        index: usize,
    ) -> Reservation<'s> {
        let item = bucket.remove(index);
        self.counters.unlinked(number, item.size());
        Reservation::new(&self.slabs, item.into_chunk(), payer)
    }

    fn count_touch(&self, spot: Spot, found: bool) {
        self.counters.either(spot.bucket, found, Counter::TouchHits, Counter::TouchMisses);
    }

    fn spot(&self, key: &[u8]) -> Spot {
        let mut hasher = FoldHasher::with_seed(self.hash_seed.0, &self.hash_seed.1);
        hasher.write(key);
        let hash = hasher.finish();
        let bucket = (hash as usize & (self.items.len() - 1)) as u32;
        Spot { bucket, tag: (hash >> 32) as u32 }
    }

    fn horizon(&self, now: UnixTime) -> Horizon {
        self.flush.horizon(now, &self.last_cas)
    }

    fn next_cas(&self) -> u64 {
        self.last_cas.fetch_add(1, Relaxed) + 1
    }
}

impl Value {
    fn copy_of(item: &Item) -> Self {
        Self { data: Bytes::copy_from_slice(item.value()), flags: item.flags, cas: item.cas }
    }
}

#[cfg(test)]
mod refusals;
#[cfg(test)]
mod tests;
