//! How many bytes go from and to memory: what whoever steers the `MemorySemaphore` of
//! `seawall-sync` wants to know.
//!
//! | meter | counts | needs |
//! |---|---|---|
//! | [`Controllers`] | what memory controllers transfer | Linux, bare metal, `CAP_PERFMON` |
//! | [`Resctrl`] | what goes through the last caches | a mounted resctrl file system |
//! | [`Declared`] | what the application says that it moves | the application |
//!
//! The first two see the whole machine, hence also what other processes do. Virtual machines
//! seldom have them. [`detect`] takes the first that works and says what is wrong with the others;
//! [`Source`] is a choice among all three for configurations.
//!
//! ```
//! use seawall_measure::memory;
//!
//! let detected = memory::detect();
//! println!("{detected}");
//! if let Some(mut meter) = detected.meter {
//!     println!("{:?} bytes so far", meter.total());
//! }
//! ```

mod controllers;
mod counters;
mod declared;
mod pmu;
mod resctrl;
mod source;

use std::fmt;
use std::path::PathBuf;

use seawall_control::steer::Meter;

pub use crate::kernel::Unavailable;
pub use controllers::Controllers;
pub use counters::{Count, Counter, Counters, OpenCounter};
pub use declared::Declared;
pub use pmu::Event;
pub use resctrl::Resctrl;
pub use source::Source;

/// Where the kernel's file systems are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// The sysfs. Default `/sys`.
    pub sysfs: PathBuf,
    /// The resctrl file system. Default `/sys/fs/resctrl`.
    pub resctrl: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { sysfs: "/sys".into(), resctrl: "/sys/fs/resctrl".into() }
    }
}

/// What this machine has to measure memory with.
pub struct Detected {
    /// The best meter that works; `None` where only the application can tell, by [`Declared`].
    pub meter: Option<Box<dyn Meter + Send>>,
    /// What was looked for, best first, and that it works, with its name, or why it does not. What
    /// stands behind the one that works was not tried.
    pub findings: Vec<(Source, Result<String, Unavailable>)>,
}

/// Looks for the best meter that works on this machine.
pub fn detect() -> Detected {
    detect_in(&Roots::default(), &mut counters::open)
}

/// The same in other folders, and with another way to open counters.
pub fn detect_in(roots: &Roots, open: &mut OpenCounter<'_>) -> Detected {
    let mut detected = Detected { meter: None, findings: Vec::new() };
    detected.consider(Source::Uncore, || Controllers::open(&roots.sysfs, open));
    detected.consider(Source::Resctrl, || Resctrl::open(&roots.resctrl));
    detected
}

impl Detected {
    /// The source of [`meter`](Self::meter).
    pub fn source(&self) -> Option<Source> {
        self.findings.iter().find(|(_, outcome)| outcome.is_ok()).map(|(source, _)| *source)
    }
}

/// A line for each finding.
impl fmt::Display for Detected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (source, outcome) in &self.findings {
            let words = source.words();
            match outcome {
                Ok(name) if name == words => writeln!(f, "{words}: used")?,
                Ok(name) => writeln!(f, "{words}: {name}, used")?,
                Err(reason) => writeln!(f, "{words}: not to be had: {reason}")?,
            }
        }
        if self
            .findings
            .iter()
            .all(|(source, outcome)| outcome.is_err() && *source != Source::Declared)
        {
            writeln!(f, "declared bytes: to be had, if the application counts what it moves")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Detected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detected").field("findings", &self.findings).finish_non_exhaustive()
    }
}
