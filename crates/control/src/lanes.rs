//! A bounded-privilege queue: what must not be dropped waits ahead of the rest.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::time::Instant;

/// So many privileged items in a row have their turns while an ordinary one waits, whose turn it is
/// then. How many privileged requests there are at once is bounded at entry; this bounds how long a
/// stream of them can pass over one who has been let in.
pub const PRIVILEGED_RUN: u32 = 16;

/// Two first-in-first-out lanes, each entry stamped with when it began to wait.
///
/// Entries of the privileged lane leave first, [`PRIVILEGED_RUN`] in a row at most. The clients'
/// pending queue, the servers' run queue and the queues of simulated locks are this.
#[derive(Debug)]
pub struct Lanes<T> {
    privileged: VecDeque<(Instant, T)>,
    ordinary: VecDeque<(Instant, T)>,
    /// Privileged items in a row for which somebody ordinary was passed over.
    privileged_run: u32,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { privileged: VecDeque::new(), ordinary: VecDeque::new(), privileged_run: 0 }
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
        if self.is_next_privileged() {
            let passes_over = !self.ordinary.is_empty();
            self.privileged_run = if passes_over { self.privileged_run + 1 } else { 0 };
            return self.privileged.pop_front();
        }
        self.privileged_run = 0;
        self.ordinary.pop_front()
    }

    /// The item that [`pop`](Self::pop) would take.
    pub fn peek(&self) -> Option<&(Instant, T)> {
        if self.is_next_privileged() { self.privileged.front() } else { self.ordinary.front() }
    }

    fn is_next_privileged(&self) -> bool {
        let is_due = self.privileged_run < PRIVILEGED_RUN || self.ordinary.is_empty();
        is_due && !self.privileged.is_empty()
    }

    /// Takes the oldest ordinary item, the first to be given up.
    pub fn pop_oldest_ordinary(&mut self) -> Option<(Instant, T)> {
        self.ordinary.pop_front()
    }

    /// Takes the newest ordinary item: the last that was pushed as droppable.
    pub fn pop_newest_ordinary(&mut self) -> Option<(Instant, T)> {
        self.ordinary.pop_back()
    }

    /// Takes those of the oldest `examined` ordinary items that `is_taken` is true of. The others
    /// keep their places.
    pub fn take_ordinary(
        &mut self,
        examined: usize,
        mut is_taken: impl FnMut(Instant, &T) -> bool,
    ) -> Vec<T> {
        let (mut taken, mut kept) = (Vec::new(), 0);
        for _ in 0..examined.min(self.ordinary.len()) {
            let Some((since, item)) = self.ordinary.pop_front() else { break };
            if is_taken(since, &item) {
                taken.push(item);
            } else {
                self.ordinary.push_back((since, item));
                kept += 1;
            }
        }
        self.ordinary.rotate_right(kept);
        taken
    }

    /// Throws away what stands at the head of either lane as long as `is_gone` is true of it:
    /// items that were given up, and left standing since a queue is no place to search in.
    pub fn discard_heads(&mut self, mut is_gone: impl FnMut(&T) -> bool) {
        for lane in [&mut self.privileged, &mut self.ordinary] {
            while lane.front().is_some_and(|(_, item)| is_gone(item)) {
                lane.pop_front();
            }
        }
    }

    /// Keeps only those of which `is_kept` is true, in their order.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&T) -> bool) {
        for lane in [&mut self.privileged, &mut self.ordinary] {
            lane.retain(|(_, item)| is_kept(item));
        }
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

    #[test]
    fn a_stream_of_privileged_items_passes_over_an_ordinary_one_so_often_at_most() {
        let mut lanes = Lanes::default();
        let now = Instant::ORIGIN;
        lanes.push(now, true, "first");
        lanes.push(now, true, "second");
        let mut taken = Vec::new();
        for _ in 0..40 {
            lanes.push(now, false, "privileged");
            let next = lanes.peek().copied();
            assert_eq!(lanes.pop(), next);
            taken.extend(next);
        }
        let place = |wanted| taken.iter().position(|(_, item)| *item == wanted);
        assert_eq!((place("first"), place("second")), (Some(16), Some(33)));
        while lanes.pop().is_some() {}
        assert!(lanes.peek().is_none());
    }

    #[test]
    fn what_is_gone_leaves_once_it_is_the_first() {
        let mut lanes = Lanes::default();
        let at = Instant::from_micros;
        (0..6).for_each(|item| lanes.push(at(item), item % 2 == 0, item));
        lanes.discard_heads(|&item| item <= 2 || item == 5);
        assert_eq!((lanes.len(), lanes.oldest()), (3, Some(at(3))));
        lanes.retain(|&item| item != 5);
        assert_eq!(
            (lanes.pop(), lanes.pop(), lanes.pop()),
            (Some((at(3), 3)), Some((at(4), 4)), None)
        );
    }

    #[test]
    fn what_is_not_taken_keeps_its_place() {
        let now = Instant::ORIGIN;
        for examined in [0, 3, 8, 99] {
            let mut lanes = Lanes::default();
            (0..8).for_each(|item| lanes.push(now, true, item));
            lanes.push(now, false, 1); // which nobody may take
            let taken = lanes.take_ordinary(examined, |_, item| item % 2 == 1);
            let is_taken = |item: i32| item % 2 == 1 && item < examined as i32;
            let all = 0..8;
            assert_eq!(taken, all.clone().filter(|&item| is_taken(item)).collect::<Vec<_>>());
            let left: Vec<_> = core::iter::from_fn(|| Some(lanes.pop()?.1)).collect();
            let kept = all.filter(|&item| !is_taken(item));
            assert_eq!(left, [1].into_iter().chain(kept).collect::<Vec<_>>());
        }
    }
}
