//! Exponentially weighted moving average.

/// An average in which the newest sample has weight `w` and all older ones share `1 - w`.
#[derive(Clone, Debug)]
pub struct Ewma {
    weight: f64,
    value: Option<f64>,
}

impl Ewma {
    /// An empty average; `weight` in (0, 1] is the weight of the newest sample.
    ///
    /// # Panics
    ///
    /// If `weight` lies outside (0, 1].
    pub fn new(weight: f64) -> Self {
        assert!(weight > 0.0 && weight <= 1.0, "EWMA weight {weight} is not in (0, 1]");
        Self { weight, value: None }
    }

    /// Adds a sample; the first one becomes the value itself. A sample that is not finite is
    /// ignored.
    pub fn observe(&mut self, sample: f64) {
        if !sample.is_finite() {
            return;
        }
        self.value = Some(match self.value {
            Some(value) => value + self.weight * (sample - value),
            None => sample,
        });
    }

    /// The average; `None` before the first sample.
    pub fn value(&self) -> Option<f64> {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_by_its_weight_and_ignores_nonsense() {
        let mut ewma = Ewma::new(0.2);
        assert_eq!(ewma.value(), None);
        ewma.observe(10.0);
        ewma.observe(20.0);
        ewma.observe(f64::NAN);
        assert_eq!(ewma.value(), Some(12.0));
    }

    #[test]
    #[should_panic(expected = "not in (0, 1]")]
    fn a_weight_of_zero_is_a_bug() {
        let _ = Ewma::new(0.0);
    }
}
