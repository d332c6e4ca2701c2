//! The one list of algorithms, name → default configuration, for command line, server and
//! simulator.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::breakwater::{self, Breakwater};
use crate::config::ConfigError;
use crate::controller::Algorithm;
use crate::limit::{bbr, envoy, gradient2, vegas};
use crate::open::Open;
use crate::privilege::Bounded;
use crate::protego::{self, Protego};
use crate::svalinn::{self, Svalinn};
use crate::{client, codel, credit, dagor, limit, seda, sre, utility, window};

/// Names of all algorithms, in the order in which help texts show them.
pub const NAMES: [&str; 14] = [
    "none",
    "aimd",
    "vegas",
    "gradient2",
    "envoy",
    "bbr",
    "sre",
    "codel",
    "window",
    "seda",
    "dagor",
    "breakwater",
    "protego",
    "svalinn",
];

/// Which algorithm admits requests, and the parameters of all of them.
///
/// Parameters of algorithms that are not chosen are checked, too, so that a file can keep several
/// and switch between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// One of [`NAMES`]. Default `breakwater`.
    pub algorithm: String,
    /// Parameters of `breakwater`.
    pub breakwater: breakwater::Config,
    /// Parameters of `protego`.
    pub protego: protego::Config,
    /// Parameters of `svalinn`.
    pub svalinn: svalinn::Config,
    /// Parameters of `aimd`.
    pub aimd: limit::AimdConfig,
    /// Parameters of `vegas`.
    pub vegas: vegas::Config,
    /// Parameters of `gradient2`.
    pub gradient2: gradient2::Config,
    /// Parameters of `envoy`.
    pub envoy: envoy::Config,
    /// Parameters of `bbr`.
    pub bbr: bbr::Config,
    /// Parameters of `sre`.
    pub sre: sre::Config,
    /// Parameters of `codel`.
    pub codel: codel::Config,
    /// Parameters of `window`.
    pub window: window::Config,
    /// Parameters of `seda`.
    pub seda: seda::Config,
    /// Parameters of `dagor`.
    pub dagor: dagor::Config,
    /// The credit mechanism that `breakwater`, `protego` and `svalinn` use; `privileged_max` in it
    /// counts for all algorithms.
    pub credit: credit::Config,
    /// How clients hold requests back.
    pub client: client::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            algorithm: "breakwater".into(),
            breakwater: breakwater::Config::default(),
            protego: protego::Config::default(),
            svalinn: svalinn::Config::default(),
            aimd: limit::AimdConfig::default(),
            vegas: vegas::Config::default(),
            gradient2: gradient2::Config::default(),
            envoy: envoy::Config::default(),
            bbr: bbr::Config::default(),
            sre: sre::Config::default(),
            codel: codel::Config::default(),
            window: window::Config::default(),
            seda: seda::Config::default(),
            dagor: dagor::Config::default(),
            credit: credit::Config::default(),
            client: client::Config::default(),
        }
    }
}

impl Config {
    /// The defaults of the algorithm called `name`.
    pub fn named(name: impl Into<String>) -> Self {
        Self { algorithm: name.into(), ..Self::default() }
    }

    /// Builds the chosen algorithm. Its utility is no expression: see
    /// [`build_with`](Self::build_with).
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and what is allowed.
    pub fn build(&self) -> Result<Arc<dyn Algorithm>, ConfigError> {
        self.build_with(utility::no_expressions)
    }

    /// Builds the chosen algorithm; `read` reads utilities that are expressions.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_with(&self, read: utility::Reader) -> Result<Arc<dyn Algorithm>, ConfigError> {
        self.breakwater.validate()?;
        self.protego.validate()?;
        let utility = self.svalinn.validate(read)?;
        self.aimd.validate()?;
        self.vegas.validate()?;
        self.gradient2.validate()?;
        self.envoy.validate()?;
        self.bbr.validate()?;
        self.sre.validate()?;
        self.codel.validate()?;
        self.window.validate()?;
        self.seda.validate()?;
        self.dagor.validate()?;
        self.credit.validate()?;
        self.client.validate()?;
        Ok(match self.algorithm.as_str() {
            "none" => self.bounded(Open),
            "aimd" => self.bounded(self.aimd.clone()),
            "vegas" => self.bounded(self.vegas.clone()),
            "gradient2" => self.bounded(self.gradient2.clone()),
            "envoy" => self.bounded(self.envoy.clone()),
            "bbr" => self.bounded(self.bbr.clone()),
            "sre" => self.bounded(self.sre.clone()),
            "codel" => self.bounded(self.codel.clone()),
            "window" => self.bounded(self.window.clone()),
            "seda" => self.bounded(self.seda.clone()),
            "dagor" => self.bounded(self.dagor.clone()),
            "breakwater" => Arc::new(Breakwater {
                policy: self.breakwater.clone(),
                credit: self.credit.clone(),
            }),
            "protego" => {
                Arc::new(Protego { policy: self.protego.clone(), credit: self.credit.clone() })
            }
            "svalinn" => Arc::new(Svalinn {
                policy: self.svalinn.clone(),
                utility,
                credit: self.credit.clone(),
            }),
            other => {
                let problem =
                    format!("\"{other}\" is unknown; allowed is one of {}", NAMES.join(", "));
                return Err(ConfigError::new("algorithm", problem));
            }
        })
    }

    /// True if the chosen algorithm gives credits: its clients wait for the server's leave.
    pub fn has_credits(&self) -> bool {
        matches!(self.algorithm.as_str(), "breakwater" | "protego" | "svalinn")
    }

    /// An algorithm without credits, whose bound on privileged requests is the credits' own.
    fn bounded<A: Algorithm + 'static>(&self, algorithm: A) -> Arc<dyn Algorithm> {
        Arc::new(Bounded::new(algorithm, self.credit.privileged_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_name_builds_itself() {
        for name in NAMES {
            assert_eq!(Config::named(name).build().unwrap().name(), name);
        }
    }

    #[test]
    fn an_unknown_name_is_told_what_is_allowed() {
        let error = Config::named("tcp").build().unwrap_err().to_string();
        let allowed = NAMES.join(", ");
        assert_eq!(error, format!("algorithm: \"tcp\" is unknown; allowed is one of {allowed}"));
    }

    #[test]
    fn reads_the_documented_form() {
        let text =
            "algorithm = 'aimd'\n[breakwater]\ntarget_delay = '80us'\n[credit]\nwake = 'by-rate'";
        let config: Config = toml::from_str(text).unwrap();
        assert_eq!(config.breakwater.target_delay, Some(core::time::Duration::from_micros(80)));
        assert!(toml::from_str::<Config>("[breakwater]\ngamma = 1").is_err());
    }
}
