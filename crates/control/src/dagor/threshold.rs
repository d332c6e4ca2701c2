//! Which levels are admitted, and how many requests a step of it is worth.

use alloc::boxed::Box;

use super::LEVELS;
use crate::request::Priority;

/// How many priorities there are.
const PRIORITIES: usize = u8::MAX as usize + 1;

/// Weight of the newest window in what is known about the requests of a priority.
const NEWEST: f64 = 0.1;

/// A priority with fewer requests than this in a window is not in use.
const IN_USE: f64 = 0.01;

/// All levels of some priorities, and some of the next one's.
///
/// DAGOR counts the requests of each level in a window, and moves its threshold by as many levels
/// as hold a given part of the requests (SoCC '18, algorithm 1). Levels of one priority are equally
/// likely, so here the counts are those of priorities; with a single one the rule becomes what the
/// code released with Breakwater does, × 0.95 and + 1.28 of 128 levels.
///
/// Deviation: clients drop what lies beyond the threshold, so their demand for it cannot be
/// counted. It is taken to be what it was when it was last admitted.
#[derive(Debug)]
pub struct Threshold {
    /// The least important priority of which something may be admitted.
    row: usize,
    /// Its levels that are admitted, 0 to [`LEVELS`]; whole ones count.
    share: f64,
    /// Levels of the most important priority in use that are always admitted.
    share_min: f64,
    /// Requests of each priority in a window, those that clients drop included.
    demand: Box<[f64; PRIORITIES]>,
    /// Requests of each priority that were admitted since [`learn`](Self::learn).
    admitted: Box<[u32; PRIORITIES]>,
}

impl Threshold {
    /// Admits all that is more important than `priority`, and `share` of the levels of that; at
    /// least `share_min` levels of the most important priority in use, whatever happens.
    pub fn new(priority: Priority, share: f64, share_min: f64) -> Self {
        Self {
            row: usize::from(priority.0),
            share,
            share_min,
            demand: Box::new([0.0; PRIORITIES]),
            admitted: Box::new([0; PRIORITIES]),
        }
    }

    /// Admits everything, but never less than one level.
    pub fn open() -> Self {
        Self::new(Priority(u8::MAX), f64::from(LEVELS), 1.0)
    }

    /// Judges a request of this level, and counts it.
    pub fn admits(&mut self, level: u16) -> bool {
        let admits = level <= self.level();
        self.admitted[usize::from(level / LEVELS)] += u32::from(admits);
        admits
    }

    /// The last level that is admitted.
    pub fn level(&self) -> u16 {
        (self.row as u16 * LEVELS + self.share as u16).saturating_sub(1)
    }

    /// For people: all priorities below this, and its fraction of the requests of the next.
    pub fn position(&self) -> f64 {
        self.row as f64 + self.share / f64::from(LEVELS)
    }

    /// A window has ended.
    pub fn learn(&mut self) {
        for (row, admitted) in self.admitted[..=self.row].iter_mut().enumerate() {
            let visible = if row < self.row { 1.0 } else { part(libm::floor(self.share)) };
            if visible > 0.0 {
                let demand = &mut self.demand[row];
                *demand += NEWEST * (f64::from(*admitted) / visible - *demand);
            }
            *admitted = 0;
        }
    }

    /// Admits fewer: `alpha` is the part of the admitted requests that is given up.
    pub fn shrink(&mut self, alpha: f64) {
        let first = self.demand.iter().position(|demand| *demand >= IN_USE);
        let Some(first) = first.filter(|first| *first <= self.row) else { return };
        let before: f64 = self.demand[..self.row].iter().sum();
        let mut excess = alpha * (before + self.demand[self.row] * part(self.share));
        while self.row > first {
            let here = self.demand[self.row] * part(self.share);
            if excess < here {
                break;
            }
            excess -= here;
            self.row -= 1;
            self.share = f64::from(LEVELS);
        }
        self.share -= levels(excess / self.demand[self.row]);
        if self.row == first {
            self.share = self.share.max(self.share_min);
        }
    }

    /// Admits more: `beta` is the part of all requests that is let in anew.
    pub fn grow(&mut self, beta: f64) {
        let mut room = beta * self.demand.iter().sum::<f64>();
        loop {
            let here = self.demand[self.row] * (1.0 - part(self.share));
            if room < here {
                self.share += levels(room / self.demand[self.row]);
                return;
            }
            if self.row + 1 == PRIORITIES {
                self.share = f64::from(LEVELS);
                return;
            }
            room -= here;
            self.row += 1;
            self.share = 0.0;
        }
    }
}

/// The part of a priority that so many levels are.
fn part(levels: f64) -> f64 {
    levels / f64::from(LEVELS)
}

/// The levels that make up this part of a priority.
fn levels(part: f64) -> f64 {
    part * f64::from(LEVELS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dagor::LEVEL_MAX;
    use alloc::vec::Vec;

    /// A window in which every level of these priorities is asked for once.
    fn window(threshold: &mut Threshold, priorities: &[u16]) {
        for priority in priorities {
            for level in 0..LEVELS {
                threshold.admits(priority * LEVELS + level);
            }
        }
        threshold.learn();
    }

    /// One that knows how many ask for these priorities.
    fn open(priorities: &[u16]) -> Threshold {
        let mut threshold = Threshold::open();
        (0..250).for_each(|_| window(&mut threshold, priorities));
        threshold
    }

    fn shrunk(threshold: &mut Threshold, priorities: &[u16]) -> f64 {
        window(threshold, priorities);
        threshold.shrink(0.05);
        threshold.position()
    }

    fn grown(threshold: &mut Threshold, priorities: &[u16]) -> f64 {
        window(threshold, priorities);
        threshold.grow(0.01);
        threshold.position()
    }

    #[track_caller]
    fn about(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
    }

    #[test]
    fn with_one_priority_it_is_the_released_rule() {
        let threshold = &mut Threshold::open();
        assert_eq!(threshold.level(), LEVEL_MAX);
        about(shrunk(threshold, &[128]), 128.95);
        threshold.share = 32.0;
        about(shrunk(threshold, &[128]) - 128.0, 30.4 / 128.0);
        assert_eq!(threshold.level(), 128 * LEVELS + 29);
        threshold.share = 32.0;
        about(grown(threshold, &[128]) - 128.0, 33.28 / 128.0);
    }

    #[test]
    fn one_level_stays_and_all_come_back() {
        let threshold = &mut Threshold::open();
        let positions: Vec<_> = (0..200).map(|_| shrunk(threshold, &[128])).collect();
        assert!(positions.is_sorted_by(|a, b| a >= b));
        assert_eq!(threshold.level(), 128 * LEVELS);
        assert!(threshold.admits(128 * LEVELS) && !threshold.admits(128 * LEVELS + 1));
        (0..100).for_each(|_| _ = grown(threshold, &[128]));
        assert_eq!(threshold.level(), LEVEL_MAX);
    }

    #[test]
    fn a_step_is_as_large_among_many_priorities() {
        let all: Vec<u16> = (0..200).collect();
        let threshold = &mut open(&all);
        about(shrunk(threshold, &all), 190.0);
        about(shrunk(threshold, &all), 180.5);
        about(grown(threshold, &all), 182.5);
    }

    #[test]
    fn the_less_important_go_first_whatever_their_numbers() {
        // Three of four requests are of priority 10, the rest of priority 200.
        let crowd = [10, 10, 10, 200];
        let threshold = &mut open(&crowd);
        for step in 1..=5 {
            let kept = 4.0 * 0.95_f64.powi(step);
            about(shrunk(threshold, &crowd), 197.0 + kept);
        }
        // 5 % of 3.095 are more than what is left of 200: all of that, and some of 10.
        about(shrunk(threshold, &crowd), 10.0 + 4.0 * 0.95_f64.powi(6) / 3.0);
        // What is beyond is remembered as it was.
        (0..9).for_each(|_| _ = grown(threshold, &crowd));
        about(threshold.position(), 200.0 + 4.0 * (0.95_f64.powi(6) + 0.09) - 3.0);
    }

    #[test]
    fn without_requests_it_stays_open() {
        let threshold = &mut Threshold::open();
        threshold.shrink(0.5);
        threshold.grow(0.5);
        assert_eq!(threshold.level(), LEVEL_MAX);
    }
}
