//! What can be set about the choice among replicas.

use serde::{Deserialize, Serialize};

use super::c3;
use crate::config::ConfigError;

/// How a client chooses among replicas.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// By what. Default two choices.
    pub choose: Selection,
    /// Replicas that refused a request for what concerns all requests are avoided for as long as
    /// they predicted, as far as there are others (LIBROS §III). Default true.
    pub guided: bool,
    /// Parameters of C3.
    pub c3: c3::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self { choose: Selection::default(), guided: true, c3: c3::Config::default() }
    }
}

/// By what a client chooses among replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// Of two at random, the one that has fewer of this client's requests (Mitzenmacher 2001).
    #[default]
    TwoChoices,
    /// One after the other.
    RoundRobin,
    /// Any, with equal chance.
    Random,
    /// Always the first; the others get what it did not take (Protego, figure 8).
    First,
    /// The one whose recent median latency is lowest, computed anew ten times a second, unless that
    /// of another, which would have its turn, is at most a tenth higher: Cassandra's dynamic
    /// snitch.
    Snitch,
    /// The one of the lowest cubic score of service time and queue (C3, NSDI '15).
    C3,
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.c3.validate()
    }
}
