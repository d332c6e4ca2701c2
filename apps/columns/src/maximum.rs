//! The maximum of a part of a column.
//!
//! Arrow's own looks at a total order of all floating-point numbers, which takes five times as long
//! on processors whose instructions are not told to be newer than those of 2003. Here prices are
//! finite, and an ordinary comparison will do.

/// Numbers that are compared at the same time.
const LANES: usize = 16;

/// The largest of `values`, which are finite; the least number there is if there are none.
pub fn max(values: &[f64]) -> f64 {
    let (groups, rest) = values.as_chunks::<LANES>();
    let mut largest = [f64::MIN; LANES];
    for group in groups {
        for (largest, value) in largest.iter_mut().zip(group) {
            *largest = larger(*largest, *value);
        }
    }
    largest.iter().chain(rest).copied().fold(f64::MIN, larger)
}

/// In a form that is one instruction.
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_last_when_sorted(values in vec(-1e300..1e300_f64, 1..200)) {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            prop_assert_eq!(max(&values), sorted[values.len() - 1]);
        }

        #[test]
        fn it_is_found_wherever_it_is(length in 1..100_usize, at in 0..100_usize) {
            let mut values = vec![1.0; length];
            values[at % length] = 2.0;
            prop_assert_eq!(max(&values), 2.0);
        }
    }

    #[test]
    fn of_nothing() {
        assert_eq!(max(&[]), f64::MIN);
    }
}
