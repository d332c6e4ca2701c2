//! What can be set about the guardian.

use seawall_control::config::ConfigError;
use serde::{Deserialize, Serialize};

/// The guardian: refuses what handlers do not get the CPU in time for (LIBROS §IV.A).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuardianConfig {
    /// Who it is. Default `auto`.
    pub way: GuardianWay,
    /// What the patrol predicts waits with. Default `earlier-waits`.
    pub predictor: CpuPredictor,
    /// What the patrol lends, as a priority under SCHED_FIFO, 1 to 98. Default 10: above all that
    /// is not real-time, below what the kernel itself does at 50. The patrol has the next higher
    /// one.
    pub priority: u8,
    /// The part of each 10 ms that each thread may run at that priority, 0.01 to 0.9. Default 0.5.
    /// For the rest it competes with everybody, so that a flood of requests, or a long handler
    /// that was begun before, does not keep the machine's other services from the CPU.
    pub share: f64,
}

/// Who answers for a server that does not get the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardianWay {
    /// [`Patrol`](Self::Patrol), if the system permits it.
    #[default]
    Auto,
    /// Nobody.
    Off,
    /// A thread of real-time priority that looks whether the others get the CPU, and lends those
    /// that read its priority while they do not. The server does not start where that is not
    /// permitted.
    Patrol,
    /// A program in the kernel, which answers before the server reads: the program's
    /// [`Bouncer`](seawall_control::bounce::Bouncer), without which the server does not start. It
    /// has not been in use for long: for clients that are trusted, and without TLS.
    Kernel,
}

/// What waits for the CPU are predicted with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuPredictor {
    /// What earlier waits were
    /// ([`Episodes`](seawall_control::predict::starvation::Episodes)), or what the program gives
    /// with [`predict_cpu_delay_by`](crate::Server::predict_cpu_delay_by).
    #[default]
    EarlierWaits,
    /// What the kernel's run queues tell (LIBROS §IV.B): the program's
    /// [`install_cpu_delay`](crate::install_cpu_delay), without which the server does not start.
    RunQueues,
}

impl Default for GuardianConfig {
    fn default() -> Self {
        let (way, predictor) = Default::default();
        Self { way, predictor, priority: 10, share: 0.5 }
    }
}

impl GuardianConfig {
    /// True if a patrol is wanted where there may be one.
    pub(in crate::server) fn wants_patrol(&self) -> bool {
        matches!(self.way, GuardianWay::Auto | GuardianWay::Patrol)
    }

    pub(in crate::server) fn validate(&self) -> Result<(), ConfigError> {
        if self.predictor == CpuPredictor::RunQueues && !self.wants_patrol() {
            let problem = "\"run-queues\" is for guardian.way \"patrol\" or \"auto\"";
            return Err(ConfigError::new("guardian.predictor", problem));
        }
        ConfigError::check_range("guardian.priority", self.priority, 1..=98)?;
        ConfigError::check_range("guardian.share", self.share, 0.01..=0.9)
    }
}
