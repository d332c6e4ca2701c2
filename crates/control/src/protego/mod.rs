//! Protego (Cho et al., NSDI '23): a credit pool steered by what more load brings.
//!
//! ```text
//!   throughput      ┌ slope 1: all paths have room          grow
//!        │        ..│.──── slope below t_e: nothing gained   shrink
//!        │     .·'  └ slope between: some locks are full     grow
//!        │  .·'
//!        └──────────── load
//! ```
//!
//! Where requests wait for locks that only some of them need, no delay says whether to admit more:
//! it is that of the fullest path. So the pool grows as long as more load brings more throughput
//! (§3.1), and what the full paths then get too much of is refused there, because its budget of
//! queueing delay is spent (§3.2). That is the [rule of all stages](Algorithm::bounds_waits), at
//! the run queue as at locks: Protego has no other active queue management, and without a
//! [budget](crate::request::Budget) it only bounds the load.
//!
//! The budget is what the SLO leaves after network and service. Where a client may try several
//! servers one after the other, the SLO to set for each is the *target delay*: the client's own,
//! divided by the tries (§3.3).

mod published;
mod released;

pub use published::Policy;
pub use released::Policy as ReleasedPolicy;
pub use released::Released;

use alloc::boxed::Box;
use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::client;
use crate::config::ConfigError;
use crate::controller::{Algorithm, ClientController, Init, ServerController};
use crate::credit;

/// Parameters of Protego. The defaults are the paper's (§3.3, §5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What is built: the paper's algorithm, or the released code's.
    pub variant: Variant,
    /// Throughput that must be gained for each request per second of more load, t_e of algorithm
    /// 1, from 0 to 1. Default 0.1. Larger refuses less and serves less: 0.5 costs about a
    /// quarter of the goodput and saves three quarters of the refusals (§5.4).
    pub efficiency_threshold: f64,
    /// Part of the requests that may be refused before the pool shrinks, t_d of algorithm 1, from
    /// 0 to 1. Default 1: never for that reason.
    pub drop_rate_max: f64,
    /// Growth of the pool per iteration and client, a of algorithm 1, from 0 to 1. Default 0.001;
    /// at least one credit. Larger finds new capacity sooner and is less steady.
    pub increment: f64,
    /// Part of the pool that an iteration takes away when load is not worth it, d of algorithm 1,
    /// from 0 to 1. Default 0.02.
    pub decrement: f64,
    /// Measured round trips that an iteration counts for, end to end, after one to settle. Default
    /// 4, from 1 to 1000. More are steadier and slower.
    pub iteration_rtts: u32,
    /// Parameters of the released variant.
    pub released: Released,
}

/// Which Protego.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The paper's algorithm 1, with iterations of measured round trips.
    #[default]
    Paper,
    /// The code released with Protego: steps of one credit either way at a fixed interval, and
    /// growth only of a pool that is used up. It has [parameters of its own](Released).
    Released,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            variant: Variant::default(),
            efficiency_threshold: 0.1,
            drop_rate_max: 1.0,
            increment: 0.001,
            decrement: 0.02,
            iteration_rtts: 4,
            released: Released::default(),
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
        let parts = [
            ("protego.efficiency_threshold", self.efficiency_threshold),
            ("protego.drop_rate_max", self.drop_rate_max),
            ("protego.increment", self.increment),
            ("protego.decrement", self.decrement),
        ];
        for (field, part) in parts {
            ConfigError::check_range(field, part, 0.0..=1.0)?;
        }
        ConfigError::check_range("protego.iteration_rtts", self.iteration_rtts, 1..=1000)?;
        self.released.validate()
    }
}

/// Protego as an [`Algorithm`]: its own parameters and those of the shared parts.
#[derive(Clone, Debug)]
pub struct Protego {
    /// How the pool is sized.
    pub policy: Config,
    /// How credits are handed out.
    pub credit: credit::Config,
}

impl Algorithm for Protego {
    fn name(&self) -> &'static str {
        "protego"
    }

    fn server(self: Arc<Self>, init: Init) -> Box<dyn ServerController> {
        let credit = self.credit.clone();
        match self.policy.variant {
            Variant::Paper => {
                let policy = Policy::new(&self.policy);
                let first = policy.first(init);
                Box::new(credit::Server::new(policy, credit, init, first))
            }
            Variant::Released => {
                let policy = ReleasedPolicy::new(&self.policy.released);
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
    use core::time::Duration;

    #[test]
    fn refuses_nonsense_by_name() {
        let field = |config: Config| config.validate().unwrap_err().field;
        let config = || Config::default();
        assert_eq!(
            field(Config { efficiency_threshold: f64::NAN, ..config() }),
            "protego.efficiency_threshold"
        );
        assert_eq!(field(Config { drop_rate_max: 1.5, ..config() }), "protego.drop_rate_max");
        assert_eq!(field(Config { increment: -1.0, ..config() }), "protego.increment");
        assert_eq!(field(Config { decrement: 2.0, ..config() }), "protego.decrement");
        assert_eq!(field(Config { iteration_rtts: 0, ..config() }), "protego.iteration_rtts");
        let released = Released { settle: Duration::from_secs(1), ..Released::default() };
        assert_eq!(field(Config { released, ..config() }), "protego.released.settle");
    }
}
