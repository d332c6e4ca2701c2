//! How far a mean over time may be from the truth by chance.

/// Bins that are taken together, so that what is left in a queue at the end of one batch matters
/// little to the next: 200 ms.
const BATCH: usize = 10;

/// Half of the width of the interval in which the mean of all bins lies with a confidence of 95 %,
/// by the means of batches. Zero for fewer than two batches, of which nothing can be said.
pub(super) fn half_width(bins: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let batches: Vec<f64> = bins.chunks_exact(BATCH).map(mean).collect();
    let count = batches.len();
    if count < 2 {
        return 0.0;
    }
    let middle = mean(&batches);
    let squares: f64 = batches.iter().map(|batch| (batch - middle).powi(2)).sum();
    let freedom = (count - 1) as f64;
    student(freedom) * (squares / freedom / count as f64).sqrt()
}

/// The 97.5th percentile of Student's distribution (Abramowitz and Stegun, 26.7.5, of whose series
/// these are the first terms; within 1 % from five degrees of freedom on).
fn student(freedom: f64) -> f64 {
    1.960 + 2.372 / freedom + 2.823 / freedom.powi(2) + 2.556 / freedom.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_tables() {
        for (freedom, table) in [(5.0, 2.571), (9.0, 2.262), (19.0, 2.093), (1e9, 1.960)] {
            assert!((student(freedom) / table - 1.0).abs() < 0.01, "{freedom}");
        }
    }

    #[test]
    fn steady_bins_have_no_width_and_others_that_of_their_spread() {
        assert_eq!(half_width(&[7.0; 100]), 0.0);
        assert_eq!(half_width(&[1.0, 9.0]), 0.0);
        // Batches of 0 and 2 by turns: a deviation of 1.0127 over the root of 40.
        let bins: Vec<f64> = (0..400).map(|bin| f64::from(bin / 10 % 2) * 2.0).collect();
        assert!((half_width(&bins) - 2.0227 * 1.0127 / 40_f64.sqrt()).abs() < 1e-3);
    }
}
