//! Utilities as configuration names them.

use core::time::Duration;

use alloc::string::String;
use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Capped, Goodput, Throughput, Utility};
use crate::config::{ConfigError, duration};

/// Which utility: `"throughput"`, `{ drops = 0.1 }`, `{ expression = "goodput - drops / 2" }`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Config {
    /// Answers per second; the default.
    #[default]
    Throughput,
    /// Answers per second to requests within their budget of queueing delay.
    Goodput,
    /// Throughput less refusals, with at most this part of the requests refused, 0 to 1.
    Drops(f64),
    /// Throughput with queueing delays below this.
    Delay(#[serde(with = "duration")] Duration),
    /// Throughput with less power than this, in watts.
    Power(f64),
    /// An expression of [metrics](super::METRICS), such as `goodput_0 + 3 * goodput_1`.
    Expression(String),
}

/// Reads the text of an expression, or says what of it cannot be understood. The core knows none
/// itself.
pub type Reader = fn(&str) -> Result<Arc<dyn Utility>, String>;

/// The reader of programs that know no expressions.
///
/// # Errors
///
/// Always.
pub fn no_expressions(_text: &str) -> Result<Arc<dyn Utility>, String> {
    Err("this program reads no expressions; name a utility".into())
}

/// The field that is at fault.
const FIELD: &str = "svalinn.utility";

impl Config {
    /// The utility; `read` reads expressions.
    ///
    /// # Errors
    ///
    /// Says what is out of range, or what of an expression cannot be understood.
    pub fn build(&self, read: Reader) -> Result<Arc<dyn Utility>, ConfigError> {
        Ok(match self {
            Self::Throughput => Arc::new(Throughput),
            Self::Goodput => Arc::new(Goodput),
            Self::Drops(most) => {
                ConfigError::check_range(FIELD, *most, 0.0..=1.0)?;
                Arc::new(Capped::Drops(*most))
            }
            Self::Delay(most) => Arc::new(Capped::Delay(*most)),
            Self::Power(most) => {
                ConfigError::check_range(FIELD, *most, 0.0..=f64::MAX)?;
                Arc::new(Capped::Power(*most))
            }
            Self::Expression(text) => {
                read(text).map_err(|problem| ConfigError::new(FIELD, problem))?
            }
        })
    }
}
