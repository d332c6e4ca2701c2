//! The sessions of a server, each in a slot of its own.

use alloc::vec::Vec;

use crate::controller::SessionId;

/// What a server knows of its sessions. Slots are used again, under a new generation, so that they
/// stay dense.
#[derive(Debug)]
pub struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    session: Option<T>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Puts in the session that `open` makes of its number.
    pub fn insert(&mut self, open: impl FnOnce(SessionId) -> T) -> SessionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, session: None });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        let id = SessionId { slot: index, generation: slot.generation };
        slot.session = Some(open(id));
        id
    }

    /// Takes a session out that is in.
    pub fn remove(&mut self, id: SessionId) -> Option<T> {
        let slot = self.slots.get_mut(id.slot as usize);
        let session = slot.filter(|slot| slot.generation == id.generation)?.session.take()?;
        let slot = &mut self.slots[id.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        Some(session)
    }

    /// A session, unless it is gone.
    pub fn get(&self, id: SessionId) -> Option<&T> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.session.as_ref().filter(|_| slot.generation == id.generation)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.session.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// Sessions that are in.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sessions in the `chunk`-th `size` slots; `None` beyond the last. For visits that let
    /// others have the lock in between.
    pub fn chunk(&self, chunk: usize, size: usize) -> Option<impl Iterator<Item = &T>> {
        let slots = self.slots.chunks(size).nth(chunk)?;
        Some(slots.iter().filter_map(|slot| slot.session.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_under_another_number() {
        let mut slots = Slots::default();
        let (a, b) = (slots.insert(|_| 'a'), slots.insert(|_| 'b'));
        assert_eq!((slots.remove(a), slots.remove(a)), (Some('a'), None));
        let c = slots.insert(|id| if id.slot == a.slot { 'c' } else { '?' });
        assert_eq!((slots.get(a), slots.get(b), slots.get(c)), (None, Some(&'b'), Some(&'c')));
        assert_eq!((c.slot, c.generation), (a.slot, a.generation + 1));
        assert_eq!(slots.len(), 2);
        *slots.get_mut(b).unwrap() = 'B';
        let seen: Vec<_> = (0..).map_while(|chunk| slots.chunk(chunk, 1)).flatten().collect();
        assert_eq!(seen, [&'c', &'B']);
    }
}
