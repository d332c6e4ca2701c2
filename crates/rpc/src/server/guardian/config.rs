//! What can be set about the guardian.

use seawall_control::config::ConfigError;
use serde::{Deserialize, Serialize};

/// The guardian: threads at real-time priority that read, admit and write, and refuse what the
/// workers do not get the CPU in time for (LIBROS §IV.A).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuardianConfig {
    /// Whether there is one. Default `auto`.
    pub enabled: GuardianMode,
    /// Its priority under SCHED_FIFO, 1 to 98. Default 10: above all that is not real-time, below
    /// what the kernel itself does at 50. A thread that paces it has the next higher one.
    pub priority: u8,
    /// The part of each 10 ms that each of its threads may take at that priority, 0.01 to 0.9.
    /// Default 0.5. For the rest it competes with everybody, so that a flood of requests does not
    /// keep handlers, or the machine's other services, from the CPU.
    pub share: f64,
}

/// Whether a server has a guardian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardianMode {
    /// If the system permits it, and the server has threads that only read and write: one worker
    /// that reads between handlers is faster than two threads which take the core from each other.
    #[default]
    Auto,
    /// None.
    Off,
    /// Yes: the server has a thread that only reads and writes even with one worker, and does not
    /// start where real-time priority is not permitted.
    On,
}

impl Default for GuardianConfig {
    fn default() -> Self {
        Self { enabled: GuardianMode::default(), priority: 10, share: 0.5 }
    }
}

impl GuardianConfig {
    pub(in crate::server) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("guardian.priority", self.priority, 1..=98)?;
        ConfigError::check_range("guardian.share", self.share, 0.01..=0.9)
    }
}
