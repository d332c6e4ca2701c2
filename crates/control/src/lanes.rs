//! A bounded-privilege queue: what must not be dropped waits ahead of the rest.

use alloc::collections::VecDeque;

use crate::time::Instant;

/// Two first-in-first-out lanes, each entry stamped with when it began to wait.
///
/// Entries of the privileged lane leave first. The clients' pending queue and the servers' run
/// queue are both this.
#[derive(Debug)]
pub struct Lanes<T> {
    privileged: VecDeque<(Instant, T)>,
    ordinary: VecDeque<(Instant, T)>,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { privileged: VecDeque::new(), ordinary: VecDeque::new() }
    }
}

impl<T> Lanes<T> {
    /// Puts `item` at the end of its lane.
    pub fn push(&mut self, now: Instant, droppable: bool, item: T) {
        let lane = if droppable { &mut self.ordinary } else { &mut self.privileged };
        lane.push_back((now, item));
    }

    /// Takes the next item: privileged ones first, the oldest first within its lane.
    pub fn pop(&mut self) -> Option<(Instant, T)> {
        self.privileged.pop_front().or_else(|| self.ordinary.pop_front())
    }

    /// The item that [`pop`](Self::pop) would take.
    pub fn peek(&self) -> Option<&(Instant, T)> {
        self.privileged.front().or_else(|| self.ordinary.front())
    }

    /// Takes the oldest ordinary item, the first to be given up.
    pub fn pop_oldest_ordinary(&mut self) -> Option<(Instant, T)> {
        self.ordinary.pop_front()
    }

    /// Takes the newest ordinary item: the last that was pushed as droppable.
    pub fn pop_newest_ordinary(&mut self) -> Option<(Instant, T)> {
        self.ordinary.pop_back()
    }

    /// The oldest ordinary item.
    pub fn peek_oldest_ordinary(&self) -> Option<&(Instant, T)> {
        self.ordinary.front()
    }

    /// Since when the oldest item of either lane waits.
    pub fn oldest(&self) -> Option<Instant> {
        let head = |lane: &VecDeque<(Instant, T)>| lane.front().map(|(since, _)| *since);
        match (head(&self.privileged), head(&self.ordinary)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Items in both lanes.
    pub fn len(&self) -> usize {
        self.privileged.len() + self.ordinary.len()
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.privileged.is_empty() && self.ordinary.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileged_items_leave_first_and_age_counts_both() {
        let mut lanes = Lanes::default();
        let at = Instant::from_micros;
        lanes.push(at(1), true, "old");
        lanes.push(at(2), true, "young");
        lanes.push(at(3), false, "privileged");
        assert_eq!(lanes.oldest(), Some(at(1)));
        assert_eq!(lanes.pop(), Some((at(3), "privileged")));
        assert_eq!(lanes.pop_oldest_ordinary(), Some((at(1), "old")));
        assert_eq!((lanes.len(), lanes.oldest()), (1, Some(at(2))));
    }
}
