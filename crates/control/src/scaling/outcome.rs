//! What a policy decided, and why.

use alloc::vec::Vec;
use core::fmt;

use super::{ContainerId, Reason};

/// The answer to one snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// What is to be changed, in this order: what is taken stands before what is given.
    pub decisions: Vec<Decision>,
    /// Containers that should have more, the most urgent first: also what a horizontal autoscaler
    /// wants to know.
    pub candidates: Vec<Candidate>,
}

/// One change of one container.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Which container.
    pub container: ContainerId,
    /// What of it.
    pub change: Change,
    /// Why, for logs and for people: `scored 2: slow, hinted`.
    pub reason: Reason,
}

/// A change, from what was to what shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Units of CPU.
    Units {
        /// Before.
        from: u32,
        /// After.
        to: u32,
    },
    /// Level of frequency.
    Level {
        /// Before.
        from: u16,
        /// After.
        to: u16,
    },
    /// Hops of the upscale hint that it puts on requests it sends.
    Hint {
        /// Before.
        from: u16,
        /// After.
        to: u16,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Units { from, to } => write!(f, "units {from} -> {to}"),
            Self::Level { from, to } => write!(f, "level {from} -> {to}"),
            Self::Hint { from, to } => write!(f, "hint {from} -> {to}"),
        }
    }
}

/// A container that should have more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Which one.
    pub container: ContainerId,
    /// How many conditions it fulfils (SurgeGuard §IV-B).
    pub score: u32,
    /// The share of its execution time that one more unit is expected to save; `None` while
    /// nobody has tried.
    pub sensitivity: Option<f64>,
    /// Whether there was nothing left to give it.
    pub is_unmet: bool,
    /// Whether more CPU comes to it, now or with one of the next decisions: it gets some in this
    /// one, or something is left for it when those before it have had their unit.
    pub can_grow: bool,
}
