//! The one word that says whether a lock is free.
//!
//! ```text
//!   31 ········ 4   3      2        1        0
//!   permits free    -   watched  window   queued
//! ```
//!
//! To acquire is one compare-and-swap, to release one addition. The permits are a signed number:
//! when there are to be fewer than are held, less than none is free until enough came back.

use crate::primitive::{AtomicU32, Ordering, const_fn};

/// Somebody waits. What is released now belongs to the queue.
const QUEUED: u32 = 1;
/// The first of the queue was woken and is on its way. What is free until it comes, anybody may
/// take.
const WINDOW: u32 = 2;
/// Nobody holds a permit, and who takes the first one tells somebody who wants to know.
const WATCHED: u32 = 4;
const PERMIT_SHIFT: u32 = 4;
/// How many permits a word can count.
pub(crate) const PERMITS_MAX: u32 = i32::MAX as u32 >> PERMIT_SHIFT;

/// A value of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u32);

#[derive(Debug)]
pub(crate) struct Word(AtomicU32);

impl State {
    /// That many permits are free, and nobody waits.
    pub(crate) const fn free(permits: u32) -> Self {
        Self(permits << PERMIT_SHIFT)
    }

    /// Permits that are free.
    #[inline]
    pub(crate) fn available(self) -> u32 {
        self.balance().max(0).cast_unsigned()
    }

    /// Permits that are free; less than none where more are held than there shall be.
    #[inline]
    pub(crate) fn balance(self) -> i32 {
        self.0.cast_signed() >> PERMIT_SHIFT
    }

    /// Whether `need` permits are free.
    #[inline]
    fn has(self, need: u32) -> bool {
        self.0.cast_signed() >= Self::free(need).0.cast_signed() // flags make it a little larger
    }

    /// Somebody waits.
    #[inline]
    pub(crate) fn is_queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// Anybody may take what is free, although somebody waits.
    #[inline]
    pub(crate) fn is_window_open(self) -> bool {
        self.0 & WINDOW != 0
    }

    /// Somebody wants to know of the first one that comes.
    #[inline]
    pub(crate) fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }
}

impl Word {
    const_fn! {
        /// With `permits` free.
        pub(crate) const fn new(permits: u32) -> Self {
            Self(AtomicU32::new(State::free(permits).0))
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> State {
        State(self.0.load(Ordering::Relaxed))
    }

    /// Takes `need` permits if they are free and belong to nobody in the queue, and says what was
    /// before. `guess` is how the word is or may be; one that says no is believed.
    #[inline]
    pub(crate) fn try_take(&self, need: u32, guess: State) -> Option<State> {
        let mut state = guess;
        while state.has(need) && (!state.is_queued() || state.is_window_open()) {
            match self.swap(state, State(state.0 - State::free(need).0)) {
                Ok(()) => return Some(state),
                Err(found) => state = found,
            }
        }
        None
    }

    /// Takes `need` permits for somebody whose turn it is. From now on, whether there were enough
    /// or not, nobody else is quicker. The caller holds the queue's lock.
    pub(crate) fn take_in_turn(&self, need: u32) -> bool {
        let mut state = self.load();
        loop {
            let closed = state.0 & !WINDOW;
            let enough = state.has(need);
            let taken = if enough { closed - State::free(need).0 } else { closed };
            match self.swap(state, State(taken)) {
                Ok(()) => return enough,
                Err(found) => state = found,
            }
        }
    }

    #[inline]
    fn swap(&self, from: State, to: State) -> Result<(), State> {
        // Acquire: what earlier holders wrote is visible.
        let swapped =
            self.0.compare_exchange_weak(from.0, to.0, Ordering::Acquire, Ordering::Relaxed);
        swapped.map(drop).map_err(State)
    }

    /// Gives `permits` back, and says what was before.
    #[inline]
    pub(crate) fn give(&self, permits: u32) -> State {
        State(self.0.fetch_add(State::free(permits).0, Ordering::Release))
    }

    /// Takes permits away, whether they are free or not.
    pub(crate) fn withdraw(&self, permits: u32) {
        self.0.fetch_sub(State::free(permits).0, Ordering::Relaxed);
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

    /// From now on who takes the first permit is told so. Not if somebody holds one of the
    /// `capacity` or waits: false then. The caller holds the queue's lock.
    pub(crate) fn watch(&self, capacity: u32) -> bool {
        let mut state = self.load();
        while state.has(capacity) && !state.is_queued() {
            match self.swap(state, State(state.0 | WATCHED)) {
                Ok(()) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    /// Nobody needs to be told any more. The caller holds the queue's lock.
    pub(crate) fn clear_watched(&self) {
        self.0.fetch_and(!WATCHED, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn permits_do_not_mix_with_what_else_the_word_says() {
        let word = Word::new(PERMITS_MAX);
        assert!(word.try_take(PERMITS_MAX - 2, State::free(PERMITS_MAX)).is_some());
        assert!(word.try_take(2, State::free(PERMITS_MAX)).is_some()); // a wrong guess
        assert_eq!((word.load().available(), word.try_take(1, word.load())), (0, None));
        word.set_queued();
        word.give(PERMITS_MAX);
        assert_eq!(word.load(), State(PERMITS_MAX << PERMIT_SHIFT | QUEUED));
    }

    #[test]
    fn what_is_owed_comes_back_before_anything_is_free() {
        let word = Word::new(PERMITS_MAX);
        let take = || word.try_take(1, word.load()).is_some();
        assert!(word.try_take(PERMITS_MAX, word.load()).is_some());
        word.withdraw(PERMITS_MAX - 1);
        assert_eq!((word.load().available(), take(), word.take_in_turn(1)), (0, false, false));
        word.set_queued(); // flags do not make up for it
        word.open_window();
        word.give(PERMITS_MAX - 1);
        assert_eq!((word.load().available(), take()), (0, false));
        word.give(1);
        assert!(take());
    }

    #[test]
    fn is_watched_only_while_all_is_free() {
        let word = Word::new(2);
        assert!(word.watch(2));
        assert!(word.try_take(1, word.load()).is_some_and(State::is_watched));
        assert!(word.load().is_watched()); // until somebody was told
        word.clear_watched();
        assert!(!word.watch(2) && !word.load().is_watched());
        word.give(1);
        word.set_queued();
        assert!(!word.watch(2));
    }

    #[test]
    fn what_belongs_to_the_queue_is_not_taken_except_through_the_window() {
        let word = Word::new(1);
        let try_take = || word.try_take(1, State::free(1)).is_some();
        word.set_queued();
        assert!(!try_take());
        word.open_window();
        assert!(try_take());
        word.give(1);
        assert!(word.take_in_turn(1)); // and closes it
        word.give(1);
        assert!(!try_take());
        word.open_window();
        assert!(!word.take_in_turn(2)); // and closes it, too
        assert!(!try_take());
        word.clear_queued();
        assert!(try_take());
    }
}
