//! What a replica's requests meet beside each other: bursts of others on its cores, and work of its
//! own that holds locks.

use std::time::Duration;

use seawall_control::config::{ConfigError, duration};
use seawall_measure::ServiceTime;
use serde::{Deserialize, Serialize};

/// Kinds of work that hold locks, at most.
const HOLDS_MAX: usize = 8;

/// Others take the CPU in bursts: for so long no core of the replica runs anything, and what was
/// running ends later by as much. Several noises of one replica may overlap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Number of the replica, from 0. Default: each has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<u32>,
    /// From the end of a burst to the next.
    pub every: ServiceTime,
    /// How long one lasts.
    pub lasts: ServiceTime,
    /// By how much the predicted end of a burst is too early or too late, as often this as that.
    /// Default: nobody predicts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreseen: Option<ServiceTime>,
}

/// Work of the replica's own that holds a lock, such as a rebalance (LIBROS §VI). It passes the
/// requests that wait for the lock, occupies no core, and takes longer by as much as a noise lasts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// Number of the replica, from 0. Default: each has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<u32>,
    /// The lock, by the name that some request's step has for it.
    pub lock: String,
    /// From the end of a hold to when the lock is wanted again.
    pub every: ServiceTime,
    /// What it does, counted: each of these as often as the others.
    pub amounts: Vec<u64>,
    /// How long it takes for each of these …
    #[serde(with = "duration")]
    pub each: Duration,
    /// … and beside that.
    #[serde(with = "duration")]
    pub base: Duration,
    /// By which factor that varies: the deviation of its logarithm. Default 0.
    #[serde(default)]
    pub scatter: f64,
    /// It says what it does, and the lock predicts by what that took before how long it still
    /// takes. Default false.
    #[serde(default)]
    pub announced: bool,
}

impl Noise {
    pub(super) fn validate(&self, replicas: u32) -> Result<(), ConfigError> {
        check_replica("server.noise.replica", self.replica, replicas)?;
        if self.every.mean().is_zero() {
            return Err(ConfigError::new("server.noise.every", "give more than 0s"));
        }
        Ok(())
    }
}

impl Hold {
    pub(super) fn validate(&self, replicas: u32) -> Result<(), ConfigError> {
        check_replica("server.hold.replica", self.replica, replicas)?;
        if self.every.mean().is_zero() {
            return Err(ConfigError::new("server.hold.every", "give more than 0s"));
        }
        if self.amounts.is_empty() {
            return Err(ConfigError::new("server.hold.amounts", "give at least one"));
        }
        ConfigError::check_range("server.hold.scatter", self.scatter, 0.0..=5.0)
    }
}

/// Checks how many kinds of holds there are.
pub(super) fn check_holds(holds: &[Hold]) -> Result<(), ConfigError> {
    ConfigError::check_range("server.hold", holds.len(), 0..=HOLDS_MAX)
}

fn check_replica(
    field: &'static str,
    replica: Option<u32>,
    replicas: u32,
) -> Result<(), ConfigError> {
    match replica {
        Some(replica) if replica >= replicas => {
            let problem = format!("{replica} is no replica; allowed is 0 to {}", replicas - 1);
            Err(ConfigError::new(field, problem))
        }
        _ => Ok(()),
    }
}
