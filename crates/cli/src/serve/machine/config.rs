//! What can be set about memory.

use std::path::PathBuf;

use seawall_control::bandit;
use seawall_control::config::ConfigError;
use seawall_measure::memory::{Declared, Detected, Roots, Source, Unavailable};
use seawall_sync::MemorySemaphore;
use serde::{Deserialize, Serialize};

/// The memory semaphore's capacity, and what counts the bytes that go from and to memory.
///
/// Whether requests pass the semaphore is the service's to say: `kv.large.semaphore`,
/// `rocks.store.semaphore`, `columns.store.semaphore`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::serve) struct Config {
    /// What counts. Default `auto`: the first of `uncore`, `resctrl` and `declared` that works.
    pub(in crate::serve) source: Source,
    /// How many the semaphore lets in at once. Default: the bandit decides.
    pub(in crate::serve) capacity: Option<u32>,
    /// How many it tries at most. Default: as many as there are cores for the process.
    pub(in crate::serve) capacity_max: Option<u32>,
    /// Where the sysfs is: elsewhere in some containers. Default `/sys`.
    pub(in crate::serve) sysfs: PathBuf,
    /// Where the resctrl file system is mounted. Default `/sys/fs/resctrl`.
    pub(in crate::serve) resctrl: PathBuf,
    /// How the bandit decides. Its `interval` is also that in which the controller is told the
    /// bandwidth and the power, if its utility asks for them.
    pub(in crate::serve) bandit: bandit::Config,
}

impl Default for Config {
    fn default() -> Self {
        let Roots { sysfs, resctrl } = Roots::default();
        Self {
            source: Source::default(),
            capacity: None,
            capacity_max: None,
            sysfs,
            resctrl,
            bandit: bandit::Config::default(),
        }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub(in crate::serve) fn validate(&self) -> Result<(), ConfigError> {
        let allowed = 1..=MemorySemaphore::MAX_CAPACITY;
        for (field, capacity) in [("capacity", self.capacity), ("capacity_max", self.capacity_max)]
        {
            ConfigError::check_range(field, capacity.unwrap_or(1), allowed.clone())?;
        }
        self.bandit.validate()
    }

    /// Opens what counts, for a service that declares its bytes or does not.
    ///
    /// # Errors
    ///
    /// Why the source that is named does not work here.
    pub(super) fn open(&self, declares: bool) -> Result<Detected, Unavailable> {
        let roots = Roots { sysfs: self.sysfs.clone(), resctrl: self.resctrl.clone() };
        self.source.open(&roots, declares.then(Declared::shared))
    }
}
