//! What decides, as the agent sees it.

use seawall_control::Instant;
use seawall_control::scaling::memory::Memory;
use seawall_control::scaling::{ContainerId, Expected, Outcome, Refusals, Scaler, Snapshot};

/// What decides: a [`Scaler`].
pub trait Decide: std::fmt::Debug {
    /// Decides once.
    fn decide(&mut self, now: Instant, snapshot: &Snapshot) -> Outcome;

    /// What was learned of a container at low load.
    fn profiled(&self, _container: ContainerId) -> Option<Expected> {
        None
    }

    /// All that was learned.
    fn memory(&self) -> Memory {
        Memory::default()
    }

    /// Takes up what was learned before, of containers that have not come yet; how many entries
    /// were refused.
    fn recall(&mut self, _memory: Memory) -> usize {
        0
    }

    /// Reports that could not be believed.
    fn refusals(&self) -> Refusals {
        Refusals::default()
    }
}

impl Decide for Scaler {
    fn decide(&mut self, now: Instant, snapshot: &Snapshot) -> Outcome {
        self.on_snapshot(now, snapshot)
    }

    fn profiled(&self, container: ContainerId) -> Option<Expected> {
        Scaler::profiled(self, container)
    }

    fn memory(&self) -> Memory {
        Scaler::memory(self)
    }

    fn recall(&mut self, memory: Memory) -> usize {
        Scaler::recall(self, memory)
    }

    fn refusals(&self) -> Refusals {
        *Scaler::refusals(self)
    }
}
