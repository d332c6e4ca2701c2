//! Svalinn (OSDI '26): a credit pool steered by what its operator wants.
//!
//! ```text
//!        pool ▲      ┌─── + δ: warm up, monitor ─► utility ┐
//!      origin ┼──────┤                                     ├─► the better one ─► origin ± δ
//!             │      └─── − δ: warm up, monitor ─► utility ┘
//!             └────────────────────────────────────────────────► time
//! ```
//!
//! Latency is the business of those who guard a bottleneck: locks, semaphores and the run queue
//! refuse by the [rule of all stages](Algorithm::bounds_waits) what cannot wait for them (§3.3). So
//! the pool is free to seek whatever a [utility] values (§3.1): throughput, few refusals, little
//! power, or one class of requests above the others.
//!
//! [utility]: crate::utility

mod experiment;
mod published;
mod released;

pub use published::Policy;
pub use released::Policy as ReleasedPolicy;

use core::time::Duration;

use alloc::boxed::Box;
use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::client;
use crate::config::{ConfigError, duration};
use crate::controller::{Algorithm, ClientController, Init, ServerController};
use crate::credit;
use crate::utility::{self, Utility};

/// Parameters of Svalinn. The defaults are the paper's (§5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What is built: the paper's algorithm, or the released code's.
    pub variant: Variant,
    /// What is sought: `"throughput"`, `"goodput"`, `{ drops = 0.1 }`, `{ delay = "200us" }`,
    /// `{ power = 55 }`, or `{ expression = "goodput_0 + 3 * goodput_1" }`. Default throughput.
    pub utility: utility::Config,
    /// By how many credits an experiment changes the pool, δ of algorithm 2. Default 1, from 1 to
    /// 10000. Larger finds new capacity sooner, is less steady, and shows more than noise on
    /// large pools.
    pub delta: u32,
    /// How long a changed pool takes effect before it is monitored. Default: the measured round
    /// trip of credits.
    #[serde(with = "duration::option")]
    pub warm_up: Option<Duration>,
    /// How long each experiment is monitored. Default: twice the measured round trip, and until
    /// about 100 requests have come.
    #[serde(with = "duration::option")]
    pub monitor: Option<Duration>,
    /// Two utilities that differ by a smaller part than this count as equal, from 0 to 1. Default
    /// 0.
    pub deadband: f64,
    /// The same for the released variant. Default 0.05.
    pub released_deadband: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            variant: Variant::default(),
            utility: utility::Config::default(),
            delta: 1,
            warm_up: None,
            monitor: None,
            deadband: 0.0,
            released_deadband: 0.05,
        }
    }
}

/// Which Svalinn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The paper's algorithm 2.
    #[default]
    Paper,
    /// The code released with Svalinn, as it was evaluated: it compares two windows without
    /// changing the pool for them, and shrinks a pool that is not used up.
    Released,
}

impl Config {
    /// Checks all ranges, and gives the utility; `read` reads expressions.
    ///
    /// # Errors
    ///
    /// Names the first field that is wrong, and what is allowed.
    pub fn validate(&self, read: utility::Reader) -> Result<Arc<dyn Utility>, ConfigError> {
        ConfigError::check_range("svalinn.delta", self.delta, 1..=10_000)?;
        ConfigError::check_range("svalinn.deadband", self.deadband, 0.0..=1.0)?;
        let released = self.released_deadband;
        ConfigError::check_range("svalinn.released_deadband", released, 0.0..=1.0)?;
        self.utility.build(read)
    }
}

/// Svalinn as an [`Algorithm`]: its own parameters and those of the shared parts.
#[derive(Clone, Debug)]
pub struct Svalinn {
    /// How the pool is sized.
    pub policy: Config,
    /// What is sought, in place of what the parameters name.
    pub utility: Arc<dyn Utility>,
    /// How credits are handed out.
    pub credit: credit::Config,
}

impl Algorithm for Svalinn {
    fn name(&self) -> &'static str {
        "svalinn"
    }

    fn server(self: Arc<Self>, init: Init) -> Box<dyn ServerController> {
        let (credit, utility) = (self.credit.clone(), self.utility.clone());
        match self.policy.variant {
            Variant::Paper => {
                let mut policy = Policy::new(&self.policy, utility);
                let first = policy.first(init);
                Box::new(credit::Server::new(policy, credit, init, first))
            }
            Variant::Released => {
                let policy = ReleasedPolicy::new(&self.policy, utility);
                let first = policy.first(init);
                Box::new(credit::Server::new(policy, credit, init, first))
            }
        }
    }

    fn client(self: Arc<Self>, _init: Init) -> Box<dyn ClientController> {
        let tells_all = self.credit.demand == credit::Demand::Synchronise;
        Box::new(client::Credit::default().telling_all(tells_all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_nonsense_by_name() {
        let field = |config: Config| config.validate(utility::no_expressions).unwrap_err().field;
        assert_eq!(field(Config { delta: 0, ..Config::default() }), "svalinn.delta");
        let nan = f64::NAN;
        assert_eq!(field(Config { deadband: nan, ..Config::default() }), "svalinn.deadband");
        let released = Config { released_deadband: 2.0, ..Config::default() };
        assert_eq!(field(released), "svalinn.released_deadband");
        let utility = utility::Config::Drops(1.5);
        assert_eq!(field(Config { utility, ..Config::default() }), "svalinn.utility");
    }

    #[test]
    fn reads_the_documented_forms_of_utilities() {
        let read = |text| toml::from_str::<Config>(text).unwrap().utility;
        assert_eq!(read("utility = 'goodput'"), utility::Config::Goodput);
        assert_eq!(read("utility = { drops = 0.1 }"), utility::Config::Drops(0.1));
        let delay = utility::Config::Delay(Duration::from_micros(200));
        assert_eq!(read("utility = { delay = '200us' }"), delay);
        assert_eq!(read("utility = { power = 55 }"), utility::Config::Power(55.0));
        let text = "goodput_0 + 3 * goodput_1";
        let expression = utility::Config::Expression(text.into());
        assert_eq!(read("utility = { expression = 'goodput_0 + 3 * goodput_1' }"), expression);
    }
}
