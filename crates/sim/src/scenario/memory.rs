//! A server's memory, whose bandwidth all cores share.

use seawall_control::bandit;
use seawall_control::config::ConfigError;
use seawall_control::predict::memory::MemoryPolicy;
use serde::{Deserialize, Serialize};

use super::Bandwidth;

/// The memory of each replica, and the semaphore that guards it (Svalinn §3.2).
///
/// It concerns steps that say what they draw. When those that run draw more than there is, each of
/// them is slowed alike, and its core is occupied while it stalls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// What all steps together can draw. Default: no bound.
    pub bandwidth: Option<Bandwidth>,
    /// What a step does that comes to draw. Default `none`: it draws.
    pub semaphore: MemoryPolicy,
    /// How many the semaphore lets draw at once. Default: the bandit decides, from 1 to as many as
    /// there are cores.
    pub semaphore_capacity: Option<u32>,
    /// How it decides. Its `interval` is also that in which the controller is told the bandwidth
    /// and the power.
    pub bandit: bandit::Config,
    /// Standard deviation of a reading of the bandwidth, which is normally distributed and never
    /// below zero. Default 0.
    pub noise: Bandwidth,
}

impl Memory {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.bandwidth == Some(Bandwidth::default()) {
            return Err(ConfigError::new("server.memory.bandwidth", "give more than 0B"));
        }
        let capacity = self.semaphore_capacity.unwrap_or(1);
        ConfigError::check_range("server.memory.semaphore_capacity", capacity, 1..=1_000_000)?;
        self.bandit.validate()
    }
}
