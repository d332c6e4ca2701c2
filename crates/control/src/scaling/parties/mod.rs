//! Parties: each container by itself, by its latency (ASPLOS '19).
//!
//! The SurgeGuard paper compares itself with it, and decides by its rules what a candidate gets.
//! Its authors' own code and the SurgeGuard artifact differ so much that there are two variants.
//! Both take a container's execution with its waits for connections for its latency, and what is
//! expected of it for its target, as the paper's comparison does (SurgeGuard §V).

mod artifact;
mod original;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use self::artifact::Artifact;
use self::original::Original;
use super::intake::check_duration;
use super::scaler::Policy;
use crate::config::{ConfigError, duration};

/// Parameters of Parties.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whose rules. Default those of the SurgeGuard artifact.
    pub variant: Variant,
    /// From one decision to the next. Default 100ms, as in both. 1us to 1m.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// A container is slow if its latency is more than so many times what is expected. Default
    /// 1.05. 0.1 to 100. Of the artifact's rules.
    pub threshold: f64,
    /// And in order if it is less than so many times that. Default 0.95. 0.01 to `threshold`. Of
    /// the artifact's rules.
    pub ok: f64,
    /// How often a change is one of frequency rather than of units, where both are possible.
    /// Default 0.5. 0 to 1. Of the artifact's rules.
    pub frequency_chance: f64,
    /// A container with less slack than this share of what is expected gets more. Default 0.05. -1
    /// to 1. Of the original rules.
    pub slack_up: f64,
    /// One with more gives something back. Default 0.2. `slack_up` to 1. Of the original rules.
    pub slack_down: f64,
    /// Intervals over which the longer slack is a mean. Default 10. 1 to 1000. Of the original
    /// rules.
    pub slack_window: u32,
    /// Intervals for which a change is watched. Default 5. 1 to 1000. Of the original rules.
    pub watch: u32,
    /// Intervals for which a container that needed what it gave back is left alone. Default 100. 0
    /// to 100,000. Of the original rules.
    pub rest: u32,
}

/// Whose rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Those of the SurgeGuard artifact: all containers in each round, a coin between the two
    /// resources, and no second thoughts.
    #[default]
    Surgeguard,
    /// Those of the authors' own code: one container at a time, one resource after the other, and
    /// each change is watched and may be taken back. Without cache ways, which are not ours to
    /// give.
    Original,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            variant: Variant::Surgeguard,
            interval: Duration::from_millis(100),
            threshold: 1.05,
            ok: 0.95,
            frequency_chance: 0.5,
            slack_up: 0.05,
            slack_down: 0.2,
            slack_window: 10,
            watch: 5,
            rest: 100,
        }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        use ConfigError as E;
        let (us, minute) = (Duration::from_micros(1), Duration::from_mins(1));
        check_duration("parties.interval", self.interval, us, minute)?;
        E::check_range("parties.threshold", self.threshold, 0.1..=100.0)?;
        E::check_range("parties.ok", self.ok, 0.01..=self.threshold)?;
        E::check_range("parties.frequency_chance", self.frequency_chance, 0.0..=1.0)?;
        E::check_range("parties.slack_up", self.slack_up, -1.0..=1.0)?;
        E::check_range("parties.slack_down", self.slack_down, self.slack_up..=1.0)?;
        E::check_range("parties.slack_window", self.slack_window, 1..=1_000)?;
        E::check_range("parties.watch", self.watch, 1..=1_000)?;
        E::check_range("parties.rest", self.rest, 0..=100_000)
    }

    pub(super) fn policy(&self, seed: u64) -> Box<dyn Policy> {
        match self.variant {
            Variant::Surgeguard => Box::new(Artifact::new(*self, seed)),
            Variant::Original => Box::new(Original::new(*self, seed)),
        }
    }
}
