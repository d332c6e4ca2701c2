//! What can be set about the guardian.

use seawall_control::config::ConfigError;
use serde::{Deserialize, Serialize};

/// The guardian: refuses what the workers do not get the CPU in time for (LIBROS §IV.A).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuardianConfig {
    /// Who it is. Default `auto`.
    pub way: GuardianWay,
    /// Priority of its threads under SCHED_FIFO, 1 to 98. Default 10: above all that is not
    /// real-time, below what the kernel itself does at 50. A thread that paces them has the next
    /// higher one.
    pub priority: u8,
    /// The part of each 10 ms that each of its threads may take at that priority, 0.01 to 0.9.
    /// Default 0.5. For the rest it competes with everybody, so that a flood of requests does not
    /// keep handlers, or the machine's other services, from the CPU.
    pub share: f64,
}

/// Who answers for a server that does not get the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardianWay {
    /// [`Threads`](Self::Threads), if the system permits it and the server has threads that only
    /// read and write: one worker that reads between handlers is faster than two threads which
    /// take the core from each other.
    #[default]
    Auto,
    /// Nobody.
    Off,
    /// Threads at real-time priority that read, admit and write. There is one even with one
    /// worker, and the server does not start where real-time priority is not permitted.
    Threads,
    /// A program in the kernel, which answers before the server reads: the program's
    /// [`Bouncer`](seawall_control::bounce::Bouncer), without which the server does not start. It
    /// has not been in use for long: for clients that are trusted, and without TLS.
    Kernel,
}

impl Default for GuardianConfig {
    fn default() -> Self {
        Self { way: GuardianWay::default(), priority: 10, share: 0.5 }
    }
}

impl GuardianConfig {
    /// True if threads of real-time priority are wanted where there may be some.
    pub(in crate::server) fn wants_threads(&self) -> bool {
        matches!(self.way, GuardianWay::Auto | GuardianWay::Threads)
    }

    pub(in crate::server) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("guardian.priority", self.priority, 1..=98)?;
        ConfigError::check_range("guardian.share", self.share, 0.01..=0.9)
    }
}
