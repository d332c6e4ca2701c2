//! Ends the agent at a chosen step, as SIGKILL would: so that a test can see what it leaves.

use std::str::FromStr;
use std::sync::OnceLock;

use nix::sys::signal::{Signal, raise};

/// A step at which the agent may die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// New containers are known, and what they have is not saved.
    BeforeSave,
    /// It is saved, and nothing has been changed.
    AfterSave,
    /// All was taken that is to be taken, and nothing was given.
    BetweenTakeAndGive,
    /// All was given.
    AfterGive,
    /// A container has more than the policy has given it.
    DuringBoost,
}

impl Step {
    /// All of them, by name.
    pub const NAMED: [(&str, Self); 5] = [
        ("before-save", Self::BeforeSave),
        ("after-save", Self::AfterSave),
        ("between-take-and-give", Self::BetweenTakeAndGive),
        ("after-give", Self::AfterGive),
        ("during-boost", Self::DuringBoost),
    ];
}

impl FromStr for Step {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::NAMED.iter().find(|(known, _)| *known == name);
        known.map(|(_, step)| *step).ok_or_else(|| {
            format!("there is no such step; choose of {}", Self::NAMED.map(|(it, _)| it).join(", "))
        })
    }
}

/// The step at which this process ends, if any.
static ARMED: OnceLock<Step> = OnceLock::new();

/// From now on this process ends at this step.
pub fn arm(step: Step) {
    let _ = ARMED.set(step);
}

/// This process is at a step.
pub(super) fn point(step: Step) {
    if ARMED.get() == Some(&step) {
        let _ = raise(Signal::SIGKILL);
    }
}
