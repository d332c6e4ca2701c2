//! How often something took how long, as a histogram's buckets tell it.

use serde::{Serialize, Serializer};

/// A bucket is wide if its end is more than so many times its beginning: then a quantile within it
/// is a guess, and its end is what is known.
const WIDE: f64 = 1.25;

/// How many values were at most each bound, by bound.
#[derive(Clone, Debug, Default)]
pub(super) struct Buckets(Vec<(f64, f64)>);

/// A time that a share of all did not exceed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Quantile {
    pub(crate) seconds: f64,
    /// It was longer than that: than all buckets with a bound.
    pub(crate) is_beyond: bool,
    /// The end of its bucket, if that is wide.
    pub(crate) at_most: Option<f64>,
}

impl Quantile {
    /// A time that was measured.
    pub(crate) fn exact(seconds: f64) -> Self {
        Self { seconds, ..Self::default() }
    }
}

impl Serialize for Quantile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.seconds.serialize(serializer)
    }
}

impl Buckets {
    /// So many more values were at most `bound`.
    pub(super) fn add(&mut self, bound: f64, count: f64) {
        let place = self.0.partition_point(|(known, _)| *known < bound);
        match self.0.get_mut(place) {
            Some((known, sum)) if *known == bound => *sum += count,
            _ => self.0.insert(place, (bound, count)),
        }
    }

    fn total(&self) -> Option<f64> {
        self.0.last().map(|(_, total)| *total).filter(|total| *total > 0.0)
    }

    /// What a share `q` did not exceed, as Prometheus' `histogram_quantile` finds it: values are
    /// spread evenly in their bucket, and the first bucket begins at 0.
    pub(super) fn quantile(&self, q: f64) -> Option<Quantile> {
        let rank = q * self.total()?;
        let (mut begin, mut below) = (0.0, 0.0);
        for &(bound, count) in self.0.iter().filter(|(bound, _)| bound.is_finite()) {
            if count >= rank && count > below {
                let seconds = begin + (bound - begin) * (rank - below) / (count - below);
                let at_most = (bound > WIDE * begin).then_some(bound);
                return Some(Quantile { seconds, is_beyond: false, at_most });
            }
            (begin, below) = (bound, count);
        }
        Some(Quantile { seconds: begin, is_beyond: true, at_most: None })
    }

    /// The part that took at most so long, with values spread in the same way. What is longer than
    /// all buckets with a bound is longer than that.
    pub(super) fn share_within(&self, seconds: f64) -> Option<f64> {
        let total = self.total()?;
        let (mut begin, mut below) = (0.0, 0.0);
        for &(bound, count) in self.0.iter().filter(|(bound, _)| bound.is_finite()) {
            if bound >= seconds {
                let within = below + (count - below) * (seconds - begin) / (bound - begin);
                return Some(within / total);
            }
            (begin, below) = (bound, count);
        }
        Some(below / total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(counts: &[(f64, f64)]) -> Buckets {
        let mut buckets = Buckets::default();
        counts.iter().for_each(|(bound, count)| buckets.add(*bound, *count));
        buckets
    }

    #[test]
    fn quantiles_in_wide_buckets_have_a_bound() {
        // Two series, in any order, add up.
        let all = f64::INFINITY;
        let some = [(all, 5.0), (0.2, 5.0), (0.1, 0.0), (0.1, 5.0), (all, 5.0), (0.2, 5.0)];
        let median = buckets(&some).quantile(0.5).unwrap();
        assert_eq!((median.seconds, median.at_most), (0.1, Some(0.1)));
        let narrow = buckets(&[(1.0, 0.0), (1.2, 10.0), (f64::INFINITY, 10.0)]);
        let median = narrow.quantile(0.5).unwrap();
        assert!((median.seconds - 1.1).abs() < 1e-9 && median.at_most.is_none(), "{median:?}");
        let beyond = buckets(&[(1.0, 0.0), (f64::INFINITY, 10.0)]).quantile(0.5).unwrap();
        assert_eq!((beyond.seconds, beyond.is_beyond), (1.0, true));
        assert_eq!(buckets(&[(1.0, 0.0), (f64::INFINITY, 0.0)]).quantile(0.5), None);
    }

    #[test]
    fn a_share_is_exact_at_a_bound_and_even_within_a_bucket() {
        let some = buckets(&[(0.1, 20.0), (0.2, 60.0), (f64::INFINITY, 100.0)]);
        let within = |seconds| some.share_within(seconds).unwrap();
        assert_eq!((within(0.1), within(0.2), within(9.0)), (0.2, 0.6, 0.6));
        assert!((within(0.15) - 0.4).abs() < 1e-9 && (within(0.05) - 0.1).abs() < 1e-9);
        assert_eq!(buckets(&[]).share_within(1.0), None);
    }
}
