//! Shared pieces of the configuration schema: one serde schema serves flags, files and plans.

pub mod duration;

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::ops::RangeInclusive;

/// A configuration value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// Dotted path of the field, as in the configuration file.
    pub field: &'static str,
    /// What is wrong with it and what is allowed.
    pub problem: String,
}

impl ConfigError {
    /// An error about `field`; `problem` says what is wrong and what is allowed.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }

    /// Passes when `value` lies within `allowed`.
    ///
    /// # Errors
    ///
    /// Names the field, the value and the range.
    pub fn check_range<T: PartialOrd + fmt::Display + Copy>(
        field: &'static str,
        value: T,
        allowed: RangeInclusive<T>,
    ) -> Result<(), Self> {
        // Written so that a NaN, which compares with nothing, fails too.
        if allowed.contains(&value) {
            return Ok(());
        }
        let (low, high) = (allowed.start(), allowed.end());
        Err(Self::new(field, format!("{value} is out of range; allowed is {low} to {high}")))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_field_value_and_range() {
        let error = ConfigError::check_range("breakwater.beta", 1.5, 0.0..=1.0).unwrap_err();
        assert_eq!(error.to_string(), "breakwater.beta: 1.5 is out of range; allowed is 0 to 1");
        assert!(ConfigError::check_range("x", f64::NAN, 0.0..=1.0).is_err());
    }
}
