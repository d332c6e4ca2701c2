//! The one list of policies, name → default configuration, for command line, agent and simulator.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::scaler::{Policy, Scaler, Static};
use super::{caladan, escalator, intake, parties, profile, vpa};
use crate::config::ConfigError;

/// Names of all policies, in the order in which help texts show them.
pub const NAMES: [&str; 5] = ["static", "vpa", "caladan", "parties", "escalator"];

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
    /// Parameters of `vpa`.
    pub vpa: vpa::Config,
    /// Parameters of `caladan`.
    pub caladan: caladan::Config,
    /// Parameters of `parties`.
    pub parties: parties::Config,
    /// Parameters of `escalator`.
    pub escalator: escalator::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: "escalator".into(),
            intake: intake::Config::default(),
            profile: profile::Config::default(),
            vpa: vpa::Config::default(),
            caladan: caladan::Config::default(),
            parties: parties::Config::default(),
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
        self.vpa.validate()?;
        self.caladan.validate()?;
        self.parties.validate()?;
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
            "vpa" => (self.vpa.interval, self.vpa.policy()),
            "caladan" => (self.caladan.interval, self.caladan.policy()),
            "parties" => (self.parties.interval, self.parties.policy(seed)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_name_builds_itself() {
        for name in NAMES {
            let scaler = Config::named(name).unwrap().build(0).unwrap();
            assert_eq!(scaler.name(), name);
            assert!(!scaler.interval().is_zero());
        }
    }

    #[test]
    fn an_unknown_name_is_told_what_is_allowed() {
        let error = Config::named("hpa").unwrap_err().to_string();
        let allowed = NAMES.join(", ");
        assert_eq!(error, format!("policy: \"hpa\" is unknown; allowed is one of {allowed}"));
    }

    #[test]
    fn reads_the_documented_form() {
        let text = "policy = 'parties'\n[intake]\nwindow = '1ms'\n[parties]\nvariant = \
                    'original'\n[escalator]\nvariant = 'released'\nhint = 'both'\ninterval = '1ms'";
        let config: Config = toml::from_str(text).unwrap();
        config.validate().unwrap();
        assert_eq!(config.parties.variant, parties::Variant::Original);
        assert_eq!(config.escalator.interval(), Duration::from_millis(1));
        assert!(toml::from_str::<Config>("[parties]\ncache = 1").is_err());
        let defaults: Config =
            toml::from_str(&toml::to_string(&Config::default()).unwrap()).unwrap();
        assert_eq!(defaults, Config::default());
    }

    #[test]
    fn the_document_tells_the_defaults() {
        let text = include_str!("../../../../docs/scaling.md");
        let (_, table) = text.split_once("```toml\n").unwrap();
        let (table, _) = table.split_once("```").unwrap();
        assert_eq!(toml::from_str::<Config>(table).unwrap(), Config::default());
        let fields = toml::to_string(&Config::default()).unwrap();
        for field in fields.lines().filter_map(|line| line.split_once(" = ")) {
            assert!(table.contains(&format!("{} = ", field.0)), "{} is missing", field.0);
        }
    }

    #[test]
    fn what_is_out_of_range_is_named_with_the_range() {
        for (text, message) in [
            ("[intake]\nwindow = '0s'", "intake.window: 0s is out of range; allowed is 10us to 1m"),
            ("[profile]\nfactor = nan", "profile.factor: NaN is out of range; allowed is 1 to 10"),
            (
                "[escalator]\nhint_start = 17",
                "escalator.hint_start: 17 is out of range; allowed is 1 to 16",
            ),
            (
                "[escalator]\nqueue_ok = 5.0",
                "escalator.queue_ok: 5 is out of range; allowed is 1 to 4",
            ),
            (
                "[parties]\nslack_down = 0.01",
                "parties.slack_down: 0.01 is out of range; allowed is 0.05 to 1",
            ),
            ("[caladan]\ntarget = 0", "caladan.target: 0 is out of range; allowed is 1 to 100"),
            ("[vpa]\npercentile = 1.5", "vpa.percentile: 1.5 is out of range; allowed is 0 to 1"),
        ] {
            let config: Config = toml::from_str(text).unwrap();
            let build = config.build(0).map(|scaler| scaler.name());
            assert_eq!(build.unwrap_err().to_string(), message);
        }
    }
}
