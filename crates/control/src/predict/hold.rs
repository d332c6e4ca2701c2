//! A lock whose holder says what it does: how long that still takes (LIBROS §VI).
//!
//! ```text
//!   holder: hold("rebalance", 256) ─► time = a + b × 256, as it was before ─► rest of the hold
//!   holder releases                ─► a, b learn
//! ```
//!
//! How long a critical section takes is told neither by the lock nor by the function that holds it,
//! but by what that function iterates over.

use alloc::vec::Vec;
use core::time::Duration;

use super::Precision;
use crate::time::Instant;

/// The newest sample's weight once there are many.
const WEIGHT: f64 = 0.05;

/// Labels that are told apart; what is announced under others is not predicted.
const LABELS: usize = 64;

/// What the holders of one lock announce, and what it took.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    works: Vec<Work>,
    current: Option<Current>,
}

/// How well one kind of work is predicted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Forecast {
    /// What the holder calls it.
    pub label: &'static str,
    /// Seconds for each unit of work.
    pub per_unit: f64,
    /// Seconds beside that.
    pub base: f64,
    /// How precise it is.
    pub precision: Precision,
}

#[derive(Clone, Debug)]
struct Work {
    label: &'static str,
    line: Line,
    precision: Precision,
}

/// What the present holder does.
#[derive(Clone, Copy, Debug)]
struct Current {
    work: usize,
    amount: u64,
    since: Instant,
    /// How long it takes; `None` for what was never done before.
    expected: Option<Duration>,
}

impl Holds {
    /// The holder begins with so many units of what it calls `label`. What it announced before ends
    /// with that.
    pub fn begin(&mut self, now: Instant, label: &'static str, amount: u64) {
        self.end(now);
        let known = self.works.iter().position(|work| work.label == label);
        let Some(work) = known.or_else(|| self.add(label)) else { return };
        let expected = self.works[work].line.at(amount);
        self.current = Some(Current { work, amount, since: now, expected });
    }

    fn add(&mut self, label: &'static str) -> Option<usize> {
        let index = self.works.len();
        (index < LABELS).then(|| {
            self.works.push(Work { label, line: Line::default(), precision: Precision::default() });
            index
        })
    }

    /// The holder is done with what it announced, if it did.
    pub fn end(&mut self, now: Instant) {
        let Some(current) = self.current.take() else { return };
        let work = &mut self.works[current.work];
        let took = now.since(current.since);
        if let Some(expected) = current.expected {
            work.precision.observe(expected, took);
        }
        work.line.observe(current.amount, took);
    }

    /// How long what the holder does still takes; `None` if nobody knows.
    ///
    /// Who takes longer than expected will hardly be done at once: it is expected to be late as
    /// much again as it is already.
    pub fn rest(&self, now: Instant) -> Option<Duration> {
        let current = self.current?;
        Some(current.expected?.abs_diff(now.since(current.since)))
    }

    /// What was announced so far.
    pub fn forecasts(&self) -> Vec<Forecast> {
        let forecast = |Work { label, line, precision }: &Work| {
            let (base, per_unit) = line.parameters();
            Forecast { label, per_unit, base, precision: precision.clone() }
        };
        self.works.iter().map(forecast).collect()
    }
}

/// A line through recent points: moving averages of what least squares need.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    count: u32,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Line {
    fn observe(&mut self, amount: u64, took: Duration) {
        let (x, y) = (amount as f64, took.as_secs_f64());
        self.count = self.count.saturating_add(1);
        let weight = WEIGHT.max(1.0 / f64::from(self.count));
        for (mean, sample) in
            [(&mut self.x, x), (&mut self.y, y), (&mut self.xx, x * x), (&mut self.xy, x * y)]
        {
            *mean += weight * (sample - *mean);
        }
    }

    /// Intercept and slope, neither below 0: less work never takes longer.
    fn parameters(&self) -> (f64, f64) {
        let variance = self.xx - self.x * self.x;
        let slope = if variance > 1e-9 * self.xx {
            ((self.xy - self.x * self.y) / variance).max(0.0)
        } else {
            f64::INFINITY // one amount only: through the origin, below
        };
        let base = self.y - slope * self.x;
        if base >= 0.0 {
            (base, slope)
        } else if self.x > 0.0 {
            (0.0, self.y / self.x)
        } else {
            (self.y, 0.0)
        }
    }

    fn at(&self, amount: u64) -> Option<Duration> {
        let (base, slope) = self.parameters();
        let seconds = base + slope * amount as f64;
        (self.count > 0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Holds that took so long, one after the other.
    fn after(holds: &[(u64, u64)]) -> (Holds, Instant) {
        let (mut all, mut now) = (Holds::default(), Instant::ORIGIN);
        for (amount, took) in holds {
            all.begin(now, "rebalance", *amount);
            now = now + MS(*took);
            all.end(now);
        }
        (all, now)
    }

    /// The paper's example (§VI): 32 nodes take 25 ms and 256 take 130 ms.
    #[test]
    fn the_rest_follows_from_the_amount() {
        let (mut holds, now) = after(&[(32, 25), (256, 130), (32, 25), (256, 130)]);
        assert_eq!(holds.rest(now), None, "nobody holds it");
        let near = |rest: Option<Duration>, ms: u64| {
            let off = rest.unwrap().abs_diff(MS(ms));
            assert!(off < Duration::from_micros(5), "{rest:?} is not {ms} ms");
        };
        for (amount, ms) in [(32, 25), (256, 130), (144, 77)] {
            let mut holds = holds.clone();
            holds.begin(now, "rebalance", amount);
            // The line through both is 10 ms and 0.46875 ms each: 77.5 ms for 144.
            let off = holds.rest(now).unwrap().abs_diff(MS(ms));
            assert!(off < Duration::from_micros(501), "{amount}: {off:?}");
        }
        holds.begin(now, "rebalance", 256);
        near(holds.rest(now + MS(100)), 30);
        near(holds.rest(now + MS(130)), 0);
        near(holds.rest(now + MS(170)), 40); // late, and as much again
    }

    #[test]
    fn what_was_never_done_is_not_predicted() {
        let mut holds = Holds::default();
        holds.begin(Instant::ORIGIN, "flush", 10);
        assert_eq!(holds.rest(Instant::ORIGIN), None);
        let later = Instant::ORIGIN + MS(20);
        holds.begin(later, "flush", 20); // and the other one ends
        let rest = holds.rest(later).unwrap();
        assert!(rest.abs_diff(MS(40)) < Duration::from_nanos(10), "through the origin: {rest:?}");
        holds.end(later + MS(39));
        let [forecast] = &holds.forecasts()[..] else { panic!("one label") };
        assert_eq!((forecast.label, forecast.precision.count()), ("flush", 1));
        assert_eq!(forecast.precision.within(MS(2)), Some(1.0));
    }

    #[test]
    fn a_program_that_makes_up_labels_gets_no_predictions_and_no_more_memory() {
        let mut holds = Holds::default();
        for index in 0..100_u32 {
            let label: &'static str = std::format!("label {index}").leak();
            holds.begin(Instant::ORIGIN, label, 1);
            holds.end(Instant::ORIGIN + MS(1));
        }
        assert_eq!(holds.forecasts().len(), LABELS);
    }

    proptest! {
        /// Whatever was measured, predictions are finite, and more work never takes less.
        #[test]
        fn predictions_are_sane(
            holds in prop::collection::vec((0_u64..1_000_000, 0_u64..10_000), 1..60),
            amounts in (0_u64..u64::MAX, 0_u64..u64::MAX),
        ) {
            let (holds, _) = after(&holds);
            let line = holds.works[0].line;
            let (less, more) = (amounts.0.min(amounts.1), amounts.0.max(amounts.1));
            prop_assert!(line.at(less).unwrap() <= line.at(more).unwrap());
        }
    }
}
