//! The storage commands: set, add, replace, cas, append and prepend.

use seawall_control::request::{Context, Rejected};

use super::bucket::{Edit, Header, Item, Spot, fill};
use super::counters::Counter;
use super::reserve::Reservation;
use super::{Expiry, Exptime, KEY_BYTES_MAX, Store, UnixTime};

/// What a storage command brings.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// 1 to [`KEY_BYTES_MAX`] bytes of any kind. (The text protocol allows fewer kinds.)
    pub key: &'a [u8],
    /// The value, or the part to append or prepend.
    pub value: &'a [u8],
    /// Opaque to the store. Ignored by append and prepend.
    pub flags: u32,
    /// Ignored by append and prepend.
    pub exptime: Exptime,
}

/// Which storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Store in any case.
    Set,
    /// Store only if there is no item.
    Add,
    /// Store only if there is an item.
    Replace,
    /// Add to the end of the item that there is.
    Append,
    /// Add to the beginning of the item that there is.
    Prepend,
    /// Store only if the item is still the version with this number.
    Cas(u64),
}

/// What became of a storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// Stored.
    Stored,
    /// The condition of add, replace, append or prepend does not hold.
    NotStored,
    /// Cas: the item is another version by now.
    Exists,
    /// Cas: there is no item.
    NotFound,
}

/// Why a storage command could not be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A key is 1 to [`KEY_BYTES_MAX`] bytes long.
    #[error("a key of {len} bytes, allowed are 1 to {KEY_BYTES_MAX}")]
    KeyLength {
        /// The key's length in bytes.
        len: usize,
    },
    /// Key and value together exceed the largest item.
    #[error("an item of {bytes} bytes, at most {bytes_max} fit")]
    TooLarge {
        /// Key and value together, in bytes.
        bytes: usize,
        /// The largest item, in bytes.
        bytes_max: usize,
    },
    /// The memory limit is reached, and there is nothing to evict in the item's size class.
    #[error("out of memory")]
    OutOfMemory,
    /// The request cannot wait for a lock. Nothing has changed.
    #[error(transparent)]
    Rejected(#[from] Rejected),
}

/// When an item may be put in the place of what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    None,
    Absent,
    Present,
    Unchanged(u64),
}

impl Store {
    /// Carries out a storage command. [`set`](Self::set) and its siblings are shorthands for it.
    ///
    /// When a set fails, the value that it was to replace is gone too, as in memcached: a client
    /// must not go on reading what it believes overwritten. All other failures change nothing, and
    /// neither does a refusal.
    ///
    /// # Errors
    ///
    /// [`StoreError`]: a bad key, a too large item, no memory, or no time to wait for a lock.
    pub fn store(
        &self,
        ctx: &Context,
        now: UnixTime,
        mode: StoreMode,
        entry: &Entry<'_>,
    ) -> Result<StoreOutcome, StoreError> {
        let len = entry.key.len();
        if len == 0 || len > KEY_BYTES_MAX {
            return Err(StoreError::KeyLength { len });
        }
        match mode {
            StoreMode::Set => {
                let stored = self.put(ctx, now, Condition::None, entry);
                stored.inspect_err(|error| {
                    if !matches!(error, StoreError::Rejected(_)) {
                        self.discard(now, entry.key);
                    }
                })
            }
            StoreMode::Add => self.put(ctx, now, Condition::Absent, entry),
            StoreMode::Replace => self.put(ctx, now, Condition::Present, entry),
            StoreMode::Cas(cas) => self.put(ctx, now, Condition::Unchanged(cas), entry),
            StoreMode::Append => self.extend(ctx, now, entry.key, Edit::Append(entry.value)),
            StoreMode::Prepend => self.extend(ctx, now, entry.key, Edit::Prepend(entry.value)),
        }
    }

    /// Stores in any case.
    ///
    /// # Errors
    ///
    /// As for [`store`](Self::store).
    pub fn set(&self, ctx: &Context, now: UnixTime, entry: &Entry<'_>) -> Result<(), StoreError> {
        self.store(ctx, now, StoreMode::Set, entry).map(|_| ())
    }

    /// Stores if there is no such item, and says whether it did.
    ///
    /// # Errors
    ///
    /// As for [`store`](Self::store).
    pub fn add(&self, ctx: &Context, now: UnixTime, entry: &Entry<'_>) -> Result<bool, StoreError> {
        self.is_stored(ctx, now, StoreMode::Add, entry)
    }

    /// Stores if there is such an item, and says whether it did.
    ///
    /// # Errors
    ///
    /// As for [`store`](Self::store).
    pub fn replace(
        &self,
        ctx: &Context,
        now: UnixTime,
        entry: &Entry<'_>,
    ) -> Result<bool, StoreError> {
        self.is_stored(ctx, now, StoreMode::Replace, entry)
    }

    /// Adds to the end of an item, and says whether there was one.
    ///
    /// # Errors
    ///
    /// As for [`store`](Self::store).
    pub fn append(
        &self,
        ctx: &Context,
        now: UnixTime,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, StoreError> {
        let entry = Entry { key, value, flags: 0, exptime: Exptime::NEVER };
        self.is_stored(ctx, now, StoreMode::Append, &entry)
    }

    /// Adds to the beginning of an item, and says whether there was one.
    ///
    /// # Errors
    ///
    /// As for [`store`](Self::store).
    pub fn prepend(
        &self,
        ctx: &Context,
        now: UnixTime,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, StoreError> {
        let entry = Entry { key, value, flags: 0, exptime: Exptime::NEVER };
        self.is_stored(ctx, now, StoreMode::Prepend, &entry)
    }

    /// Stores if the item is still the version `cas`, which a lookup returned.
    ///
    /// # Errors
    ///
    /// As for [`store`](Self::store).
    pub fn cas(
        &self,
        ctx: &Context,
        now: UnixTime,
        cas: u64,
        entry: &Entry<'_>,
    ) -> Result<StoreOutcome, StoreError> {
        self.store(ctx, now, StoreMode::Cas(cas), entry)
    }

    /// Removes `key` on behalf of a set that could not be carried out. It is never refused: its
    /// client believes the old value overwritten.
    pub(crate) fn discard(&self, now: UnixTime, key: &[u8]) {
        let spot = self.spot(key);
        self.unlink_key(None, self.items.lock_plain(spot.bucket), now, spot, key);
    }

    /// Repeats `attempt`, which changes an item under its lock, with ever larger spare chunks
    /// until one suffices. An attempt that needs more room says how many bytes.
    pub(super) fn with_room<'s, T>(
        &'s self,
        ctx: &'s Context,
        now: UnixTime,
        bucket: u32,
        mut attempt: impl FnMut(&mut Option<Reservation<'s>>) -> Result<Result<T, usize>, Rejected>,
    ) -> Result<T, StoreError> {
        let mut spare = None;
        // Ends because each round reserves a chunk of a larger class than the one before.
        loop {
            match attempt(&mut spare)? {
                Ok(done) => return Ok(done),
                Err(needed) => {
                    drop(spare.take());
                    spare = Some(self.reserve(ctx, now, bucket, needed)?);
                }
            }
        }
    }

    /// Edits an item under its lock; on success it is a new version.
    pub(super) fn edit(
        &self,
        bucket: u32,
        item: &mut Item,
        edit: Edit<'_>,
        spare: &mut Option<Reservation<'_>>,
    ) -> Result<(), usize> {
        let before = item.size();
        item.edit(edit, spare.as_deref_mut())?;
        item.cas = self.next_cas();
        self.counters.resized(bucket, before, item.size());
        Ok(())
    }

    fn is_stored(
        &self,
        ctx: &Context,
        now: UnixTime,
        mode: StoreMode,
        entry: &Entry<'_>,
    ) -> Result<bool, StoreError> {
        Ok(self.store(ctx, now, mode, entry)? == StoreOutcome::Stored)
    }

    fn put(
        &self,
        ctx: &Context,
        now: UnixTime,
        condition: Condition,
        entry: &Entry<'_>,
    ) -> Result<StoreOutcome, StoreError> {
        let spot = self.spot(entry.key);
        let mut chunk = self.reserve(ctx, now, spot.bucket, entry.key.len() + entry.value.len())?;
        fill(&mut chunk, entry.key, entry.value);
        Ok(self.link(ctx, now, spot, condition, entry, chunk)?)
    }

    /// Links the filled chunk if the condition holds; else it goes back to its free list.
    fn link(
        &self,
        ctx: &Context,
        now: UnixTime,
        spot: Spot,
        condition: Condition,
        entry: &Entry<'_>,
        chunk: Reservation<'_>,
    ) -> Result<StoreOutcome, Rejected> {
        let horizon = self.horizon(now);
        // Like `chunk`, this is dropped, and so given back, after the bucket is unlocked.
        let mut unlinked = None;
        let mut bucket = self.items.lock(ctx, spot.bucket)?;
        let found =
            self.find_live(Some(ctx), &mut bucket, spot, entry.key, &horizon, &mut unlinked);
        let outcome = condition.outcome(found.map(|index| bucket.item_mut(index).cas));
        self.count_store(spot, condition, outcome);
        if outcome != StoreOutcome::Stored {
            if let Some(index) = found {
                // Somebody wants this item enough to have tried to store it.
                bucket.item_mut(index).referenced = true;
            }
            return Ok(outcome);
        }
        if let Some(index) = found {
            unlinked = Some(self.unlink(Some(ctx), &mut bucket, spot.bucket, index));
        }
        let expiry = Expiry::new(entry.exptime, now);
        let header = Header { cas: self.next_cas(), expiry, flags: entry.flags };
        let lens = (entry.key.len(), entry.value.len());
        let item = Item::new(chunk.into_chunk(), spot.tag, lens, header);
        self.counters.linked(spot.bucket, item.size());
        bucket.insert(item);
        drop(bucket);
        drop(unlinked);
        Ok(outcome)
    }

    fn extend(
        &self,
        ctx: &Context,
        now: UnixTime,
        key: &[u8],
        edit: Edit<'_>,
    ) -> Result<StoreOutcome, StoreError> {
        let spot = self.spot(key);
        let edited = self.with_room(ctx, now, spot.bucket, |spare| {
            let edit = |item: &mut Item| self.edit(spot.bucket, item, edit, spare);
            Ok(self.with_live(ctx, now, spot, key, edit)?.transpose())
        })?;
        self.counters.count(spot.bucket, Counter::Stores);
        Ok(edited.map_or(StoreOutcome::NotStored, |()| StoreOutcome::Stored))
    }

    fn count_store(&self, spot: Spot, condition: Condition, outcome: StoreOutcome) {
        self.counters.count(spot.bucket, Counter::Stores);
        if matches!(condition, Condition::Unchanged(_)) {
            let counter = match outcome {
                StoreOutcome::Stored => Counter::CasHits,
                StoreOutcome::NotFound => Counter::CasMisses,
                StoreOutcome::Exists | StoreOutcome::NotStored => Counter::CasBadValue,
            };
            self.counters.count(spot.bucket, counter);
        }
    }
}

impl Condition {
    /// Judges by the version of the item that there is, if any.
    fn outcome(self, present: Option<u64>) -> StoreOutcome {
        match (self, present) {
            (Self::None, _) | (Self::Absent, None) | (Self::Present, Some(_)) => {
                StoreOutcome::Stored
            }
            (Self::Absent, Some(_)) | (Self::Present, None) => StoreOutcome::NotStored,
            (Self::Unchanged(_), None) => StoreOutcome::NotFound,
            (Self::Unchanged(cas), Some(present)) if cas == present => StoreOutcome::Stored,
            (Self::Unchanged(_), Some(_)) => StoreOutcome::Exists,
        }
    }
}
