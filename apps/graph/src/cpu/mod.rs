//! CPU in two ways: the machine's own, bounded by a control group, or virtual cores.

mod burn;
mod slots;
mod virtual_cores;

use std::time::Duration;

use seawall_control::config::ConfigError;
use seawall_measure::duration;
use serde::{Deserialize, Serialize};

pub use slots::{Grant, JobId, Slots};
pub use virtual_cores::{Granted, VirtualCores, Work};

/// What work is done with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CpuKind {
    /// CPU time of this process. Who wants to bound it puts the process into a control group.
    Quota,
    /// Slots in which jobs spend time instead of CPU, as many as the node agent's orders say.
    #[default]
    Virtual,
}

/// How a service works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CpuConfig {
    /// With what. Default virtual.
    pub kind: CpuKind,
    /// After so much work, virtual cores look at what they are worth now, and real work lets
    /// others have their turn. Default 1ms; allowed 10us to 1s. Timers are late by 50us, so
    /// shorter ones cost CPU and gain little.
    #[serde(with = "duration")]
    pub quantum: Duration,
}

impl Default for CpuConfig {
    fn default() -> Self {
        Self { kind: CpuKind::default(), quantum: Duration::from_millis(1) }
    }
}

impl CpuConfig {
    /// Checks every field against its range.
    ///
    /// # Errors
    ///
    /// Names the field that lies outside of its range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let allowed = Duration::from_micros(10)..=Duration::from_secs(1);
        if allowed.contains(&self.quantum) {
            return Ok(());
        }
        let quantum = duration::format(self.quantum);
        let problem = format!("{quantum} is out of range; allowed is 10us to 1s");
        Err(ConfigError::new("cpu.quantum", problem))
    }
}

/// What a service works with.
#[derive(Debug)]
pub(crate) enum Cpu {
    Quota { quantum: Duration },
    Virtual(VirtualCores),
}

impl Cpu {
    pub(crate) fn start(config: CpuConfig, granted: Granted) -> std::io::Result<Self> {
        Ok(match config.kind {
            CpuKind::Quota => Self::Quota { quantum: config.quantum },
            CpuKind::Virtual => Self::Virtual(VirtualCores::start(config.quantum, granted)?),
        })
    }

    /// For how long virtual cores were occupied; the system counts what real ones were.
    pub(crate) fn occupied(&self) -> Option<Duration> {
        match self {
            Self::Quota { .. } => None,
            Self::Virtual(cores) => Some(cores.occupied()),
        }
    }

    /// Does work that takes so long at the base frequency.
    pub(crate) async fn work(&self, work: Duration) {
        if work.is_zero() {
            return;
        }
        match self {
            Self::Quota { quantum } => burn::burn(work, *quantum).await,
            Self::Virtual(cores) => cores.work(work).await,
        }
    }
}
