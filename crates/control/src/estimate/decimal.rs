//! A histogram with two significant decimal digits.

use alloc::vec;
use alloc::vec::Vec;

/// Mantissas of a decade: 10 to 99.
const MANTISSAS: usize = 90;

/// Decades: values from 1 to 10¹²; larger ones count as that.
const DECADES: usize = 12;

/// Counts of values in bins of two decimal digits, as `libcircllhist` has them, which Envoy uses.
///
/// A quantile is interpolated within its bin, and so wrong by less than a tenth.
#[derive(Clone, Debug)]
pub struct DecimalHistogram {
    /// That of zero, and then those of each decade.
    bins: Vec<u32>,
    count: u64,
}

impl Default for DecimalHistogram {
    fn default() -> Self {
        Self { bins: vec![0; 1 + MANTISSAS * DECADES], count: 0 }
    }
}

impl DecimalHistogram {
    /// Adds a value.
    pub fn observe(&mut self, value: u64) {
        let bin = &mut self.bins[bin(value)];
        *bin = bin.saturating_add(1);
        self.count += 1;
    }

    /// How many values it holds.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// True before the first value and after [`clear`](Self::clear).
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        self.bins.fill(0);
        self.count = 0;
    }

    /// The value that a part `q` of all lies below; `None` without values. `q` is clamped to
    /// [0, 1].
    pub fn value(&self, q: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let rank = q.clamp(0.0, 1.0) * self.count as f64;
        let mut below = 0.0;
        for (index, count) in self.bins.iter().enumerate().filter(|(_, count)| **count > 0) {
            let upper = below + f64::from(*count);
            if upper >= rank {
                let (left, width) = bounds(index);
                return Some(left + (rank - below) / f64::from(*count) * width);
            }
            below = upper;
        }
        let last = self.bins.iter().rposition(|count| *count > 0)?;
        let (left, width) = bounds(last);
        Some(left + width) // the rank was rounded up
    }
}

/// The bin of a value.
fn bin(value: u64) -> usize {
    let Some(decade) = value.checked_ilog10() else { return 0 };
    if decade as usize >= DECADES {
        return MANTISSAS * DECADES;
    }
    let mantissa = match decade {
        0 => value * 10,
        _ => value / 10_u64.pow(decade - 1),
    };
    1 + MANTISSAS * decade as usize + (mantissa as usize - 10)
}

/// The least value of a bin, and its width.
fn bounds(bin: usize) -> (f64, f64) {
    let Some(index) = bin.checked_sub(1) else { return (0.0, 0.0) };
    let (decade, mantissa) = (index / MANTISSAS, index % MANTISSAS + 10);
    let width = 10_u64.pow(decade as u32) as f64 / 10.0;
    (mantissa as f64 * width, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> DecimalHistogram {
        let mut histogram = DecimalHistogram::default();
        values.into_iter().for_each(|value| histogram.observe(value));
        histogram
    }

    #[test]
    fn bins_have_two_digits() {
        for (value, left, width) in [
            (0, 0.0, 0.0),
            (1, 1.0, 0.1),
            (9, 9.0, 0.1),
            (10, 10.0, 1.0),
            (99, 99.0, 1.0),
            (100, 100.0, 10.0),
            (1_234, 1_200.0, 100.0),
            (u64::MAX, 990_000_000_000.0, 10_000_000_000.0),
        ] {
            let (found, its) = bounds(bin(value));
            assert!((found - left).abs() < 1e-6 && (its - width).abs() < 1e-6, "{value}: {found}");
        }
    }

    #[test]
    fn quantiles_are_interpolated() {
        assert_eq!(of([]).value(0.5), None);
        assert_eq!(of([0, 0, 0]).value(0.9), Some(0.0));
        // Half of four values in one bin.
        assert_eq!(of([1_200, 1_210, 1_250, 1_299]).value(0.5), Some(1_250.0));
        let histogram = of(1..=10_000);
        for q in [0.01, 0.1, 0.5, 0.9, 0.99] {
            let value = histogram.value(q).unwrap();
            assert!((value / (q * 10_000.0) - 1.0).abs() < 0.011, "{q}: {value}");
        }
        assert_eq!(histogram.value(1.0), Some(11_000.0), "the end of the last bin");
    }

    #[test]
    fn is_empty_after_it_was_cleared() {
        let mut histogram = of([5]);
        assert_eq!((histogram.len(), histogram.is_empty()), (1, false));
        histogram.clear();
        assert_eq!((histogram.len(), histogram.value(0.5)), (0, None));
    }
}
