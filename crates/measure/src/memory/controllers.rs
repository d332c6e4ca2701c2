//! What the memory controllers of the machine transfer.

use std::path::Path;
use std::time::Duration;

use seawall_control::steer::Meter;

use super::{Counters, OpenCounter, Unavailable, pmu};

/// Counters of all memory controllers: of Intel's (`uncore_imc`), AMD's since Zen 4 (`amd_umc`,
/// Linux 6.8), or of the data fabric that AMD's had before (`amd_df`).
///
/// A data fabric has four counters for its eight channels, which the kernel lets take turns of a
/// few milliseconds. What it shows over less than some of them is not to be relied on.
#[derive(Debug)]
pub struct Controllers {
    name: String,
    counters: Counters,
    resolution: Duration,
}

/// Over which time counters that take turns have all had theirs, and some more than once: the turns
/// of a data fabric are of 4 ms (`perf_event_mux_interval_ms`).
const TURNS: Duration = Duration::from_millis(20);

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
        let resolution = if pmu == "amd_df" { TURNS } else { Duration::ZERO };
        Ok(Self { name: format!("{pmu}, {} counters", events.len()), counters, resolution })
    }
}

impl Meter for Controllers {
    fn name(&self) -> &str {
        &self.name
    }

    fn total(&mut self) -> Option<u64> {
        self.counters.total()
    }

    fn resolution(&self) -> Duration {
        self.resolution
    }
}
