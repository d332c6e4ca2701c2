//! The one list of policies, name → default configuration, for command line, agent and simulator.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::scaler::{Policy, Scaler, Static};
use super::{escalator, intake, profile};
use crate::config::ConfigError;

/// Names of all policies, in the order in which help texts show them.
pub const NAMES: [&str; 2] = ["static", "escalator"];

/// The interval of `static`: only profiles are learned in it.
const STATIC_INTERVAL: Duration = Duration::from_millis(100);

/// Which policy moves CPU between containers, and the parameters of all of them.
///
/// Parameters of policies that are not chosen are checked, too, so that a file can keep several
/// and switch between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// One of [`NAMES`]. Default `escalator`.
    pub policy: String,
    /// How reports are read.
    pub intake: intake::Config,
    /// How expected times are learned, where none are given.
    pub profile: profile::Config,
    /// Parameters of `escalator`.
    pub escalator: escalator::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: "escalator".into(),
            intake: intake::Config::default(),
            profile: profile::Config::default(),
            escalator: escalator::Config::default(),
        }
    }
}

impl Config {
    /// The defaults of the policy called `name`.
    ///
    /// # Errors
    ///
    /// When no policy has that name; lists those that there are.
    pub fn named(name: &str) -> Result<Self, ConfigError> {
        let config = Self { policy: name.into(), ..Self::default() };
        config.name()?;
        Ok(config)
    }

    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.name()?;
        self.intake.validate()?;
        self.profile.validate()?;
        self.escalator.validate()
    }

    /// Builds the chosen policy. All that is random in it follows from `seed`.
    ///
    /// # Errors
    ///
    /// As [`validate`](Self::validate).
    pub fn build(&self, seed: u64) -> Result<Scaler, ConfigError> {
        self.validate()?;
        let name = self.name()?;
        let (interval, policy): (Duration, Box<dyn Policy>) = match name {
            "escalator" => (self.escalator.interval(), self.escalator.policy(self.intake, seed)),
            _ => (STATIC_INTERVAL, Box::new(Static)),
        };
        Ok(Scaler::new(name, interval, self.intake, self.profile, policy))
    }

    fn name(&self) -> Result<&'static str, ConfigError> {
        NAMES.into_iter().find(|name| *name == self.policy).ok_or_else(|| {
            let problem =
                format!("\"{}\" is unknown; allowed is one of {}", self.policy, NAMES.join(", "));
            ConfigError::new("policy", problem)
        })
    }
}
