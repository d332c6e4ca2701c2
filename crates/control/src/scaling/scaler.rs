//! Runs a policy: from a snapshot to decisions.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::fmt;
use core::time::Duration;

use super::intake::{self, Intake, Measured};
use super::ledger::Ledger;
use super::memory::{self, Memory, Remembered};
use super::profile::{self, Profiles};
use super::sensitivity::Curve;
use super::{ContainerId, Expected, Outcome, Refusals, Snapshot};
use crate::time::Instant;

/// Decides whom to give, and from whom to take.
///
/// It keeps what it remembers of containers in a [`Roster`](super::roster::Roster), so that
/// containers which have gone leave nothing behind.
pub(super) trait Policy: fmt::Debug + Send {
    /// Decides once. `containers` are in the order of their ids; the ledger names them by their
    /// place.
    fn decide(&mut self, now: Instant, containers: &[Measured], ledger: &mut Ledger<'_>);

    /// Whether containers get back what they lack of their floors, because others took it.
    fn keeps_floors(&self) -> bool {
        true
    }

    /// What it has learned of a container's units, if it learns that.
    fn curve(&self, _container: ContainerId) -> Option<&Curve> {
        None
    }

    /// What it had learned of a container that the next decision is about.
    fn recall(&mut self, _container: ContainerId, _curve: Curve) {}
}

/// A policy with all that it needs: what a node agent or a simulator drives.
///
/// ```
/// use seawall_control::scaling::{Config, Container, ContainerId, Node, Report, Snapshot};
/// use seawall_control::Instant;
///
/// let mut scaler = Config::named("escalator")?.build(7)?;
/// let snapshot = Snapshot {
///     node: Node { units: 8, ..Node::default() },
///     containers: vec![Container {
///         id: ContainerId(1),
///         units: 3,
///         floor: 1,
///         limit: 6,
///         level: 0,
///         hint: 0,
///         depth: 0,
///         cpu_time: None,
///         expected: Default::default(),
///         report: Report::None,
///     }],
/// };
/// let outcome = scaler.on_snapshot(Instant::ORIGIN, &snapshot);
/// assert!(outcome.decisions.is_empty(), "of a container that says nothing, nothing is decided");
/// # Ok::<(), seawall_control::config::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Scaler {
    name: &'static str,
    interval: Duration,
    intake: Intake,
    profiles: Profiles,
    policy: Box<dyn Policy>,
    /// What is remembered of containers that have not come yet.
    awaited: BTreeMap<ContainerId, Remembered>,
}

impl Scaler {
    pub(super) fn new(
        name: &'static str,
        interval: Duration,
        intake: intake::Config,
        profile: profile::Config,
        policy: Box<dyn Policy>,
    ) -> Self {
        Self {
            name,
            interval,
            intake: Intake::new(intake),
            profiles: Profiles::new(profile),
            policy,
            awaited: BTreeMap::new(),
        }
    }

    /// Takes up what was learned before, for containers that have not come yet; those that have
    /// know better. The number of entries that were refused: because they are absurd, or more than
    /// [`memory::CONTAINERS_MAX`].
    pub fn recall(&mut self, memory: Memory) -> usize {
        let mut refused = 0;
        for entry in memory.containers {
            let is_full = self.awaited.len() >= memory::CONTAINERS_MAX;
            if is_full || !entry.is_sound() {
                refused += 1;
            } else {
                self.awaited.insert(ContainerId(entry.id), entry);
            }
        }
        refused
    }

    /// Decides once. `now` does not decrease; call it every [`interval`](Self::interval), and carry
    /// the decisions out in their order before the next call, or report what stands.
    pub fn on_snapshot(&mut self, now: Instant, snapshot: &Snapshot) -> Outcome {
        let node = intake::sound(snapshot.node);
        let mut containers = self.intake.read(now, snapshot);
        if !self.awaited.is_empty() {
            self.remember(&containers);
        }
        self.profiles.observe(now, node.level_base, &mut containers);
        let mut ledger = Ledger::new(node, &containers);
        if self.policy.keeps_floors() {
            ledger.restore_floors();
        }
        self.policy.decide(now, &containers, &mut ledger);
        ledger.close()
    }

    fn remember(&mut self, containers: &[Measured]) {
        for container in containers {
            let Some(entry) = self.awaited.remove(&container.id) else { continue };
            if !self.profiles.knows(container.id) {
                self.profiles.recall(&entry);
                self.policy.recall(container.id, Curve::recall(&entry.exec_avg));
            }
        }
    }

    /// What was learned, of the containers of the latest snapshot and of those that are still
    /// awaited.
    pub fn memory(&self) -> Memory {
        let present = self.profiles.iter().map(|mut entry| {
            let curve = self.policy.curve(ContainerId(entry.id));
            entry.exec_avg = curve.into_iter().flat_map(Curve::iter).collect();
            entry
        });
        let entries = present.filter(|entry| !entry.is_empty());
        let entries = entries.chain(self.awaited.values().cloned());
        Memory { containers: entries.take(memory::CONTAINERS_MAX).collect() }
    }

    /// The policy's name, one of [`NAMES`](super::NAMES).
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// From one snapshot to the next.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// What was reported and could not be believed.
    pub fn refusals(&self) -> &Refusals {
        self.intake.refusals()
    }

    /// What was learned of a container at low load, times the factor of the profile; `None` while
    /// it is not known.
    pub fn profiled(&self, container: ContainerId) -> Option<Expected> {
        self.profiles.find(container)
    }
}

/// Leaves everything as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Static;

impl Policy for Static {
    fn decide(&mut self, _now: Instant, _containers: &[Measured], _ledger: &mut Ledger<'_>) {}

    fn keeps_floors(&self) -> bool {
        false
    }
}
