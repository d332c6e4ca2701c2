//! What can be set about retries.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::Hedge;
use crate::config::{ConfigError, duration};

/// When a call is made again at another replica.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How often a request may be sent, 1 to 16; 1 is once and never again. Default 2: Protego's
    /// clients send what was refused once more (§5.3). A server whose clients do that sets its
    /// target delay to the SLO over this number (§3.3).
    pub attempts: u8,
    /// Retries for each call, on average, 0 to 16. Default 0.1, as is usual: were all replicas
    /// overloaded, retries would add a tenth to the load. Where one replica is known to have room
    /// for all that the others refuse, 1 is right.
    pub budget: f64,
    /// Retries that may be made beyond that, until calls have earned them again, 0 to 1000000.
    /// Default 10: a client that calls seldom may retry, too.
    pub burst: u32,
    /// A request that cannot leave within this time for want of credits goes to another replica,
    /// while there is one; zero for at once. Default: a round trip, the time in which another
    /// replica might have answered; the paper's 10 µs (§5.3) were that. The wait is predicted when
    /// the request is submitted, so that no timer is needed, and no timer's precision limits it.
    #[serde(with = "duration::option")]
    pub patience: Option<Duration>,
    /// Whether another replica gets a copy of a request that is not answered soon: `"never"`, the
    /// default, `{ after = "8ms" }`, or `{ percentile = 0.98 }`. Needs two attempts or more.
    pub hedge: Hedge,
    /// Whether a request that was refused wherever it was tried, because it would wait longer than
    /// its own budget, is sent once more without that budget, to the replica that predicted the
    /// shortest wait: late is better than never. Its deadline, if it has one, stays. Default
    /// false: the caller is told at once. It takes as much of the retry budget as a retry.
    pub last_resort: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { attempts: 2, budget: 0.1, burst: 10, ..Self::NEVER }
    }
}

impl Config {
    /// Never: what fails, fails.
    pub const NEVER: Self = Self {
        attempts: 1,
        budget: 0.0,
        burst: 0,
        patience: None,
        hedge: Hedge::Never,
        last_resort: false,
    };

    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("client.retry.attempts", self.attempts, 1..=16)?;
        ConfigError::check_range("client.retry.budget", self.budget, 0.0..=16.0)?;
        ConfigError::check_range("client.retry.burst", self.burst, 0..=1_000_000)?;
        self.hedge.validate()
    }

    /// How long a request waits for credits before it goes elsewhere, when a round trip takes
    /// `rtt`.
    pub fn patience(&self, rtt: Duration) -> Duration {
        self.patience.unwrap_or(rtt)
    }

    /// True if anything is ever tried again.
    pub fn is_on(&self) -> bool {
        self.attempts > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_by_name() {
        let field = |config: Config| config.validate().unwrap_err().field;
        let config = Config::default();
        config.validate().unwrap();
        Config::NEVER.validate().unwrap();
        assert_eq!(field(Config { attempts: 0, ..config }), "client.retry.attempts");
        assert_eq!(field(Config { budget: -0.1, ..config }), "client.retry.budget");
        assert_eq!(field(Config { budget: f64::NAN, ..config }), "client.retry.budget");
        assert_eq!(field(Config { burst: 2_000_000, ..config }), "client.retry.burst");
    }
}
