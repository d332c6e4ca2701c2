//! State of each container, kept in step with the snapshots.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use super::ContainerId;

/// One value for each container of the latest snapshot, at the container's place in it.
///
/// Containers are in the order of their ids. So aligning is one pass over both, and what belongs
/// to containers that have gone is dropped in it.
#[derive(Clone, Debug)]
pub(super) struct Roster<T> {
    entries: Vec<(ContainerId, T)>,
}

impl<T> Default for Roster<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T> Roster<T> {
    /// Keeps what belongs to `ids`, which ascend, and makes what is new.
    pub(super) fn align<I>(&mut self, ids: I, mut make: impl FnMut(ContainerId) -> T)
    where
        I: ExactSizeIterator<Item = ContainerId> + Clone,
    {
        if ids.len() == self.entries.len()
            && ids.clone().zip(&self.entries).all(|(id, entry)| id == entry.0)
        {
            return;
        }
        let mut old = core::mem::take(&mut self.entries).into_iter().peekable();
        self.entries.reserve_exact(ids.len());
        for id in ids {
            while old.next_if(|entry| entry.0 < id).is_some() {}
            let entry = old.next_if(|entry| entry.0 == id);
            self.entries.push(entry.unwrap_or_else(|| (id, make(id))));
        }
    }

    /// Adds a value before its container appears in a snapshot. It is kept if the next one has it.
    pub(super) fn insert(&mut self, id: ContainerId, value: T) {
        match self.entries.binary_search_by_key(&id, |entry| entry.0) {
            Ok(at) => self.entries[at].1 = value,
            Err(at) => self.entries.insert(at, (id, value)),
        }
    }

    pub(super) fn find(&self, id: ContainerId) -> Option<&T> {
        let at = self.entries.binary_search_by_key(&id, |entry| entry.0).ok()?;
        Some(&self.entries[at].1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ContainerId, &T)> {
        self.entries.iter().map(|(id, value)| (*id, value))
    }
}

impl<T> Index<usize> for Roster<T> {
    type Output = T;
    fn index(&self, at: usize) -> &T {
        &self.entries[at].1
    }
}

impl<T> IndexMut<usize> for Roster<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.entries[at].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_containers_that_come_and_go() {
        let mut roster = Roster::default();
        let mut next = 0;
        for ids in [&[3, 5][..], &[5], &[1, 5, 9], &[1, 5, 9], &[], &[5]] {
            roster.align(ids.iter().map(|id| ContainerId(*id)), |_| {
                next += 1;
                next
            });
            assert!(roster.iter().map(|(id, _)| id.0).eq(ids.iter().copied()));
        }
        // 5 had gone before it came back, and is new: the fifth in all.
        assert_eq!(roster.find(ContainerId(5)), Some(&5));
        assert_eq!((roster[0], roster.find(ContainerId(9))), (5, None));
    }
}
