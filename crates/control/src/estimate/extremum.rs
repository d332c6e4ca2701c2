//! Minimum and maximum over a sliding window of time.

use core::time::Duration;

use crate::time::Instant;

/// The best three candidates of a sliding window: Nichols' filter, as in Linux's `win_minmax`.
///
/// The newest value that could still be the window's extremum is always among them; the answer is
/// exact when the window has seen no more than three record-setting sub-windows.
#[derive(Clone, Copy, Debug)]
struct Candidates {
    window: Duration,
    best: [(Instant, u64); 3],
    seen: bool,
}

impl Candidates {
    const fn new(window: Duration) -> Self {
        Self { window, best: [(Instant::ORIGIN, 0); 3], seen: false }
    }

    fn observe(&mut self, now: Instant, value: u64, better: impl Fn(u64, u64) -> bool) {
        let sample = (now, value);
        let expired = now.since(self.best[2].0) > self.window;
        if !self.seen || expired || !better(self.best[0].1, value) {
            self.best = [sample; 3];
            self.seen = true;
            return;
        }
        if !better(self.best[1].1, value) {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if !better(self.best[2].1, value) {
            self.best[2] = sample;
        }
        self.age(sample);
    }

    /// Promotes younger candidates as older ones leave the window, and renews stale runners-up.
    fn age(&mut self, sample: (Instant, u64)) {
        let now = sample.0;
        if now.since(self.best[0].0) > self.window {
            self.best = [self.best[1], self.best[2], sample];
            if now.since(self.best[0].0) > self.window {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].0 == self.best[0].0 && now.since(self.best[1].0) > self.window / 4 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].0 == self.best[1].0 && now.since(self.best[2].0) > self.window / 2 {
            self.best[2] = sample;
        }
    }

    fn value(&self) -> Option<u64> {
        self.seen.then_some(self.best[0].1)
    }
}

/// The smallest value of the last `window`.
#[derive(Clone, Debug)]
pub struct WindowedMin(Candidates);

impl WindowedMin {
    /// An empty window of this length.
    pub const fn new(window: Duration) -> Self {
        Self(Candidates::new(window))
    }

    /// Adds a value seen at `now`.
    pub fn observe(&mut self, now: Instant, value: u64) {
        self.0.observe(now, value, |best, value| best < value);
    }

    /// The minimum as of the newest observation; `None` before the first.
    pub fn value(&self) -> Option<u64> {
        self.0.value()
    }
}

/// The largest value of the last `window`.
#[derive(Clone, Debug)]
pub struct WindowedMax(Candidates);

impl WindowedMax {
    /// An empty window of this length.
    pub const fn new(window: Duration) -> Self {
        Self(Candidates::new(window))
    }

    /// Adds a value seen at `now`.
    pub fn observe(&mut self, now: Instant, value: u64) {
        self.0.observe(now, value, |best, value| best > value);
    }

    /// The maximum as of the newest observation; `None` before the first.
    pub fn value(&self) -> Option<u64> {
        self.0.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_extremum_leaves_with_its_window() {
        let mut min = WindowedMin::new(Duration::from_micros(100));
        let mut max = WindowedMax::new(Duration::from_micros(100));
        for (at, value) in [(0, 50), (10, 10), (60, 30), (90, 20), (115, 40)] {
            min.observe(Instant::from_micros(at), value);
            max.observe(Instant::from_micros(at), value);
        }
        assert_eq!((min.value(), max.value()), (Some(20), Some(40)));
    }

    #[test]
    fn a_long_silence_forgets_everything() {
        let mut min = WindowedMin::new(Duration::from_micros(100));
        min.observe(Instant::from_micros(0), 1);
        min.observe(Instant::from_nanos(u64::MAX - 1), 7);
        assert_eq!(min.value(), Some(7));
    }
}
