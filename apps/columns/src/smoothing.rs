//! Exponentially weighted smoothing of a column.
//!
//! ```text
//!   s[0] = x[0]        s[i] = α·x[i] + (1 − α)·s[i − 1]        α = 2 / (span + 1)
//! ```
//!
//! Written like this each row has to wait for the one before it, and a core is busy with its own
//! additions before it is with memory. So rows are taken in groups, with the weights of what came
//! before a group worked out beforehand: only the last of a group is waited for.

/// Rows of a group.
const GROUP: usize = 8;

/// Smooths `values` into `smoothed`, which then has as many. What it had before is gone.
///
/// `span` is how many rows it takes about to forget: the weight of what is older is 13 %.
///
/// # Panics
///
/// If `span` is 0.
pub fn smooth(values: &[f64], span: u32, smoothed: &mut Vec<f64>) {
    assert!(span > 0, "a span of 0 has no weight");
    smoothed.clear();
    let Some(&first) = values.first() else { return };
    let alpha = 2.0 / (f64::from(span) + 1.0);
    let keep = 1.0 - alpha;
    let mut weights = [keep; GROUP]; // of what came before, at each row of a group
    for row in 1..GROUP {
        weights[row] = weights[row - 1] * keep;
    }
    smoothed.reserve(values.len());
    let (groups, rest) = values.as_chunks::<GROUP>();
    let mut last = first;
    for group in groups {
        let mut own = [0.0; GROUP]; // what the rows of this group alone make of it
        let mut sum = 0.0;
        for (own, value) in own.iter_mut().zip(group) {
            sum = alpha * value + keep * sum;
            *own = sum;
        }
        for (own, weight) in own.iter_mut().zip(&weights) {
            *own += weight * last;
        }
        last = own[GROUP - 1];
        smoothed.extend_from_slice(&own);
    }
    for value in rest {
        last = alpha * value + keep * last;
        smoothed.push(last);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn naive(values: &[f64], span: u32) -> Vec<f64> {
        let alpha = 2.0 / (f64::from(span) + 1.0);
        let mut smoothed: Vec<f64> = Vec::new();
        for (row, value) in values.iter().enumerate() {
            let last = if row == 0 { *value } else { smoothed[row - 1] };
            smoothed.push(alpha * value + (1.0 - alpha) * last);
        }
        smoothed
    }

    fn smoothed(values: &[f64], span: u32) -> Vec<f64> {
        let mut smoothed = vec![7.0; 3]; // to be forgotten
        smooth(values, span, &mut smoothed);
        smoothed
    }

    proptest! {
        #[test]
        fn it_is_that_of_the_definition(
            values in vec(-1e6..1e6_f64, 0..200),
            span in prop_oneof![1..20_u32, Just(u32::MAX), any::<u32>().prop_map(|s| s.max(1))],
        ) {
            let (found, expected) = (smoothed(&values, span), naive(&values, span));
            prop_assert_eq!(found.len(), expected.len());
            let largest = values.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
            for (found, expected) in found.iter().zip(&expected) {
                prop_assert!((found - expected).abs() <= 1e-12 * largest, "{found} {expected}");
            }
        }

        #[test]
        fn it_stays_between_the_extremes(values in vec(0.5..2.0_f64, 1..100), span in 1..50_u32) {
            let (least, most) = (
                values.iter().copied().fold(f64::MAX, f64::min),
                values.iter().copied().fold(f64::MIN, f64::max),
            );
            for value in smoothed(&values, span) {
                prop_assert!(least - 1e-12 <= value && value <= most + 1e-12, "{value}");
            }
        }
    }

    #[test]
    fn a_span_of_one_row_changes_nothing() {
        let values: Vec<f64> = (0..50).map(f64::from).collect();
        assert_eq!(smoothed(&values, 1), values);
    }

    #[test]
    fn by_hand() {
        assert_eq!(smoothed(&[1.0, 3.0, 3.0], 3), [1.0, 2.0, 2.5]);
        assert_eq!(smoothed(&[], 3), []);
    }
}
