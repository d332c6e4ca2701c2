//! All requests at a gate, by their numbers.

use alloc::vec::Vec;

use crate::request::Class;
use crate::time::Instant;

/// Names a request at a gate; never reused while the gate lives, but after 2³² others in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    slot: u32,
    generation: u32,
}

/// What the gate knows of one request.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) class: Class,
    pub(super) state: State<T>,
}

/// Where a request is.
#[derive(Debug)]
pub(super) enum State<T> {
    Waiting(T),
    Inside(Inside),
}

/// A request that was let in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
    pub(super) since: Instant,
    /// How many there were then, itself included: in all, and of its class.
    pub(super) in_flight: u32,
    pub(super) in_class: u32,
    /// Seconds that its class was charged for it in advance.
    pub(super) charged: f64,
}

/// A table whose free slots are used again.
#[derive(Debug)]
pub(super) struct Entries<T> {
    slots: Vec<(u32, Option<Entry<T>>)>,
    free: Vec<u32>,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Entries<T> {
    pub(super) fn insert(&mut self, entry: Entry<T>) -> Id {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let (generation, place) = &mut self.slots[slot as usize];
        *place = Some(entry);
        Id { slot, generation: *generation }
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<Entry<T>> {
        let (generation, place) = self.slots.get_mut(id.slot as usize)?;
        if *generation != id.generation {
            return None;
        }
        let entry = place.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(id.slot);
        Some(entry)
    }

    pub(super) fn get(&self, id: Id) -> Option<&Entry<T>> {
        let (generation, place) = self.slots.get(id.slot as usize)?;
        if *generation == id.generation { place.as_ref() } else { None }
    }

    /// Replaces the state of a request that is there.
    pub(super) fn enter(&mut self, id: Id, inside: Inside) -> Option<T> {
        let (generation, place) = self.slots.get_mut(id.slot as usize)?;
        let entry = place.as_mut().filter(|_| *generation == id.generation)?;
        match core::mem::replace(&mut entry.state, State::Inside(inside)) {
            State::Waiting(item) => Some(item),
            State::Inside(_) => None,
        }
    }

    pub(super) fn is_waiting(&self, id: Id) -> bool {
        self.get(id).is_some_and(|entry| matches!(entry.state, State::Waiting(_)))
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
