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
//! seldom have them. [`detect`] takes the first that works and says what is wrong with the others:
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

use std::fmt;
use std::path::PathBuf;

use seawall_control::steer::Meter;

pub use crate::kernel::Unavailable;
pub use controllers::Controllers;
pub use counters::{Count, Counter, Counters, OpenCounter};
pub use declared::Declared;
pub use pmu::Event;
pub use resctrl::Resctrl;

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
    /// What was looked for, best first: what it is called, and that it works or why it does not.
    /// What stands behind the one that works was not tried.
    pub findings: Vec<(&'static str, Result<String, Unavailable>)>,
}

/// Looks for the best meter that works on this machine.
pub fn detect() -> Detected {
    detect_in(&Roots::default(), &mut counters::open)
}

/// The same in other folders, and with another way to open counters.
pub fn detect_in(roots: &Roots, open: &mut OpenCounter<'_>) -> Detected {
    let mut detected = Detected { meter: None, findings: Vec::new() };
    detected.consider("memory controllers", || Controllers::open(&roots.sysfs, open));
    detected.consider("resctrl", || Resctrl::open(&roots.resctrl));
    detected
}

impl Detected {
    fn consider<M: Meter + Send + 'static>(
        &mut self,
        what: &'static str,
        open: impl FnOnce() -> Result<M, Unavailable>,
    ) {
        if self.meter.is_some() {
            return;
        }
        let meter = open().and_then(|mut meter| match meter.total() {
            Some(_) => Ok(meter),
            None => Err(Unavailable::new(format!("{} cannot be read", meter.name()))),
        });
        self.findings
            .push((what, meter.as_ref().map(|meter| meter.name().into()).map_err(Clone::clone)));
        self.meter = meter.ok().map(|meter| Box::new(meter) as Box<dyn Meter + Send>);
    }
}

/// A line for each finding.
impl fmt::Display for Detected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, outcome) in &self.findings {
            match outcome {
                Ok(name) => writeln!(f, "{what}: {name}, which is used")?,
                Err(reason) => writeln!(f, "{what}: not to be had: {reason}")?,
            }
        }
        if self.meter.is_none() {
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
