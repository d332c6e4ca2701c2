//! Getting a chunk, at another item's expense if need be, and never losing it.

use core::ops::{Deref, DerefMut};

use seawall_control::request::{Context, Rejected};

use super::counters::Counter;
use super::locks::SlabLock;
use super::slabs::{Allocation, Chunk, Victim};
use super::{Store, StoreError, UnixTime};

/// Items that may be spared in a row because they were used since they were last considered. The
/// next is evicted even so: a store whose every item is hot must not search it all for each `set`.
const SECOND_CHANCES_MAX: u32 = 8;

/// Victims looked at before a request for a chunk is given up. More than [`SECOND_CHANCES_MAX`]
/// only helps where chunks have been handed out for items that are not in the table yet, which is
/// at most one per thread.
const VICTIMS_MAX: u32 = 64;

/// A chunk that belongs to no item. It goes back to its free list when dropped.
///
/// Dropping takes the slab lock, so it must come after a bucket is unlocked: declare the variable
/// that holds a reservation before the guard.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    slabs: &'a SlabLock,
    chunk: Option<Chunk>,
    /// Who waits for the lock to give it back.
    payer: Option<&'a Context>,
}

impl<'a> Reservation<'a> {
    pub(super) fn new(slabs: &'a SlabLock, chunk: Chunk, payer: Option<&'a Context>) -> Self {
        Self { slabs, chunk: Some(chunk), payer }
    }

    /// Hands the chunk over to an item.
    pub(super) fn into_chunk(mut self) -> Chunk {
        self.chunk.take().expect("present until consumed or dropped")
    }
}

impl Deref for Reservation<'_> {
    type Target = Chunk;
    fn deref(&self) -> &Chunk {
        self.chunk.as_ref().expect("present until consumed or dropped")
    }
}

impl DerefMut for Reservation<'_> {
    fn deref_mut(&mut self) -> &mut Chunk {
        self.chunk.as_mut().expect("present until consumed or dropped")
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.slabs.lock_back(self.payer).release([chunk]);
        }
    }
}

impl Store {
    /// Reserves a chunk for an item of `bytes` that will go into `bucket`.
    ///
    /// A full class gives up its least recently used item by the *clock* rule (second chance):
    /// items are considered in the order in which they were stored; one that was used since it was
    /// last considered is spared and queues up anew. That is close to LRU, and leaves reads
    /// without any lock but that of their own bucket.
    pub(super) fn reserve<'s>(
        &'s self,
        ctx: &'s Context,
        now: UnixTime,
        bucket: u32,
        bytes: usize,
    ) -> Result<Reservation<'s>, StoreError> {
        let Some(class) = self.classes.fitting(bytes) else {
            return Err(StoreError::TooLarge { bytes, bytes_max: self.classes.largest() });
        };
        for considered in 0..VICTIMS_MAX {
            let allocation = self.slabs.lock(ctx)?.allocate(class, bucket);
            let victim = match allocation {
                Allocation::Granted(chunk) => {
                    return Ok(Reservation::new(&self.slabs, chunk, Some(ctx)));
                }
                Allocation::Full(victim) => victim,
                Allocation::Exhausted => return Err(StoreError::OutOfMemory),
            };
            let may_spare = considered < SECOND_CHANCES_MAX;
            if let Some(evicted) = self.evict(ctx, now, victim, may_spare)? {
                // To be refused now would cost the evicted item for nothing, and no less waiting:
                // giving its chunk back takes the same lock.
                self.slabs.lock_back(Some(ctx)).reassign(&evicted, bucket);
                return Ok(evicted);
            }
        }
        Err(StoreError::OutOfMemory)
    }

    /// Unlinks the victim's item. `None` if it is gone, not linked yet, or spared.
    fn evict<'s>(
        &'s self,
        ctx: &'s Context,
        now: UnixTime,
        victim: Victim,
        may_spare: bool,
    ) -> Result<Option<Reservation<'s>>, Rejected> {
        let horizon = self.horizon(now);
        let mut bucket = self.items.lock(ctx, victim.bucket)?;
        let Some(index) = bucket.find_chunk(victim.chunk) else { return Ok(None) };
        let item = bucket.item_mut(index);
        let death = horizon.death(item);
        if may_spare && item.referenced && death.is_none() {
            item.referenced = false;
            return Ok(None);
        }
        self.counters.count(victim.bucket, death.unwrap_or(Counter::Evicted));
        Ok(Some(self.unlink(Some(ctx), &mut bucket, victim.bucket, index)))
    }
}
