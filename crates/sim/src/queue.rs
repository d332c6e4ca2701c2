//! The event queue: a calendar of near events, and a heap of far ones.
//!
//! ```text
//!   now                                   horizon
//!    │ day │ day │ day │ … │ day │ day │ day │
//!    ▼                                       │   far: a heap
//!   today: sorted, taken from its end        │
//! ```
//!
//! Nearly all events of a simulated server lie some microseconds ahead. Each falls into a day of
//! the calendar unsorted, and a day is sorted when it comes, with the few events it has: constant
//! work for each event where a heap of all would take a logarithm and as many cache misses.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seawall_control::Instant;

/// Length of a day: 2⁸ ns, in which a million requests per second cause about two events.
const DAY_BITS: u32 = 8;

/// Days of the calendar, a power of two: together half a millisecond.
const DAYS: u64 = 2048;

/// Events in order of time, and of scheduling where times are equal.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    /// The rest of the current day, latest first.
    today: Vec<Entry<E>>,
    /// The day that `today` is, counted from the origin.
    day: u64,
    /// The days after today, by number modulo [`DAYS`]; one that is not over yet.
    calendar: Vec<Vec<Entry<E>>>,
    /// One bit for each day of the calendar that has events.
    busy: Vec<u64>,
    /// Events after the calendar's last day.
    far: BinaryHeap<Reverse<Entry<E>>>,
    scheduled: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Instant,
    sequence: u64,
    event: E,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Self {
        Self {
            today: Vec::new(),
            day: 0,
            calendar: (0..DAYS).map(|_| Vec::new()).collect(),
            busy: vec![0; DAYS as usize / 64],
            far: BinaryHeap::new(),
            scheduled: 0,
        }
    }

    /// Puts an event in; one whose time has passed comes next.
    pub(crate) fn push(&mut self, at: Instant, event: E) {
        self.scheduled += 1;
        let entry = Entry { at, sequence: self.scheduled, event };
        let day = day_of(at);
        if day <= self.day {
            let place = self.today.partition_point(|later| later.key() > entry.key());
            self.today.insert(place, entry);
        } else if day < self.day + DAYS {
            self.enter(day, entry);
        } else {
            self.far.push(Reverse(entry));
        }
    }

    /// Takes the next event out.
    pub(crate) fn pop(&mut self) -> Option<(Instant, E)> {
        if self.today.is_empty() {
            self.turn_page()?;
        }
        self.today.pop().map(|entry| (entry.at, entry.event))
    }

    /// Events put in so far.
    pub(crate) fn scheduled(&self) -> u64 {
        self.scheduled
    }

    fn enter(&mut self, day: u64, entry: Entry<E>) {
        let slot = (day % DAYS) as usize;
        self.calendar[slot].push(entry);
        self.busy[slot / 64] |= 1 << (slot % 64);
    }

    /// Goes on to the next day that has events.
    fn turn_page(&mut self) -> Option<()> {
        self.day = match (self.next_busy(), self.far.peek()) {
            (Some(day), _) => day,
            (None, Some(Reverse(entry))) => day_of(entry.at),
            (None, None) => return None,
        };
        let slot = (self.day % DAYS) as usize;
        self.busy[slot / 64] &= !(1 << (slot % 64));
        std::mem::swap(&mut self.today, &mut self.calendar[slot]);
        // Days have come into the calendar's reach.
        while let Some(Reverse(entry)) = self.far.peek()
            && day_of(entry.at) < self.day + DAYS
        {
            let Some(Reverse(entry)) = self.far.pop() else { break };
            match day_of(entry.at) {
                day if day == self.day => self.today.push(entry),
                day => self.enter(day, entry),
            }
        }
        self.today.sort_unstable_by_key(|entry| Reverse(entry.key()));
        Some(())
    }

    /// The first day after today that has events, if it is in the calendar.
    fn next_busy(&self) -> Option<u64> {
        let first = self.day + 1;
        let slot = (first % DAYS) as usize;
        let words = self.busy.len();
        for step in 0..=words {
            let word = (slot / 64 + step) % words;
            let mut bits = self.busy[word];
            if step == 0 {
                bits &= !0 << (slot % 64);
            } else if step == words {
                bits &= !(!0 << (slot % 64));
            }
            if bits != 0 {
                let found = (word * 64) as u64 + u64::from(bits.trailing_zeros());
                return Some(first + (found + DAYS - first % DAYS) % DAYS);
            }
        }
        None
    }
}

impl<E> Entry<E> {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.sequence)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

fn day_of(at: Instant) -> u64 {
    at.as_nanos() >> DAY_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Pushes and pops mixed, times near and far: the same as a sorted map.
        #[test]
        fn agrees_with_a_sorted_map(
            operations in prop::collection::vec((any::<bool>(), 0u32..24, any::<u64>()), 1..400)
        ) {
            let (mut queue, mut map) = (Queue::new(), BTreeMap::new());
            let mut now = Instant::ORIGIN;
            for (index, (pop, bits, random)) in operations.into_iter().enumerate() {
                if pop {
                    let expected = map.pop_first().map(|((at, _), event)| (at, event));
                    prop_assert_eq!(queue.pop(), expected);
                    now = expected.map_or(now, |(at, _)| at);
                } else {
                    let ahead = random & ((1 << bits) - 1);
                    let at = Instant::from_nanos(now.as_nanos() + ahead);
                    queue.push(at, index);
                    map.insert((at, index), index);
                }
            }
            while let Some(((at, _), event)) = map.pop_first() {
                prop_assert_eq!(queue.pop(), Some((at, event)));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
