//! Delays and their quantiles.

use std::time::Duration;

use hdrhistogram::Histogram;
use seawall_control::time::nanos;
use serde::{Deserialize, Serialize};

use crate::duration::micros;

/// Above this, delays still count, as this one: nobody tells two such latencies apart.
pub const LONGEST: Duration = Duration::from_secs(3_600);

/// Significant decimal digits: a quantile is at most 0.1 % above the true one.
const DIGITS: u8 = 3;

/// Whether a quantile `q` of latencies is only a lower bound: `censored` (0 to 1) is the share of
/// the requests whose latency nobody knows because it was longer than anybody waited, and that is
/// more than lies above the quantile.
pub fn is_lower_bound(q: f64, censored: f64) -> bool {
    censored > 1.0 - q
}

/// Points of a [`ccdf`](Latencies::ccdf) for each power of ten of the share.
const PER_DECADE: i32 = 60;

/// The smallest share that a [`ccdf`](Latencies::ccdf) shows is this power of ten.
const LEAST_SHARE: i32 = -4;

/// A point of a complementary distribution: how many delays are longer than this one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slower {
    /// A delay, in microseconds.
    pub than_us: f64,
    /// The part of all delays that are longer, 0 to 1.
    pub share: f64,
}

/// A set of delays: an HdrHistogram in nanoseconds with three significant digits, and the exact
/// mean and maximum.
///
/// A quantile q is the smallest delay that at least q of all delays do not exceed. It is rounded up
/// to the histogram's precision, never beyond the maximum. A histogram takes about 270 kB whatever
/// it holds, so that recording never allocates.
///
/// ```
/// use std::time::Duration;
/// use seawall_measure::Latencies;
///
/// let mut latencies = Latencies::new();
/// for micros in 1..=100 {
///     latencies.record(Duration::from_micros(micros));
/// }
/// let p99 = latencies.quantile(0.99).unwrap().as_nanos() as f64;
/// assert!((p99 / 99_000.0 - 1.0).abs() < 0.001);
/// assert_eq!(latencies.max(), Some(Duration::from_micros(100)));
/// ```
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum_nanos: u128,
    max: Duration,
}

impl Latencies {
    /// No delays yet.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, nanos(LONGEST), DIGITS);
        Self {
            histogram: histogram.expect("constant bounds are valid"),
            sum_nanos: 0,
            max: Duration::ZERO,
        }
    }

    /// Adds one delay; more than [`LONGEST`] counts as that.
    pub fn record(&mut self, delay: Duration) {
        let delay = delay.min(LONGEST);
        self.histogram.saturating_record(nanos(delay));
        self.sum_nanos += delay.as_nanos();
        self.max = self.max.max(delay);
    }

    /// Adds all delays of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.sum_nanos += other.sum_nanos;
        self.max = self.max.max(other.max);
    }

    /// How many delays there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The delay that a share `q` (0 to 1) does not exceed; `None` without any delay.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        (self.count() > 0)
            .then(|| Duration::from_nanos(self.histogram.value_at_quantile(q)).min(self.max))
    }

    /// The mean in microseconds; `None` without any delay.
    pub fn mean_us(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_nanos as f64 / count as f64 / 1_000.0)
    }

    /// The longest delay; `None` without any.
    pub fn max(&self) -> Option<Duration> {
        (self.count() > 0).then_some(self.max)
    }

    /// The complementary distribution: for shares from 1 down to 10⁻⁴, in equal steps of their
    /// logarithm, the delay that no more than this share of the delays exceed. The shares are the
    /// same for any delays, but those of less than one delay are left out.
    pub fn ccdf(&self) -> Vec<Slower> {
        let shares = (0..=-LEAST_SHARE * PER_DECADE)
            .map(|step| 10_f64.powf(-f64::from(step) / f64::from(PER_DECADE)))
            .take_while(|share| share * self.count() as f64 >= 1.0);
        shares
            .filter_map(|share| Some(Slower { than_us: self.quantile_us(1.0 - share)?, share }))
            .collect()
    }

    /// A quantile in microseconds; see [`quantile`](Self::quantile).
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        self.quantile(q).map(micros)
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_has_no_quantiles() {
        let latencies = Latencies::new();
        assert_eq!(latencies.quantile(0.5), None);
        assert_eq!(latencies.mean_us(), None);
        assert_eq!(latencies.max(), None);
    }

    #[test]
    fn one_delay_is_every_quantile() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_nanos(123_457));
        for q in [0.0, 0.5, 0.999, 1.0] {
            let value = latencies.quantile(q).unwrap().as_nanos() as f64;
            assert!((value / 123_457.0 - 1.0).abs() < 0.001, "{q}: {value}");
        }
        assert_eq!(latencies.mean_us(), Some(123.457));
        assert_eq!(latencies.max(), Some(Duration::from_nanos(123_457)));
    }

    #[test]
    fn a_ccdf_has_the_share_above_each_delay() {
        let mut latencies = Latencies::new();
        assert!(latencies.ccdf().is_empty());
        for micros in 1..=1_000 {
            latencies.record(Duration::from_micros(micros));
        }
        let points = latencies.ccdf();
        for Slower { than_us, share } in &points {
            let above = (1_000.0 - than_us) / 1_000.0;
            assert!((above - share).abs() < 2.1e-3, "{share} exceed {than_us} µs");
        }
        assert_eq!(points.len(), 181, "the last one is exceeded by one of a thousand");
        assert!(points.is_sorted_by(|a, b| a.than_us <= b.than_us && a.share > b.share));
    }

    #[test]
    fn extremes_saturate() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::MAX);
        assert_eq!(latencies.count(), 2);
        assert_eq!(latencies.max(), Some(LONGEST));
        assert_eq!(latencies.quantile(1.0), Some(LONGEST));
    }

    #[test]
    fn merged_equals_recorded_together() {
        let (mut left, mut right, mut both) =
            (Latencies::new(), Latencies::new(), Latencies::new());
        for n in 1..=1_000_u64 {
            let delay = Duration::from_nanos(n * n);
            let part = if n % 3 == 0 { &mut left } else { &mut right };
            part.record(delay);
            both.record(delay);
        }
        left.merge(&right);
        for q in [0.1, 0.5, 0.9, 0.99, 0.999] {
            assert_eq!(left.quantile(q), both.quantile(q));
        }
        assert_eq!(left.mean_us(), both.mean_us());
        assert_eq!(left.max(), both.max());
    }
}
