//! Axes: a range, and ticks at numbers that people count in.

use crate::report::format;

/// Ticks aimed at on a linear axis.
const TICKS: f64 = 7.0;

/// Decades of a logarithmic axis from which on only the powers of ten are labelled.
const MANY_DECADES: i32 = 2;

/// One axis of a chart, in the coordinates in which it is drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    /// What it shows, with its unit.
    pub(super) label: String,
    /// The low end.
    pub(super) min: f64,
    /// The high end, above the low one.
    pub(super) max: f64,
    /// Labelled positions.
    pub(super) ticks: Vec<(f64, String)>,
    /// Positions whose labels are a row lower.
    pub(super) lower: Vec<(f64, String)>,
    /// Positions that only have a line.
    pub(super) minor: Vec<f64>,
}

impl Axis {
    /// From zero to at least `max`, a little beyond if `room` is above one.
    pub(super) fn linear(
        label: impl Into<String>,
        max: f64,
        room: f64,
        text: impl Fn(f64) -> String,
    ) -> Self {
        let max = if max.is_finite() && max > 0.0 { max * room } else { 1.0 };
        let step = step(max / TICKS);
        // The sum of many small steps may end a little below a round number.
        let count = (max / step + 1e-6).floor() as u32;
        let ticks = (0..=count).map(|n| f64::from(n) * step).map(|at| (at, text(at))).collect();
        Self { label: label.into(), min: 0.0, max, ticks, lower: Vec::new(), minor: Vec::new() }
    }

    /// From somewhat below the least of `values` to somewhat above the largest.
    pub(super) fn around(
        label: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
        text: impl Fn(f64) -> String,
    ) -> Self {
        let values = values.into_iter().filter(|value| value.is_finite());
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > high {
            return Self::linear(label, 1.0, 1.0, text);
        }
        let step = step(((high - low) / TICKS).max(high.abs() * 1e-3).max(1e-9));
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let last = last.max(first + 1);
        let ticks = (first..=last).map(|n| n as f64 * step).map(|at| (at, text(at))).collect();
        let (min, max) = (first as f64 * step, last as f64 * step);
        Self { label: label.into(), min, max, ticks, lower: Vec::new(), minor: Vec::new() }
    }

    /// Delays in microseconds on a logarithmic axis.
    pub(super) fn delays(
        label: impl Into<String>,
        delays_us: impl IntoIterator<Item = f64>,
    ) -> Self {
        Self::logarithmic(label, delays_us, format::delay)
    }

    /// A logarithmic axis: the coordinate is the power of ten. Covers all of `values` that are
    /// above zero.
    pub(super) fn logarithmic(
        label: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
        text: impl Fn(f64) -> String,
    ) -> Self {
        let tick =
            |decade: i32, digit: u32| format::round(&text(f64::from(digit) * 10_f64.powi(decade)));
        let powers = values.into_iter().filter_map(power);
        let (low, high) = powers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), power| {
            (low.min(power), high.max(power))
        });
        let (low, high) = if low <= high { (low, high) } else { (2.0, 3.0) };
        let bottom = low.floor() as i32;
        let top = (high.ceil() as i32).max(bottom + 1);
        let within = bottom..top;
        let few = top - bottom <= MANY_DECADES;
        let mut ticks = Vec::new();
        let mut minor = Vec::new();
        for (decade, digit) in within.flat_map(|decade| (1..10).map(move |digit| (decade, digit))) {
            let at = f64::from(decade) + f64::from(digit).log10();
            if digit == 1 || (few && (digit == 2 || digit == 5)) {
                ticks.push((at, tick(decade, digit)));
            } else {
                minor.push(at);
            }
        }
        ticks.push((f64::from(top), tick(top, 1)));
        let (min, max) = (f64::from(bottom), f64::from(top));
        Self { label: label.into(), min, max, ticks, lower: Vec::new(), minor }
    }

    /// One place for each name, in their order, at 0, 1, 2 and so on. At `most` so many names fit
    /// side by side. If there are more, they are in two rows by turns; and if there are too many
    /// for that, only every second or third has its name.
    pub(super) fn places(label: impl Into<String>, names: &[String], most: usize) -> Self {
        let rows = if (most + 1..=2 * most).contains(&names.len()) { 2 } else { 1 };
        let every = if rows == 2 { 1 } else { names.len().div_ceil(most).max(1) };
        let row = |row: usize| {
            let named = names.iter().enumerate().skip(row).step_by(every * rows);
            named.map(|(index, name)| (index as f64, name.clone())).collect()
        };
        let (ticks, lower) = (row(0), if rows == 2 { row(1) } else { Vec::new() });
        let max = names.len().max(1) as f64 - 0.5;
        Self { label: label.into(), min: -0.5, max, ticks, lower, minor: Vec::new() }
    }

    /// Where a coordinate lies between two ends, in pixels. What lies outside the axis is moved to
    /// its end.
    pub(super) fn place(&self, at: f64, (from, to): (f64, f64)) -> f64 {
        let part = (at.clamp(self.min, self.max) - self.min) / (self.max - self.min);
        from + part * (to - from)
    }
}

/// The coordinate of a number on a logarithmic axis; zero and less have none.
pub(super) fn power(number: f64) -> Option<f64> {
    (number.is_finite() && number > 0.0).then(|| number.log10())
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `rough`.
fn step(rough: f64) -> f64 {
    let base = 10_f64.powf(rough.log10().floor());
    let factors = [1.0, 2.0, 2.5, 5.0];
    factors.into_iter().map(|factor| factor * base).find(|&s| s >= rough).unwrap_or(10.0 * base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn linear_ticks_are_round() {
        let axis = Axis::linear("", 3.0, 1.0, |at| at.to_string());
        assert_eq!(texts(&axis), ["0", "0.5", "1", "1.5", "2", "2.5", "3"]);
        let axis = Axis::linear("", 123_400.0, 1.1, |at| format::round(&format::rate(at)));
        assert_eq!(texts(&axis), ["0", "20k", "40k", "60k", "80k", "100k", "120k"]);
    }

    #[test]
    fn an_axis_of_nothing_is_still_one() {
        for nothing in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let axis = Axis::linear("", nothing, 1.1, |at| at.to_string());
            assert!(axis.max > axis.min && !axis.ticks.is_empty());
        }
        let axis = Axis::delays("", []);
        assert_eq!((axis.min, axis.max), (2.0, 3.0));
        let axis = Axis::places("", &[], 12);
        assert!(axis.max > axis.min);
    }

    #[test]
    fn delays_have_decades() {
        let axis = Axis::delays("", [250.0, 0.0, f64::NAN, 2_400_000.0]);
        assert_eq!((axis.min, axis.max), (2.0, 7.0));
        assert_eq!(texts(&axis), ["100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
        let axis = Axis::delays("", [1_000.0]);
        assert_eq!(texts(&axis), ["1 ms", "2 ms", "5 ms", "10 ms"]);
        assert_eq!(axis.minor.len(), 6);
    }

    #[test]
    fn an_axis_around_numbers_need_not_begin_at_zero() {
        let axis = Axis::around("", [781_000.0, 829_000.0], format::rate);
        assert_eq!((axis.min, axis.max), (780_000.0, 830_000.0));
        assert_eq!(axis.ticks.len(), 6);
        for odd in [vec![], vec![5.0], vec![0.0, 0.0], vec![f64::NAN]] {
            let axis = Axis::around("", odd.clone(), format::rate);
            assert!(axis.max > axis.min, "{odd:?}");
        }
    }

    #[test]
    fn many_places_are_thinned() {
        let names: Vec<String> = (0..30).map(|n| n.to_string()).collect();
        assert_eq!(texts(&Axis::places("", &names, 12))[..3], ["0", "3", "6"]);
        assert_eq!(Axis::places("", &names, 40).ticks.len(), 30);
        let two_rows = Axis::places("", &names[..5], 3);
        assert_eq!(texts(&two_rows), ["0", "2", "4"]);
        assert_eq!(two_rows.lower, [(1.0, "1".into()), (3.0, "3".into())]);
    }
}
