//! What happened in each of the latest stretches of time.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::time::{Instant, nanos};

/// A window of time that slides by a bucket at a time.
///
/// The newest bucket is under way; those before it are complete.
#[derive(Clone, Debug)]
pub struct Rolling<T> {
    start: Instant,
    /// Length of a bucket, in nanoseconds.
    length: u64,
    /// By the number of the bucket since the start, modulo how many there are.
    buckets: Vec<T>,
    /// The newest of which anything is known.
    newest: u64,
}

impl<T: Default + Clone> Rolling<T> {
    /// A window of so many buckets, of which nothing is known.
    ///
    /// # Panics
    ///
    /// If there are none, or they are shorter than a nanosecond.
    pub fn new(start: Instant, window: Duration, buckets: u32) -> Self {
        let length = nanos(window) / u64::from(buckets.max(1));
        assert!(buckets > 0 && length > 0, "{buckets} buckets in {window:?}");
        Self { start, length, buckets: vec![T::default(); buckets as usize], newest: 0 }
    }

    /// The bucket that is under way.
    pub fn current(&mut self, now: Instant) -> &mut T {
        let number = self.number(now);
        let size = self.buckets.len() as u64;
        let passed = number.saturating_sub(self.newest);
        for step in 1..=passed.min(size) {
            let slot = (self.newest + step) % size;
            self.buckets[slot as usize] = T::default();
        }
        if passed > size {
            // The steps were those of a whole turn: all is new.
            self.buckets.fill(T::default());
        }
        self.newest = self.newest.max(number);
        &mut self.buckets[(self.newest % size) as usize]
    }

    /// The buckets of the window that are complete, oldest first; those in which nothing happened
    /// after the last that is known are left out.
    pub fn complete(&self, now: Instant) -> impl Iterator<Item = &T> {
        let number = self.number(now).max(self.newest);
        self.range(number, number)
    }

    /// All buckets of the window, that which is under way included.
    pub fn all(&self, now: Instant) -> impl Iterator<Item = &T> {
        let number = self.number(now).max(self.newest);
        self.range(number, number + 1)
    }

    /// The number of the bucket of this time.
    pub fn number(&self, now: Instant) -> u64 {
        nanos(now.since(self.start)) / self.length
    }

    /// Those of the window that ends with bucket `number` that are before `end`.
    fn range(&self, number: u64, end: u64) -> impl Iterator<Item = &T> {
        let size = self.buckets.len() as u64;
        let oldest = (number + 1).saturating_sub(size);
        let known = end.min(self.newest + 1);
        (oldest..known).map(move |number| &self.buckets[(number % size) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of four buckets of 10 µs.
    fn window() -> Rolling<u32> {
        Rolling::new(Instant::from_micros(100), Duration::from_micros(40), 4)
    }

    fn us(at: u64) -> Instant {
        Instant::from_micros(100 + at)
    }

    fn of<'a>(buckets: impl Iterator<Item = &'a u32>) -> Vec<u32> {
        buckets.copied().collect()
    }

    #[test]
    fn slides_by_a_bucket_at_a_time() {
        let mut window = window();
        for (at, value) in [(0, 1), (9, 1), (10, 3), (25, 4), (39, 5)] {
            *window.current(us(at)) += value;
        }
        assert_eq!(of(window.all(us(39))), [2, 3, 4, 5]);
        assert_eq!(of(window.complete(us(39))), [2, 3, 4]);
        assert_eq!(of(window.complete(us(40))), [3, 4, 5], "nothing is changed by looking");
        assert_eq!(of(window.complete(us(55))), [4, 5]);
        *window.current(us(55)) += 6;
        assert_eq!(of(window.all(us(55))), [4, 5, 0, 6]);
        assert_eq!(of(window.all(us(94))), [0; 0]);
    }

    #[test]
    fn a_long_silence_forgets_everything() {
        let mut window = window();
        *window.current(us(5)) += 1;
        *window.current(us(47)) += 2;
        assert_eq!(of(window.all(us(47))), [0, 0, 0, 2]);
        *window.current(Instant::NEVER) += 3;
        assert_eq!(of(window.all(Instant::NEVER)), [0, 0, 0, 3]);
        // A clock that ran backwards adds to what is newest.
        *window.current(us(5)) += 1;
        assert_eq!(of(window.all(us(5))), [0, 0, 0, 4]);
    }
}
