//! Measures what the FirstResponder costs and how soon it acts, with real packets on this machine.

mod cost;
mod link;
mod reaction;
mod throttled;

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use thiserror::Error;

pub use cost::{Case, PacketCosts, costs};
pub use reaction::{Reactions, TRIALS_MAX, reactions};

use super::{Refused, Unavailable};

/// Why nothing was measured.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The program does not run here.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A service was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The kernel does not say what programs cost.
    #[error("cannot write {path}, so that the kernel does not measure its eBPF programs")]
    Statistics {
        /// The setting.
        path: &'static str,
        /// Why.
        source: io::Error,
    },
    /// There is no group whose quota could be raised.
    #[error("no control group whose quota could be raised: {0}")]
    Group(String),
    /// A connection of this machine to itself does not work.
    #[error("a connection over the loopback device does not work")]
    Loopback(#[from] io::Error),
    /// What should have happened did not.
    #[error("{0}")]
    Lost(&'static str),
}

/// Keeps the thread that calls to one of the CPUs that it may use: the first, or the last.
fn keep_to(last: bool) -> io::Result<()> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this)?;
    let mut cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    let cpu = if last { cpus.next_back() } else { cpus.next() };
    let mut one = CpuSet::new();
    one.set(cpu.ok_or_else(|| io::Error::other("no CPU is allowed"))?)?;
    Ok(sched_setaffinity(this, &one)?)
}
