//! How long a run is watched.

use std::time::Duration;

use seawall_control::config::{ConfigError, duration};
use serde::{Deserialize, Serialize};

/// Times of one run, all simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timing {
    /// Time before anything counts. Default 2 s (Breakwater §5.1).
    #[serde(with = "duration")]
    pub warm_up: Duration,
    /// Time that is measured, from the end of the warm-up. Default 2 s (Breakwater §5.1).
    #[serde(with = "duration")]
    pub time: Duration,
    /// Width of the bins of the time series; without it none is kept. Figure 7 of Breakwater has
    /// 20 ms.
    #[serde(with = "duration::option")]
    pub bin: Option<Duration>,
}

impl Default for Timing {
    fn default() -> Self {
        let two = Duration::from_secs(2);
        Self { warm_up: two, time: two, bin: None }
    }
}

impl Timing {
    /// Warm-up and measured time together.
    pub fn length(&self) -> Duration {
        self.warm_up + self.time
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let hour = Duration::from_secs(3600);
        if self.time.is_zero() || self.time > hour {
            return Err(ConfigError::new("run.time", "give more than 0s and at most 1h"));
        }
        if self.warm_up > hour {
            return Err(ConfigError::new("run.warm_up", "give at most 1h"));
        }
        match self.bin {
            Some(bin) if bin.is_zero() || self.length().as_nanos() / bin.as_nanos() > 100_000 => {
                Err(ConfigError::new("run.bin", "give at least a 100,000th of the run"))
            }
            _ => Ok(()),
        }
    }
}
