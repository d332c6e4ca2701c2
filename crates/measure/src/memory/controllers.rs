//! What the memory controllers of the machine transfer.

use std::path::Path;

use seawall_control::steer::Meter;

use super::{Counters, OpenCounter, Unavailable, pmu};

/// Counters of all memory controllers: of Intel's (`uncore_imc`), AMD's since Zen 4 (`amd_umc`,
/// Linux 6.8), or of the data fabric that AMD's had before (`amd_df`).
///
/// A data fabric has four counters for its eight channels, which the kernel lets take turns of a
/// few milliseconds; steer at intervals of some 20 ms there.
#[derive(Debug)]
pub struct Controllers {
    name: String,
    counters: Counters,
}

impl Controllers {
    /// Opens the counters that the sysfs at `sysfs` describes. [`detect`](super::detect) does it
    /// with those of this machine.
    ///
    /// # Errors
    ///
    /// When the processor or the kernel has none (most virtual machines), or they may not be used.
    pub fn open(sysfs: &Path, open: &mut OpenCounter<'_>) -> Result<Self, Unavailable> {
        let events = pmu::events(sysfs)?;
        let counters = Counters::open(&events, open)?;
        let pmu = events[0].pmu.trim_end_matches(|last: char| last.is_ascii_digit() || last == '_');
        Ok(Self { name: format!("{pmu}, {} counters", events.len()), counters })
    }
}

impl Meter for Controllers {
    fn name(&self) -> &str {
        &self.name
    }

    fn total(&mut self) -> Option<u64> {
        self.counters.total()
    }
}
