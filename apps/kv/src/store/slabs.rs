//! The slab allocator: pages, chunks, free lists and the order of eviction.
//!
//! ```text
//!  memory limit = n pages of 1 MiB (or of the largest item), each given to one class for good
//!
//!  class 0 ( 96 B)   [chunk|chunk|chunk|…]  free list, eviction order
//!  class 1 (120 B)   [chunk|chunk|…      ]  free list, eviction order
//!     …
//!  last class        [       chunk       ]
//! ```
//!
//! A page is one allocation. Its chunks are split off as owned, disjoint pieces ([`BytesMut`]
//! counts them and frees the page after the last), and then move between the free list of their
//! class and the items that they hold. So key and value bytes live in the pages and nowhere else,
//! without `unsafe`, and memory is bounded by the number of pages alone.
//!
//! Limit: a page never changes its class. A store filled with small items and then asked for
//! large ones has no page left for them and answers `OutOfMemory`, as memcached does without its
//! page mover.

use bytes::BytesMut;

use super::classes::SizeClasses;
use super::lru::Lru;
use super::stats::ClassStats;

/// One chunk of slab memory, owned by whoever holds the value.
///
/// Dropping it outside of this module would lose its slot: hold it in a
/// [`Reservation`](super::reserve::Reservation) or in an item that is in the table.
#[derive(Debug)]
pub(super) struct Chunk {
    memory: BytesMut,
    slot: u32,
    class: u8,
}

impl Chunk {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    pub(super) fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Class and slot: which chunk this is, among all of a store.
    pub(super) fn id(&self) -> ChunkId {
        ChunkId { class: self.class, slot: self.slot }
    }
}

/// The name of a chunk, unique in its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ChunkId {
    class: u8,
    slot: u32,
}

/// Where to look for an item that could make room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    /// The bucket in which the chunk's item is, or was, or is about to be.
    pub(super) bucket: u32,
    pub(super) chunk: ChunkId,
}

/// The answer to a request for a chunk.
#[derive(Debug)]
pub(super) enum Allocation {
    /// A chunk, already in the eviction order as the newest of its class.
    Granted(Chunk),
    /// Nothing free and no page left. Evicting the victim's item would free a chunk.
    Full(Victim),
    /// Nothing free, no page left, and nothing to evict.
    Exhausted,
}

/// Everything that the slab lock guards.
#[derive(Debug)]
pub(super) struct Slabs {
    classes: Box<[Class]>,
    page_bytes: usize,
    pages: u32,
    pages_max: u32,
    evict: bool,
}

#[derive(Debug)]
struct Class {
    chunk_bytes: usize,
    pages: u32,
    /// The part of the newest page that has not been split into chunks. Splitting one at a time
    /// keeps the slab lock from being held for the ten thousand chunks of a whole page.
    fresh: BytesMut,
    free: Vec<Chunk>,
    lru: Lru,
}

impl Slabs {
    pub(super) fn new(
        classes: &SizeClasses,
        page_bytes: usize,
        pages_max: u32,
        evict: bool,
    ) -> Self {
        let classes = classes.sizes().iter().map(|&chunk_bytes| Class {
            chunk_bytes,
            pages: 0,
            fresh: BytesMut::new(),
            free: Vec::new(),
            lru: Lru::new(),
        });
        Self { classes: classes.collect(), page_bytes, pages: 0, pages_max, evict }
    }

    /// Asks for a chunk of `class` for an item of `bucket`.
    ///
    /// A victim is moved to the newest end as it is named: two threads in need of room then look
    /// at different items, and an item that is spared has had its second chance by that move.
    pub(super) fn allocate(&mut self, class: u8, bucket: u32) -> Allocation {
        let pages_left = self.pages_max - self.pages;
        let home = &mut self.classes[usize::from(class)];
        let chunk = match home.free.pop() {
            Some(chunk) => chunk,
            None => {
                if home.fresh.len() < home.chunk_bytes {
                    if pages_left == 0 {
                        return self.nominate(class);
                    }
                    // What is left of the page before, less than a chunk, stays unused.
                    home.fresh = BytesMut::zeroed(self.page_bytes);
                    home.pages += 1;
                    self.pages += 1;
                }
                let memory = home.fresh.split_to(home.chunk_bytes);
                Chunk { memory, slot: home.lru.add_slot(), class }
            }
        };
        home.lru.insert(chunk.slot, bucket);
        Allocation::Granted(chunk)
    }

    /// Passes a chunk on to an item of `bucket` without a detour over the free list.
    pub(super) fn reassign(&mut self, chunk: &Chunk, bucket: u32) {
        let lru = &mut self.classes[usize::from(chunk.class)].lru;
        lru.remove(chunk.slot);
        lru.insert(chunk.slot, bucket);
    }

    /// Takes back chunks that no item uses any more.
    pub(super) fn release(&mut self, chunks: impl IntoIterator<Item = Chunk>) {
        for chunk in chunks {
            let class = &mut self.classes[usize::from(chunk.class)];
            class.lru.remove(chunk.slot);
            class.free.push(chunk);
        }
    }

    fn nominate(&mut self, class: u8) -> Allocation {
        if !self.evict {
            return Allocation::Exhausted;
        }
        match self.classes[usize::from(class)].lru.rotate() {
            Some((slot, bucket)) => {
                Allocation::Full(Victim { bucket, chunk: ChunkId { class, slot } })
            }
            None => Allocation::Exhausted,
        }
    }

    /// Pages taken so far, by all classes.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// One line of statistics for each class that has a page.
    pub(super) fn class_stats(&self) -> Vec<ClassStats> {
        let numbered = self.classes.iter().enumerate().filter(|(_, class)| class.pages > 0);
        let line = |(number, class): (usize, &Class)| ClassStats {
            class: number as u32 + 1,
            chunk_bytes: class.chunk_bytes as u64,
            pages: u64::from(class.pages),
            chunks_used: u64::from(class.lru.len()),
            // Not yet split off, or given back.
            chunks_free: (class.fresh.len() / class.chunk_bytes + class.free.len()) as u64,
        };
        numbered.map(line).collect()
    }

    /// Every chunk in use, with the bucket that it was handed out for.
    pub(super) fn chunks_in_use(&self) -> impl Iterator<Item = (ChunkId, u32)> {
        self.classes.iter().enumerate().flat_map(|(number, class)| {
            let class_number = number as u8;
            class
                .lru
                .iter()
                .map(move |(slot, bucket)| (ChunkId { class: class_number, slot }, bucket))
        })
    }

    /// Whether every chunk ever split off is either in use or in its free list.
    pub(super) fn is_balanced(&self) -> bool {
        let balanced = |class: &Class| {
            class.lru.slots() as usize == class.lru.len() as usize + class.free.len()
        };
        let pages: u32 = self.classes.iter().map(|class| class.pages).sum();
        pages == self.pages && self.pages <= self.pages_max && self.classes.iter().all(balanced)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, PAGE_BYTES};
    use super::*;

    fn slabs(pages_max: u32) -> Slabs {
        Slabs::new(&SizeClasses::new(&Config::default()), PAGE_BYTES, pages_max, true)
    }

    fn granted(allocation: Allocation) -> Chunk {
        match allocation {
            Allocation::Granted(chunk) => chunk,
            refused => panic!("no chunk, but {refused:?}"),
        }
    }

    #[test]
    fn a_page_holds_as_many_chunks_as_fit() {
        let mut slabs = slabs(1);
        let per_page = PAGE_BYTES / 96;
        let chunks: Vec<_> = (0..per_page).map(|_| granted(slabs.allocate(0, 5))).collect();
        let Allocation::Full(victim) = slabs.allocate(0, 6) else { panic!("one page only") };
        assert_eq!((victim.bucket, victim.chunk), (5, chunks[0].id()));
        assert!(matches!(slabs.allocate(1, 6), Allocation::Exhausted), "no page for class 1");
        slabs.release(chunks);
        assert!(slabs.is_balanced());
        assert_eq!(slabs.pages(), 1);
    }

    #[test]
    fn released_chunks_are_handed_out_again() {
        let mut slabs = slabs(1);
        let chunk = granted(slabs.allocate(3, 1));
        let id = chunk.id();
        slabs.release([chunk]);
        assert_eq!(granted(slabs.allocate(3, 2)).id(), id);
    }

    #[test]
    fn chunks_of_a_page_are_disjoint() {
        let mut slabs = slabs(1);
        let mut first = granted(slabs.allocate(0, 0));
        let mut second = granted(slabs.allocate(0, 0));
        first.bytes_mut().fill(1);
        second.bytes_mut().fill(2);
        assert!(first.bytes().iter().all(|&byte| byte == 1));
        assert_eq!(first.capacity(), 96);
    }
}
