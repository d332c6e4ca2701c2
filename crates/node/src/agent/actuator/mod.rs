//! What gives a container CPU or speed, and how that is undone.
//!
//! ```text
//!   agent ──► Actuator::save ──► Saved (to the state file, before the first change)
//!         ──► Actuator::apply / read
//!   who finds the state file ──► Saved::restore      needs no actuator, and no configuration
//! ```

mod cpufreq;
mod cpuset;
mod files;
pub mod kubernetes;
mod published;
mod quota;
mod saved;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

pub use cpufreq::{Cpufreq, NoLadder};
pub use cpuset::Cpuset;
pub(super) use files::Watched;
pub use kubernetes::Kubernetes;
pub use published::{VirtualCpu, VirtualSpeed};
pub use quota::Quota;
pub(crate) use quota::QuotaLever;
pub use saved::{Saved, Write};

/// An amount of CPU without bound.
pub const UNLIMITED: u32 = u32::MAX;

/// Where a container can be acted on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// What it is called.
    pub name: String,
    /// The folder of its group in the hierarchy of the `cpu` controller.
    pub cpu: Option<PathBuf>,
    /// The folder of its group in the hierarchy of the `cpuset` controller.
    pub cpuset: Option<PathBuf>,
    /// Its metrics page, where its service models what it is given.
    pub page: Option<PathBuf>,
}

/// Gives containers CPU (thousandths of one), or speed (a step of the ladder, 0 the lowest).
pub trait Actuator: fmt::Debug {
    /// One word, for logs.
    fn name(&self) -> &'static str;

    /// How much the container has now, as whoever enforces it says; [`UNLIMITED`] if there is no
    /// bound.
    ///
    /// # Errors
    ///
    /// If the container has gone, or this process may not look.
    fn read(&mut self, target: &Target) -> Result<u32, ActuatorError>;

    /// All that [`apply`](Self::apply) may change of the container, as it is now.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    fn save(&mut self, target: &Target) -> Result<Saved, ActuatorError>;

    /// Gives the container this much, and no less on the way.
    ///
    /// # Errors
    ///
    /// If the container has gone, a group around it has less, or whoever enforces it refuses.
    fn apply(&mut self, target: &Target, amount: u32) -> Result<(), ActuatorError>;

    /// The least that it can give this container.
    fn least(&mut self, _target: &Target) -> u32 {
        1
    }

    /// The most that groups around this container let it have, and which of them binds.
    fn ceiling(&mut self, _target: &Target) -> Option<(u32, PathBuf)> {
        None
    }

    /// The container has gone.
    fn forget(&mut self, _target: &Target) {}

    /// Whether [`apply`](Self::apply) only asks somebody else, and [`settle`](Self::settle) tells
    /// what came of it.
    fn is_deferred(&self) -> bool {
        false
    }

    /// What came of what was last asked for, told once when it is known.
    fn settle(&mut self, _target: &Target) -> Option<Settled> {
        None
    }

    /// Ends all that is under way: what is restored after this stays so.
    fn stop(&mut self) {}
}

/// What came of a change that somebody else had to make.
#[derive(Debug)]
pub struct Settled {
    /// How long it took until it was in force, or why it is not.
    pub result: Result<Duration, ActuatorError>,
}

/// Why a container could not be read or changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ActuatorError {
    /// It is not there any more: an event, no fault.
    #[error("the container has gone")]
    Gone,
    /// The container cannot be acted on in this way.
    #[error("{what} is not there: {hint}")]
    Missing {
        /// What is lacking.
        what: String,
        /// What can be done.
        hint: &'static str,
    },
    /// This process may not.
    #[error("not permitted: {}; run as root, or give it this folder", path.display())]
    Denied {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file does not hold what it should.
    #[error("{} holds `{text}`, which is not {expected}", path.display())]
    Garbled {
        /// The file.
        path: PathBuf,
        /// What it holds.
        text: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// A group around it has less.
    #[error(
        "{wanted} thousandths of a CPU are more than {} around it lets it have, which is {has}",
        group.display()
    )]
    Bound {
        /// What was wanted.
        wanted: u32,
        /// What that group has.
        has: u32,
        /// Its folder.
        group: PathBuf,
    },
    /// Whoever enforces it says no.
    #[error("{path}: `{text}` is refused: {source}", path = path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What was written to it.
        text: String,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing can be said or done yet.
    #[error("{0}")]
    Pending(String),
    /// The API server of Kubernetes, or the kubelet, did not do it.
    #[error("{message}")]
    Api {
        /// One word for counts.
        kind: &'static str,
        /// What it said.
        message: String,
    },
    /// Another machine has to do it, and did not.
    #[error("{0}")]
    Remote(String),
}

impl ActuatorError {
    /// Whether it only says that the container ended.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }
}
