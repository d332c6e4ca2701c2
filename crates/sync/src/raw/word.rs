//! The one word that says whether a lock is free.
//!
//! ```text
//!   63 ········· 32   31 ········ 4   3   2      1        0
//!   acquisitions      permits free    -   -   window   queued
//! ```
//!
//! To acquire is one compare-and-swap, to release one addition. How often it was acquired is counted
//! in the same swap, and therefore for nothing.

use crate::primitive::{AtomicU64, Ordering, const_fn};

/// Somebody waits. What is released now belongs to the queue.
const QUEUED: u64 = 1;
/// The first of the queue was woken and is on its way. What is free until it comes, anybody may
/// take.
const WINDOW: u64 = 2;
const PERMIT_SHIFT: u32 = 4;
const ACQUISITION_SHIFT: u32 = 32;
/// How many permits a word can count.
pub(crate) const PERMITS_MAX: u32 = (1 << (ACQUISITION_SHIFT - PERMIT_SHIFT)) - 1;

/// A value of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u64);

#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl State {
    /// Permits that are free.
    #[inline]
    pub(crate) fn available(self) -> u32 {
        (self.0 as u32) >> PERMIT_SHIFT
    }

    /// How often permits were acquired, modulo 2³².
    #[inline]
    pub(crate) fn acquisitions(self) -> u32 {
        (self.0 >> ACQUISITION_SHIFT) as u32
    }

    /// Anybody may take what is free, although somebody waits.
    #[inline]
    pub(crate) fn is_window_open(self) -> bool {
        self.0 & WINDOW != 0
    }

    /// Somebody waits.
    #[inline]
    pub(crate) fn is_queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// Without `need` permits, and acquired once more.
    #[inline]
    fn taken(self, need: u32) -> Self {
        let permits = u64::from(need) << PERMIT_SHIFT;
        Self((self.0 - permits).wrapping_add(1 << ACQUISITION_SHIFT))
    }
}

impl Word {
    const_fn! {
        /// With `permits` free.
        pub(crate) const fn new(permits: u32) -> Self {
            Self(AtomicU64::new((permits as u64) << PERMIT_SHIFT))
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> State {
        State(self.0.load(Ordering::Relaxed))
    }

    /// Takes `need` permits if they are free and belong to nobody in the queue.
    #[inline]
    pub(crate) fn try_take(&self, need: u32) -> Option<State> {
        let mut state = self.load();
        while state.available() >= need && (!state.is_queued() || state.is_window_open()) {
            match self.swap(state, state.taken(need)) {
                Ok(taken) => return Some(taken),
                Err(found) => state = found,
            }
        }
        None
    }

    /// Takes `need` permits for somebody whose turn it is. From now on, whether there were enough
    /// or not, nobody else is quicker. The caller holds the queue's lock.
    pub(crate) fn take_in_turn(&self, need: u32) -> Option<State> {
        let mut state = self.load();
        loop {
            let closed = State(state.0 & !WINDOW);
            let enough = state.available() >= need;
            match self.swap(state, if enough { closed.taken(need) } else { closed }) {
                Ok(taken) => return enough.then_some(taken),
                Err(found) => state = found,
            }
        }
    }

    #[inline]
    fn swap(&self, from: State, to: State) -> Result<State, State> {
        // Acquire: what earlier holders wrote is visible.
        let swapped =
            self.0.compare_exchange_weak(from.0, to.0, Ordering::Acquire, Ordering::Relaxed);
        swapped.map(|_| to).map_err(State)
    }

    /// Gives `permits` back, and says what was before.
    #[inline]
    pub(crate) fn give(&self, permits: u32) -> State {
        State(self.0.fetch_add(u64::from(permits) << PERMIT_SHIFT, Ordering::Release))
    }

    // The flags below order nothing: whoever sees one takes the queue's lock, which does.

    /// From now on whoever releases looks after the queue. The caller holds its lock.
    pub(crate) fn set_queued(&self) {
        self.0.fetch_or(QUEUED, Ordering::Relaxed);
    }

    /// Nobody waits any more. The caller holds the queue's lock.
    pub(crate) fn clear_queued(&self) {
        self.0.fetch_and(!(QUEUED | WINDOW), Ordering::Relaxed);
    }

    /// The first of the queue is on its way. The caller holds the queue's lock.
    pub(crate) fn open_window(&self) {
        self.0.fetch_or(WINDOW, Ordering::Relaxed);
    }

    /// Nobody is on its way any more. The caller holds the queue's lock.
    pub(crate) fn close_window(&self) {
        self.0.fetch_and(!WINDOW, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn permits_and_acquisitions_do_not_mix() {
        let word = Word::new(PERMITS_MAX);
        assert_eq!(word.try_take(PERMITS_MAX).unwrap().acquisitions(), 1);
        assert_eq!((word.load().available(), word.try_take(1)), (0, None));
        word.give(PERMITS_MAX);
        assert_eq!(word.load(), State(1 << ACQUISITION_SHIFT | u64::from(u32::MAX - 15)));

        let worn = Word(AtomicU64::new(u64::MAX << ACQUISITION_SHIFT | 1 << PERMIT_SHIFT));
        assert_eq!(worn.try_take(1), Some(State(0))); // the count wraps, and nothing else
    }

    #[test]
    fn what_belongs_to_the_queue_is_not_taken_except_through_the_window() {
        let word = Word::new(1);
        word.set_queued();
        assert_eq!(word.try_take(1), None);
        word.open_window();
        assert!(word.try_take(1).is_some());
        word.give(1);
        assert!(word.take_in_turn(1).is_some()); // and closes it
        word.give(1);
        assert_eq!(word.try_take(1), None);
        word.open_window();
        assert_eq!(word.take_in_turn(2), None); // and closes it, too
        assert_eq!(word.try_take(1), None);
        word.clear_queued();
        assert!(word.try_take(1).is_some());
    }
}
