//! The order in which the items of one slab class are considered for eviction.

/// The null link.
const NONE: u32 = u32::MAX;

/// A doubly linked list over slot numbers, from the newest to the oldest.
///
/// A slot stands for one chunk of the class, in use or free; only slots in use are in the list.
/// It remembers the bucket of the item that the chunk was handed out for, which is all that an
/// evicting thread needs to find that item.
#[derive(Debug)]
pub(super) struct Lru {
    slots: Vec<Slot>,
    newest: u32,
    oldest: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    newer: u32,
    older: u32,
    bucket: u32,
}

impl Lru {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), newest: NONE, oldest: NONE, len: 0 }
    }

    /// Makes one more slot, not in the list yet.
    pub(super) fn add_slot(&mut self) -> u32 {
        let slot = self.slots.len() as u32;
        assert!(slot < NONE, "the memory limit bounds the slots well below this");
        self.slots.push(Slot { newer: NONE, older: NONE, bucket: 0 });
        slot
    }

    /// Puts `slot`, which must not be in the list, at its newest end on behalf of `bucket`.
    pub(super) fn insert(&mut self, slot: u32, bucket: u32) {
        self.slots[slot as usize] = Slot { newer: NONE, older: self.newest, bucket };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.slots[newest as usize].newer = slot,
        }
        self.newest = slot;
        self.len += 1;
    }

    /// Takes `slot`, which must be in the list, out of it.
    pub(super) fn remove(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        self.len -= 1;
    }

    /// Names the oldest slot with its bucket, and moves it to the newest end.
    pub(super) fn rotate(&mut self) -> Option<(u32, u32)> {
        let slot = self.oldest;
        if slot == NONE {
            return None;
        }
        let bucket = self.slots[slot as usize].bucket;
        self.remove(slot);
        self.insert(slot, bucket);
        Some((slot, bucket))
    }

    /// Slots in the list: chunks in use.
    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// Slots ever made: chunks in use and free.
    pub(super) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// From the oldest to the newest, slot and bucket.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut next = self.oldest;
        core::iter::from_fn(move || {
            let slot = (next != NONE).then_some(next)?;
            next = self.slots[slot as usize].newer;
            Some((slot, self.slots[slot as usize].bucket))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(lru: &Lru) -> Vec<u32> {
        lru.iter().map(|(slot, _)| slot).collect()
    }

    #[test]
    fn keeps_the_order_of_insertion_through_removals() {
        let mut lru = Lru::new();
        for bucket in 0..5 {
            let slot = lru.add_slot();
            lru.insert(slot, bucket);
        }
        lru.remove(0);
        lru.remove(2);
        lru.remove(4);
        assert_eq!(order(&lru), [1, 3]);
        lru.insert(2, 9);
        assert_eq!(lru.iter().last(), Some((2, 9)));
        assert_eq!((lru.len(), lru.slots()), (3, 5));
        for slot in [3, 1, 2] {
            lru.remove(slot);
        }
        assert_eq!((lru.rotate(), lru.len()), (None, 0));
    }

    #[test]
    fn rotation_goes_round() {
        let mut lru = Lru::new();
        for bucket in [7, 8, 9] {
            let slot = lru.add_slot();
            lru.insert(slot, bucket);
        }
        let round: Vec<_> = (0..4).map(|_| lru.rotate().unwrap()).collect();
        assert_eq!(round, [(0, 7), (1, 8), (2, 9), (0, 7)]);
        assert_eq!(order(&lru), [1, 2, 0]);
    }
}
