//! What is wrong with a configuration.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use seawall_control::config::{self, duration};

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// Dotted path of the key, as in the file.
    pub key: String,
    /// What is wrong with it and what is allowed.
    pub problem: String,
}

impl ConfigError {
    /// An error about `key`.
    pub(crate) fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }

    /// The same error about a key below `place`.
    pub(crate) fn within(self, place: &str) -> Self {
        Self { key: format!("{place}.{}", self.key), ..self }
    }

    /// Passes when `value` lies within `allowed`.
    pub(crate) fn check_range<T: PartialOrd + fmt::Display + Copy>(
        key: &str,
        value: T,
        allowed: RangeInclusive<T>,
    ) -> Result<(), Self> {
        if allowed.contains(&value) {
            return Ok(());
        }
        let (least, most) = (allowed.start(), allowed.end());
        Err(Self::new(key, format!("{value} is out of range; allowed is {least} to {most}")))
    }

    /// Passes when a time lies within `allowed`.
    pub(crate) fn check_time(
        key: &str,
        time: Duration,
        allowed: RangeInclusive<Duration>,
    ) -> Result<(), Self> {
        let text = |time: &Duration| duration::Text(*time);
        Self::check_range(key, text(&time), text(allowed.start())..=text(allowed.end()))
    }
}

impl From<config::ConfigError> for ConfigError {
    fn from(error: config::ConfigError) -> Self {
        Self::new(error.field, error.problem)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

impl std::error::Error for ConfigError {}
