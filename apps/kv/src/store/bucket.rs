//! Items, and the bucket of the hash table that holds them.

use core::mem;

use super::slabs::{Chunk, ChunkId};
use crate::time::Expiry;

/// Where a key belongs: its bucket, and a tag that tells it from most others in there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) bucket: u32,
    pub(super) tag: u32,
}

/// One stored key and value. The bytes of both lie in the item's chunk, the key first.
#[derive(Debug)]
pub(super) struct Item {
    chunk: Chunk,
    pub(super) cas: u64,
    pub(super) expiry: Expiry,
    tag: u32,
    pub(super) flags: u32,
    value_len: u32,
    key_len: u8,
    /// Used since it was last considered for eviction.
    pub(super) referenced: bool,
}

/// What the writer of an item decides about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) cas: u64,
    pub(super) expiry: Expiry,
    pub(super) flags: u32,
}

/// A change to an item's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit<'a> {
    Replace(&'a [u8]),
    Append(&'a [u8]),
    Prepend(&'a [u8]),
}

impl Item {
    /// An item whose key and value have been copied into `chunk` by [`fill`].
    pub(super) fn new(chunk: Chunk, tag: u32, lens: (usize, usize), header: Header) -> Self {
        let Header { cas, expiry, flags } = header;
        let (key_len, value_len) = (lens.0 as u8, lens.1 as u32);
        Self { chunk, cas, expiry, tag, flags, value_len, key_len, referenced: false }
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.chunk.bytes()[..usize::from(self.key_len)]
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.chunk.bytes()[usize::from(self.key_len)..self.size()]
    }

    /// Bytes of key and value.
    pub(super) fn size(&self) -> usize {
        usize::from(self.key_len) + self.value_len as usize
    }

    pub(super) fn chunk_id(&self) -> ChunkId {
        self.chunk.id()
    }

    pub(super) fn into_chunk(self) -> Chunk {
        self.chunk
    }

    /// Applies `edit` where there is room for it: in the item's own chunk, else in `spare`, which
    /// then receives the chunk that the item had.
    ///
    /// # Errors
    ///
    /// The bytes of chunk that are needed, if neither has room. Nothing has changed then.
    pub(super) fn edit(&mut self, edit: Edit<'_>, spare: Option<&mut Chunk>) -> Result<(), usize> {
        let needed = self.size_after(edit);
        if needed > self.chunk.capacity() {
            match spare {
                Some(spare) if needed <= spare.capacity() => {
                    let size = self.size();
                    spare.bytes_mut()[..size].copy_from_slice(&self.chunk.bytes()[..size]);
                    mem::swap(&mut self.chunk, spare);
                }
                _ => return Err(needed),
            }
        }
        let (start, end) = (usize::from(self.key_len), self.size());
        let bytes = self.chunk.bytes_mut();
        match edit {
            Edit::Replace(value) => bytes[start..needed].copy_from_slice(value),
            Edit::Append(suffix) => bytes[end..needed].copy_from_slice(suffix),
            Edit::Prepend(prefix) => {
                bytes.copy_within(start..end, start + prefix.len());
                bytes[start..start + prefix.len()].copy_from_slice(prefix);
            }
        }
        self.value_len = (needed - start) as u32;
        Ok(())
    }

    fn size_after(&self, edit: Edit<'_>) -> usize {
        match edit {
            Edit::Replace(value) => usize::from(self.key_len) + value.len(),
            Edit::Append(part) | Edit::Prepend(part) => self.size() + part.len(),
        }
    }
}

/// Copies a key and a value to where an [`Item`] looks for them.
pub(super) fn fill(chunk: &mut Chunk, key: &[u8], value: &[u8]) {
    let (to_key, rest) = chunk.bytes_mut().split_at_mut(key.len());
    to_key.copy_from_slice(key);
    rest[..value.len()].copy_from_slice(value);
}

/// The items whose keys hash to the same place, in no particular order.
///
/// A vector rather than a linked chain: the tags of a few neighbours are compared without a cache
/// miss for each, and linking an item seldom allocates.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    items: Vec<Item>,
}

impl Bucket {
    pub(super) fn find(&self, tag: u32, key: &[u8]) -> Option<usize> {
        self.items.iter().position(|item| item.tag == tag && item.key() == key)
    }

    pub(super) fn find_chunk(&self, chunk: ChunkId) -> Option<usize> {
        self.items.iter().position(|item| item.chunk_id() == chunk)
    }

    pub(super) fn insert(&mut self, item: Item) {
        self.items.push(item);
    }

    /// Takes out the item at `index`; the others may change places.
    pub(super) fn remove(&mut self, index: usize) -> Item {
        self.items.swap_remove(index)
    }

    /// Takes out all items that `condemned` says.
    pub(super) fn extract_if(
        &mut self,
        condemned: impl FnMut(&mut Item) -> bool,
    ) -> impl Iterator<Item = Item> {
        self.items.extract_if(.., condemned)
    }

    pub(super) fn item_mut(&mut self, index: usize) -> &mut Item {
        &mut self.items[index]
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }
}

#[cfg(test)]
mod tests {
    use super::super::classes::SizeClasses;
    use super::super::slabs::{Allocation, Slabs};
    use super::super::{Config, PAGE_BYTES};
    use super::*;
    use crate::time::{Exptime, UnixTime};

    fn chunk(slabs: &mut Slabs, class: u8) -> Chunk {
        match slabs.allocate(class, 0) {
            Allocation::Granted(chunk) => chunk,
            refused => panic!("no chunk, but {refused:?}"),
        }
    }

    fn item(mut chunk: Chunk, key: &[u8], value: &[u8]) -> Item {
        fill(&mut chunk, key, value);
        let expiry = Expiry::new(Exptime::NEVER, UnixTime::default());
        Item::new(chunk, 7, (key.len(), value.len()), Header { cas: 1, expiry, flags: 0 })
    }

    #[test]
    fn edits_in_place() {
        let mut slabs = Slabs::new(&SizeClasses::new(&Config::default()), PAGE_BYTES, 1, true);
        let mut item = item(chunk(&mut slabs, 0), b"key", b"value");
        item.edit(Edit::Append(b" more"), None).unwrap();
        item.edit(Edit::Prepend(b"some "), None).unwrap();
        assert_eq!((item.key(), item.value()), (&b"key"[..], &b"some value more"[..]));
        item.edit(Edit::Replace(b"7"), None).unwrap();
        assert_eq!((item.key(), item.value()), (&b"key"[..], &b"7"[..]));
    }

    #[test]
    fn edits_that_outgrow_the_chunk_move_to_the_spare_one() {
        let mut slabs = Slabs::new(&SizeClasses::new(&Config::default()), PAGE_BYTES, 2, true);
        let (small, mut large) = (chunk(&mut slabs, 0), chunk(&mut slabs, 9));
        let (small_id, large_id) = (small.id(), large.id());
        let mut item = item(small, b"key", &[b'v'; 90]);
        assert_eq!(item.edit(Edit::Prepend(b"1234"), None), Err(97));
        assert_eq!(item.value(), [b'v'; 90], "a failed edit changes nothing");
        item.edit(Edit::Prepend(b"1234"), Some(&mut large)).unwrap();
        assert_eq!((item.chunk_id(), large.id()), (large_id, small_id));
        assert_eq!((item.key(), &item.value()[..5]), (&b"key"[..], &b"1234v"[..]));
        assert_eq!(item.size(), 97);
    }
}
