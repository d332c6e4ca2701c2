//! What an operator may set.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, duration};
use crate::limit;
use crate::standing::Queues;

/// Parameters of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What steers the limit of all classes together, and that of each.
    pub limit: limit::Config,
    /// Requests of one class that may wait at once, from 1 to 1048576. More are refused, whatever
    /// is predicted; those that must not be dropped are not counted, being bounded at entry.
    /// Default 1024.
    pub queue_max: u32,
    /// The longest predicted wait at which a request may still join a queue, whatever it has left
    /// itself. Default 1s.
    #[serde(with = "duration")]
    pub wait_max: Duration,
    /// How long queues may be while more comes than can be served. Default `short`.
    pub queues: Queues,
    /// False to let everybody in at once, and only to tell who would have been refused. Default
    /// true.
    pub enforce: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: limit::Config::default(),
            queue_max: 1024,
            wait_max: Duration::from_secs(1),
            queues: Queues::Short,
            enforce: true,
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
        self.limit.validate()?;
        ConfigError::check_range("gate.queue_max", self.queue_max, 1..=1 << 20)?;
        let (least, most) = (Duration::from_micros(1), Duration::from_secs(3600));
        if !(least..=most).contains(&self.wait_max) {
            let problem = "it is out of range; allowed is 1us to 1h";
            return Err(ConfigError::new("gate.wait_max", problem));
        }
        Ok(())
    }
}
