//! Lines through points of which some lie far off.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::random::Rng;

/// Pairs of points that a line is drawn through. With half of the points off the line, all but one
/// in 10^8 of so many trials find at least one pair on it.
const TRIALS: u32 = 64;

/// Points are on a line if they are no farther from it than this, in seconds, however close all
/// others are: clocks and schedulers are no better.
const NEAR_LEAST: f64 = 1e-4;

/// y = intercept + slope × x. Neither is negative: who has more to do does not take less time, and
/// nothing takes less than none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Line {
    /// Seconds for each unit of x.
    pub slope: f64,
    /// Seconds without any.
    pub intercept: f64,
}

/// A point: what there was to do, and the seconds that it took.
type Point = (f64, f64);

/// The newest points, and the lines through them.
#[derive(Clone, Debug)]
pub(super) struct Points {
    points: VecDeque<Point>,
    most: usize,
}

impl Line {
    /// The seconds for `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }

    fn through((x1, y1): Point, (x2, y2): Point) -> Option<Self> {
        let slope = (y2 - y1) / (x2 - x1);
        let intercept = y1 - slope * x1;
        (slope.is_finite() && slope >= 0.0 && intercept >= 0.0).then_some(Self { slope, intercept })
    }

    /// Least squares among the lines that are allowed.
    fn least_squares(points: &[Point]) -> Self {
        let count = points.len() as f64;
        let mean = |of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>();
        let spread = sum(&|point| (point.0 - x) * (point.0 - x));
        let together = sum(&|point| (point.0 - x) * (point.1 - y));
        // Where all have as much to do, more of it is not known to take longer.
        let slope = if spread > 0.0 { (together / spread).max(0.0) } else { 0.0 };
        let intercept = y - slope * x;
        if intercept >= 0.0 {
            return Self { slope, intercept };
        }
        // The sum of squares is convex: with the best intercept negative, the best that is allowed
        // is 0.
        let slope = sum(&|point| point.0 * point.1) / sum(&|point| point.0 * point.0);
        Self { slope, intercept: 0.0 }
    }
}

impl Points {
    pub(super) fn new(most: usize) -> Self {
        Self { points: VecDeque::with_capacity(most), most }
    }

    /// Adds one, and forgets the oldest if there are too many.
    pub(super) fn add(&mut self, x: f64, y: f64) {
        if self.points.len() == self.most {
            self.points.pop_front();
        }
        self.points.push_back((x, y));
    }

    /// Ordinary least squares; `None` without points.
    pub(super) fn ols(&self) -> Option<Line> {
        let points: Vec<Point> = self.points.iter().copied().collect();
        (!points.is_empty()).then(|| Line::least_squares(&points))
    }

    /// Random sample consensus (Fischler and Bolles, 1981): of lines through two points drawn at
    /// random, the one that most others are near; then least squares of those. `None` without
    /// points.
    pub(super) fn ransac(&self, rng: &mut Rng) -> Option<Line> {
        let points: Vec<Point> = self.points.iter().copied().collect();
        if points.len() < 3 {
            return self.ols();
        }
        let near = self.near();
        let level = median(points.iter().map(|point| point.1).collect());
        let flat = Line { slope: 0.0, intercept: level };
        let mut draw = || points[rng.below(points.len() as u64) as usize];
        let drawn: Vec<Line> = (0..TRIALS).filter_map(|_| Line::through(draw(), draw())).collect();
        let best = core::iter::once(flat)
            .chain(drawn)
            .map(|line| consensus(&points, line, near))
            .reduce(|best, other| {
                let is_better = other.0.len() > best.0.len()
                    || (other.0.len() == best.0.len() && other.1 < best.1);
                if is_better { other } else { best }
            });
        best.map(|(near, _)| Line::least_squares(&near))
    }

    /// How far from a line a point may be that is on it: as far as half of all points are from the
    /// median of their times.
    ///
    /// That is scikit-learn's default, which the paper does not say whether it used.
    fn near(&self) -> f64 {
        let times: Vec<f64> = self.points.iter().map(|point| point.1).collect();
        let level = median(times.clone());
        let deviations = times.into_iter().map(|time| (time - level).abs()).collect();
        median(deviations).max(NEAR_LEAST)
    }
}

/// The points near a line, and how far they are from it together.
fn consensus(points: &[Point], line: Line, near: f64) -> (Vec<Point>, f64) {
    let distance = |point: &Point| (point.1 - line.at(point.0)).abs();
    let on: Vec<Point> = points.iter().copied().filter(|point| distance(point) <= near).collect();
    let sum = on.iter().map(distance).sum();
    (on, sum)
}

/// The middle one of at least one value.
fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(all: &[Point]) -> Points {
        let mut points = Points::new(all.len());
        all.iter().for_each(|&(x, y)| points.add(x, y));
        points
    }

    fn close(line: Option<Line>, slope: f64, intercept: f64) -> bool {
        line.is_some_and(|line| {
            (line.slope - slope).abs() < 1e-9 && (line.intercept - intercept).abs() < 1e-9
        })
    }

    #[test]
    fn both_find_a_line_that_all_are_on() {
        let all: Vec<_> = (0..20).map(|x| (f64::from(x), 2.0 + 3.0 * f64::from(x))).collect();
        assert!(close(points(&all).ols(), 3.0, 2.0));
        assert!(close(points(&all).ransac(&mut Rng::new(1)), 3.0, 2.0));
    }

    #[test]
    fn ransac_does_not_look_at_those_far_off() {
        let is_off = |x: u32| x.is_multiple_of(4);
        let time = |x: u32| 0.010 + 0.001 * f64::from(x) + if is_off(x) { 0.5 } else { 0.0 };
        let all: Vec<_> = (1..=40).map(|x| (f64::from(x), time(x))).collect();
        for seed in 0..100 {
            assert!(close(points(&all).ransac(&mut Rng::new(seed)), 0.001, 0.010), "{seed}");
        }
        let ols = points(&all).ols().unwrap();
        assert!(ols.at(20.0) > 0.1, "a quarter of half a second");
    }

    #[test]
    fn neither_slope_nor_intercept_is_negative() {
        let falling = points(&[(0.0, 3.0), (1.0, 2.0), (2.0, 1.0)]);
        assert!(close(falling.ols(), 0.0, 2.0));
        assert!(close(falling.ransac(&mut Rng::new(1)), 0.0, 2.0));
        let late = points(&[(1.0, 0.0), (2.0, 2.0), (3.0, 4.0)]);
        assert!(close(late.ols(), 16.0 / 14.0, 0.0));
    }

    #[test]
    fn as_much_to_do_each_time_is_as_long_each_time() {
        let same = points(&[(5.0, 1.0), (5.0, 2.0), (5.0, 3.0)]);
        assert!(close(same.ols(), 0.0, 2.0) && close(same.ransac(&mut Rng::new(1)), 0.0, 2.0));
        let nothing = points(&[(0.0, 1.0), (0.0, 3.0)]);
        assert!(close(nothing.ols(), 0.0, 2.0));
        assert_eq!((Points::new(1).ols(), Points::new(1).ransac(&mut Rng::new(1))), (None, None));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut few = Points::new(2);
        [(0.0, 100.0), (1.0, 1.0), (2.0, 2.0)].into_iter().for_each(|(x, y)| few.add(x, y));
        assert!(close(few.ols(), 1.0, 0.0));
    }
}
