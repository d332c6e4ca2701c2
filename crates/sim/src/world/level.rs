//! A quantity that changes now and then, and its means over time.

use std::time::Duration;

use seawall_control::{Instant, time};
use seawall_measure::Window;

#[derive(Debug)]
pub(super) struct Level {
    value: u64,
    since: Instant,
    /// Since when it was not read, and value × nanoseconds from then on.
    read: Instant,
    unread: u128,
    /// The measured part of the run, and value × nanoseconds within it.
    window: Window,
    measured: u128,
}

impl Level {
    pub(super) fn new(value: u64, window: Window) -> Self {
        let (since, read) = (Instant::ORIGIN, Instant::ORIGIN);
        Self { value, since, read, unread: 0, window, measured: 0 }
    }

    pub(super) fn set(&mut self, now: Instant, value: u64) {
        if value != self.value {
            self.settle(now);
            self.value = value;
        }
    }

    #[cfg(test)]
    pub(super) fn value(&self) -> u64 {
        self.value
    }

    /// The mean since it was read before.
    pub(super) fn read(&mut self, now: Instant) -> f64 {
        self.settle(now);
        let time = time::nanos(now.since(std::mem::replace(&mut self.read, now)));
        std::mem::take(&mut self.unread) as f64 / time.max(1) as f64
    }

    /// The mean over the measured part of the run, which is over.
    pub(super) fn mean(&self) -> f64 {
        let rest = self.area(overlap(&self.window, self.since, self.window.end));
        (self.measured + rest) as f64 / time::nanos(self.window.length()).max(1) as f64
    }

    fn settle(&mut self, now: Instant) {
        self.unread += self.area(now.since(self.since));
        self.measured += self.area(overlap(&self.window, self.since, now));
        self.since = now;
    }

    fn area(&self, time: Duration) -> u128 {
        u128::from(self.value) * u128::from(time::nanos(time))
    }
}

/// How much of the time from `start` to `end` lies within the window.
pub(super) fn overlap(window: &Window, start: Instant, end: Instant) -> Duration {
    end.min(window.end).since(start.max(window.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_and_the_measured_mean_are_means_over_time() {
        let us = Instant::from_micros;
        let mut level = Level::new(4, Window { start: us(10), end: us(30) });
        level.set(us(5), 8);
        assert_eq!(level.read(us(20)), (4.0 * 5.0 + 8.0 * 15.0) / 20.0);
        level.set(us(25), 0);
        assert_eq!(level.mean(), (8.0 * 15.0) / 20.0);
        assert_eq!(level.read(us(40)), (8.0 * 5.0) / 20.0);
        assert_eq!(level.mean(), (8.0 * 15.0) / 20.0);
    }

    #[test]
    fn time_outside_of_the_window_does_not_count() {
        let us = Instant::from_micros;
        let window = Window { start: us(10), end: us(30) };
        let of = |start, end| overlap(&window, us(start), us(end)).as_micros();
        assert_eq!([of(0, 5), of(0, 15), of(15, 20), of(25, 90), of(40, 90)], [0, 5, 5, 5, 0]);
    }
}
