//! Two limits that take turns, and which of them is the better one.

use super::window::Window;
use super::{Spread, WINDOW_MIN};
use crate::time::Instant;

/// Served requests in the longest window.
const WINDOW_MAX: u32 = 256;

/// Served requests under each of the two limits after which the better one is taken for the better,
/// however little they differ.
const ARM_MAX: u32 = 1024;

/// How many standard errors make a proof, once turns have gone there and back.
const PROOF: f64 = 2.0;

/// The same before that, when a change with time could be mistaken for the limit's doing.
const PROOF_AT_ONCE: f64 = 3.0;

/// Where Little's law says that fewer are enough, they are let in as soon as it is proved that not
/// even half of the others would be missed.
const ELASTICITY_QUEUEING: f64 = 0.5;

/// Where the other limit lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

impl Direction {
    pub(super) fn opposite(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// One of the two limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    Kept,
    Other,
}

/// What was counted under one limit.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    work: f64,
    count: u32,
    seconds: f64,
    windows: u32,
}

impl Counted {
    fn rate(&self) -> f64 {
        // What was given up may exceed what was served.
        (self.work / self.seconds).max(f64::MIN_POSITIVE)
    }
}

/// Two limits that take turns.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) began: Instant,
    pub(super) direction: Direction,
    pub(super) other: u32,
    pub(super) is_at_other: bool,
    /// Requests in each window.
    pub(super) need: u32,
    /// Mean latency in the newest window of each.
    pub(super) latency_kept: f64,
    pub(super) latency_other: f64,
    /// |ln| of how many times one limit is the other.
    step: f64,
    counts: [Counted; 2],
}

impl Trial {
    /// Nothing counted yet.
    pub(super) fn new(
        now: Instant,
        direction: Direction,
        kept: u32,
        other: u32,
        spread: &Spread,
    ) -> Self {
        let step = libm::log(f64::from(other) / f64::from(kept)).abs();
        // So many that a limit of which each percent counts is told from one of which none does by
        // one turn there and back: two standard errors of 1.5 / need each.
        let need = 6.0 * spread.value() / (step * step * 0.81);
        Self {
            began: now,
            direction,
            other,
            is_at_other: false,
            need: (need as u32).max(kept.max(other) / 2).clamp(WINDOW_MIN, WINDOW_MAX),
            latency_kept: 0.0,
            latency_other: 0.0,
            step,
            counts: [Counted::default(); 2],
        }
    }

    /// A window under one of the two has ended.
    pub(super) fn add(&mut self, window: &Window) {
        let counted = &mut self.counts[usize::from(self.is_at_other)];
        counted.work += window.work;
        counted.count += window.count;
        counted.seconds += window.seconds;
        counted.windows += 1;
        let latency =
            if self.is_at_other { &mut self.latency_other } else { &mut self.latency_kept };
        *latency = window.latency();
    }

    /// Which of the two is the better one, if that is clear.
    ///
    /// The higher one is, if its throughput exceeds the other's by enough for how much higher it
    /// is; else the lower one.
    pub(super) fn verdict(
        &self,
        elasticity: f64,
        spread: &Spread,
        is_queueing: bool,
    ) -> Option<Arm> {
        let [kept, other] = &self.counts;
        if kept.windows == 0 || other.windows == 0 {
            return None;
        }
        let (low, high) = match self.direction {
            Direction::Up => (kept, other),
            Direction::Down => (other, kept),
        };
        let gained = libm::log(high.rate() / low.rate()) / self.step;
        let (low_error, high_error) = (spread.error(low.count), spread.error(high.count));
        let error = libm::sqrt(low_error * low_error + high_error * high_error) / self.step;
        let proof = if kept.windows > 1 { PROOF } else { PROOF_AT_ONCE };
        let is_proved = (gained - elasticity).abs() >= proof * error;
        let is_enough = low.count.min(high.count) >= ARM_MAX;
        let is_queue = self.direction == Direction::Down
            && is_queueing
            && ELASTICITY_QUEUEING - gained >= proof * error;
        // Between once and twice the threshold either is right: to tell such a limit from one that
        // is just not worth it would take ten times the requests.
        let is_indifferent = gained + proof * error <= 2.0 * elasticity;
        let is_higher_better = gained > elasticity && !is_queue && !is_indifferent;
        (is_proved || is_enough || is_queue || is_indifferent).then_some(
            match (self.direction, is_higher_better) {
                (Direction::Up, true) | (Direction::Down, false) => Arm::Other,
                (Direction::Up, false) | (Direction::Down, true) => Arm::Kept,
            },
        )
    }
}
