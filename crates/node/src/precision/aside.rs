//! Where the thread that measures runs.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::MeasureError;

/// Keeps this thread off the CPU that it looks at, if there is another: it would be the one that
/// runs there. Gives it its CPUs back when dropped.
pub(super) struct Aside {
    allowed: CpuSet,
    cpus: Vec<u32>,
}

impl Aside {
    /// For who looks at some of these CPUs.
    pub(super) fn new(cpus: &[u32]) -> Result<Self, MeasureError> {
        let failed = |error| threads(cpus, error);
        let allowed = sched_getaffinity(Pid::from_raw(0)).map_err(failed)?;
        Ok(Self { allowed, cpus: cpus.to_vec() })
    }

    /// Leaves this CPU.
    pub(super) fn leave(&self, cpu: u32) -> Result<(), MeasureError> {
        let mut others = self.allowed;
        // One that it may not use is not in the way.
        let _ = others.unset(cpu as usize);
        let is_alone = (0..CpuSet::count()).all(|it| others.is_set(it) != Ok(true));
        let wanted = if is_alone { self.allowed } else { others };
        sched_setaffinity(Pid::from_raw(0), &wanted).map_err(|error| threads(&self.cpus, error))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Who could leave may come back.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.allowed);
    }
}

fn threads(cpus: &[u32], error: nix::Error) -> MeasureError {
    MeasureError::Threads { cpus: cpus.to_vec(), source: io::Error::from(error) }
}
