//! The one list of policies that can steer a limit, name → default configuration.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::{Aimd, AimdConfig, Fixed, Knee, LimitPolicy, knee};
use crate::config::ConfigError;
use crate::controller::Init;

/// Names of all policies, in the order in which help texts show them.
pub const NAMES: [&str; 3] = ["knee", "aimd", "fixed"];

/// Which policy steers a limit, and the parameters of all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// One of [`NAMES`]. Default `knee`.
    pub policy: String,
    /// Parameters of `knee`.
    pub knee: knee::Config,
    /// Parameters of `aimd`.
    pub aimd: AimdConfig,
    /// The limit of `fixed`. Default 64.
    pub fixed: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: "knee".into(),
            knee: knee::Config::default(),
            aimd: AimdConfig::default(),
            fixed: 64,
        }
    }
}

impl Config {
    /// The defaults of the policy called `name`.
    pub fn named(name: impl Into<String>) -> Self {
        Self { policy: name.into(), ..Self::default() }
    }

    /// Checks the name and all ranges, also of policies that are not chosen.
    ///
    /// # Errors
    ///
    /// Names the first field of this table that is out of range, and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.knee.validate()?;
        self.aimd.validate()?;
        ConfigError::check_range("fixed", self.fixed, 1..=1 << 20)?;
        if NAMES.contains(&self.policy.as_str()) {
            return Ok(());
        }
        let allowed = NAMES.join(", ");
        let problem = format!("\"{}\" is unknown; allowed is one of {allowed}", self.policy);
        Err(ConfigError::new("policy", problem))
    }

    /// The chosen policy, with nothing seen. `first` takes the place of its initial limit, if
    /// somebody knows better; `fixed` has no other.
    ///
    /// # Errors
    ///
    /// As [`validate`](Self::validate).
    pub fn build(
        &self,
        init: Init,
        first: Option<u32>,
    ) -> Result<Box<dyn LimitPolicy>, ConfigError> {
        self.validate()?;
        let within = |initial: u32, max: u32| first.unwrap_or(initial).clamp(1, max);
        Ok(match self.policy.as_str() {
            "aimd" => {
                let limit_initial = within(self.aimd.limit_initial, self.aimd.limit_max);
                Box::new(Aimd::new(&AimdConfig { limit_initial, ..self.aimd.clone() }, init))
            }
            "fixed" => Box::new(Fixed(self.fixed)),
            _ => {
                let limit_initial = within(self.knee.limit_initial, self.knee.limit_max);
                Box::new(Knee::new(&knee::Config { limit_initial, ..self.knee.clone() }))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;
    use alloc::string::ToString;

    #[test]
    fn every_name_builds_and_begins_where_it_is_told() {
        let init = Init::new(Instant::ORIGIN, 0);
        for name in NAMES {
            let config = Config { fixed: 5, ..Config::named(name) };
            let policy = config.build(init, Some(5)).unwrap();
            assert_eq!(policy.limit(), 5, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_told_what_is_allowed() {
        let error = Config::named("tcp").validate().unwrap_err().to_string();
        let allowed = NAMES.join(", ");
        assert_eq!(error, format!("policy: \"tcp\" is unknown; allowed is one of {allowed}"));
    }
}
