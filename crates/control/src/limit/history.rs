//! How many requests were in the server when each of them arrived.

use alloc::collections::VecDeque;

use crate::time::Instant;

/// Arrivals that are remembered: 64 kB.
const MOST: usize = 4096;

/// The numbers at the latest arrivals, oldest first. Of several at one instant the last counts for
/// all.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<(Instant, u32)>);

impl History {
    /// A request arrived, and is one of `in_flight` now.
    pub(super) fn on_arrival(&mut self, now: Instant, in_flight: u32) {
        if in_flight == 1 {
            self.0.clear(); // all that came before have left
        }
        if let Some(last) = self.0.back_mut().filter(|(at, _)| *at == now) {
            last.1 = in_flight;
            return;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((now, in_flight));
    }

    /// How many there were when a request had arrived then; `None` if more have come since than
    /// are remembered.
    pub(super) fn at(&self, arrived: Instant) -> Option<u32> {
        let after = self.0.partition_point(|(at, _)| *at <= arrived);
        Some(self.0[after.checked_sub(1)?].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_each_arrival_until_nobody_is_left() {
        let mut history = History::default();
        let us = Instant::from_micros;
        assert_eq!(history.at(us(1)), None);
        for (at, in_flight) in [(1, 1), (2, 2), (2, 3), (5, 2)] {
            history.on_arrival(us(at), in_flight);
        }
        assert_eq!(
            [0, 1, 2, 4, 5, 9].map(|at| history.at(us(at)).unwrap_or(0)),
            [0, 1, 3, 3, 2, 2]
        );
        history.on_arrival(us(9), 1);
        assert_eq!((history.at(us(5)), history.at(us(9))), (None, Some(1)));
    }

    #[test]
    fn forgets_what_is_long_ago() {
        let mut history = History::default();
        for at in 0..10_000 {
            history.on_arrival(Instant::from_micros(at), at as u32 + 1);
        }
        let at = |us| history.at(Instant::from_micros(us));
        assert_eq!([at(5_000), at(5_904), at(9_999)], [None, Some(5_905), Some(10_000)]);
    }
}
