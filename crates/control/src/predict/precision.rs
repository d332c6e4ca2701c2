//! How precise a predictor is: measured, not assumed.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::time::nanos;

/// Predictions of which the errors are kept.
const WINDOW: usize = 1000;

/// The errors of a predictor's newest thousand predictions. An error is positive if the prediction
/// was too long (LIBROS §VIII-B1: estimated less real).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Precision {
    count: u64,
    /// What was predicted really took so long together, in seconds.
    real: f64,
    /// Nanoseconds.
    errors: VecDeque<i64>,
}

impl Precision {
    /// It was predicted, and it really took so long.
    pub fn observe(&mut self, predicted: Duration, real: Duration) {
        let signed = |time: Duration| i64::try_from(nanos(time)).unwrap_or(i64::MAX);
        if self.errors.len() == WINDOW {
            self.errors.pop_front();
        }
        self.errors.push_back(signed(predicted) - signed(real));
        self.count += 1;
        self.real += real.as_secs_f64();
    }

    /// Predictions so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What was predicted really took so long on average, in seconds, of all predictions. `None`
    /// before the first.
    pub fn real_mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.real / self.count as f64)
    }

    /// The part of the newest predictions, 0 to 1, that were off by `tolerance` at most; `None`
    /// before the first.
    pub fn within(&self, tolerance: Duration) -> Option<f64> {
        let close = |error: &&i64| error.unsigned_abs() <= nanos(tolerance);
        let part = self.errors.iter().filter(close).count() as f64 / self.errors.len() as f64;
        (!self.errors.is_empty()).then_some(part)
    }

    /// What most predictions are off by at most: that of the part `q`, 0 to 1, with the smallest
    /// errors. `None` before the first.
    pub fn error(&self, q: f64) -> Option<Duration> {
        let mut errors: alloc::vec::Vec<u64> =
            self.errors.iter().map(|error| error.unsigned_abs()).collect();
        errors.sort_unstable();
        let rank = libm::ceil(q.clamp(0.0, 1.0) * errors.len() as f64) as usize;
        errors.get(rank.saturating_sub(1)).copied().map(Duration::from_nanos)
    }

    /// The mean error in seconds: above 0 if predictions are too long. `None` before the first.
    pub fn bias(&self) -> Option<f64> {
        let sum: f64 = self.errors.iter().map(|error| *error as f64).sum();
        (!self.errors.is_empty()).then(|| sum / self.errors.len() as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_errors_of_both_signs() {
        let ms = Duration::from_millis;
        let mut precision = Precision::default();
        assert_eq!(
            (precision.within(ms(1)), precision.error(0.5), precision.bias()),
            Default::default()
        );
        for (predicted, real) in [(10, 10), (14, 10), (10, 18), (30, 10)] {
            precision.observe(ms(predicted), ms(real));
        }
        assert_eq!(precision.within(ms(4)), Some(0.5));
        assert_eq!(precision.error(0.75), Some(ms(8)));
        assert_eq!(precision.bias(), Some(0.004));
        assert_eq!((Precision::default().real_mean(), precision.real_mean()), (None, Some(0.012)));
        (0..1_000).for_each(|_| precision.observe(ms(1), ms(1)));
        assert_eq!((precision.count(), precision.within(Duration::ZERO)), (1_004, Some(1.0)));
        precision.observe(Duration::MAX, Duration::ZERO);
        assert_eq!(precision.error(1.0), Some(Duration::from_nanos(i64::MAX as u64)));
    }
}
