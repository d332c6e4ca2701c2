//! Contestants that take turns within one run, so that whatever slows the machine down slows all of
//! them.
//!
//! ```text
//!   round 0:  A  B  C        ratios are taken within each round,
//!   round 1:  B  C  A        and reported as their median, least and most
//!   round 2:  C  A  B
//! ```
//!
//! # Example
//!
//! ```
//! use seawall_bench_turns::{Spread, order};
//!
//! assert_eq!(order(1, 3).collect::<Vec<_>>(), [1, 2, 0]);
//! assert_eq!(Spread::of([2.0, 4.0, 3.0]).to_string(), "3.00 (2.00–4.00)");
//! ```
//!
//! # What it does not do
//!
//! It measures nothing itself.

use std::fmt;

use serde::Serialize;

/// The order in which that many contestants take their turns. Somebody else begins each round, so
/// that coming first or last favours nobody.
pub fn order(round: usize, contestants: usize) -> impl Iterator<Item = usize> {
    (0..contestants).map(move |index| (round + index) % contestants)
}

/// Median, least and most of some rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one; of an even number of values the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of no values, all zero.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
            return Self { median: 0.0, min: 0.0, max: 0.0 };
        };
        let middle = [(sorted.len() - 1) / 2, sorted.len() / 2].map(|at| sorted[at]);
        Self { median: middle.iter().sum::<f64>() / 2.0, min: *min, max: *max }
    }

    /// Of the ratios of two contestants' values, round by round.
    pub fn of_ratios(own: &[f64], others: &[f64]) -> Self {
        Self::of(own.iter().zip(others).map(|(own, other)| own / other))
    }
}

/// Median, least and most, with two digits unless the format says how many.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self { median, min, max }, digits) = (self, f.precision().unwrap_or(2));
        write!(f, "{median:.digits$} ({min:.digits$}–{max:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_number_of_rounds_has_a_median_too() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!(spread, Spread { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(format!("{spread:.1}"), "2.5 (1.0–4.0)");
    }

    #[test]
    fn each_comes_first_as_often_as_the_others() {
        let firsts: Vec<_> = (0..6).filter_map(|round| order(round, 3).next()).collect();
        assert_eq!(firsts, [0, 1, 2, 0, 1, 2]);
    }
}
