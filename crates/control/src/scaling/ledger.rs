//! Keeps the bounds: floors, limits, and what the node has in total.

use alloc::vec::Vec;

use super::intake::Measured;
use super::{Candidate, Change, Decision, Node, Outcome, Reason};

/// What is decided in one round. A policy wishes; the ledger grants what the bounds allow, each
/// container's units, level and hint at most once.
#[derive(Debug)]
pub(super) struct Ledger<'a> {
    node: Node,
    containers: &'a [Measured],
    /// Units that containers have, with what is decided. What is taken in this round can be given
    /// in it, because whoever carries it out takes first.
    given: u64,
    rows: Vec<Row>,
    candidates: Vec<Candidate>,
}

/// What was decided of one container.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    units: Option<(u32, Reason)>,
    level: Option<(u16, Reason)>,
    hint: Option<(u16, Reason)>,
}

impl<'a> Ledger<'a> {
    /// `node` has been made sound.
    pub(super) fn new(node: Node, containers: &'a [Measured]) -> Self {
        let given = containers.iter().map(|container| u64::from(container.units)).sum();
        let rows = alloc::vec![Row::default(); containers.len()];
        Self { node, containers, given, rows, candidates: Vec::new() }
    }

    /// Gives up to `wanted` units to the container at `at`; how many it got. One that has fewer
    /// than its floor, because others took them, gets these too.
    pub(super) fn give(&mut self, at: usize, wanted: u32, reason: Reason) -> u32 {
        let container = &self.containers[at];
        if self.rows[at].units.is_some() || wanted == 0 {
            return 0;
        }
        let to = container.units.saturating_add(wanted).clamp(container.floor, container.limit);
        let given = to.saturating_sub(container.units).min(self.free());
        let to = container.units + given;
        // Fewer than the floor would be a decision that breaks it.
        if given == 0 || to < container.floor {
            return 0;
        }
        self.given += u64::from(given);
        self.rows[at].units = Some((to, reason));
        given
    }

    /// Takes up to `wanted` units from the container at `at`; how many it lost. One that has more
    /// than its limit, because others gave them, loses these too.
    pub(super) fn take(&mut self, at: usize, wanted: u32, reason: Reason) -> u32 {
        let container = &self.containers[at];
        if self.rows[at].units.is_some() || wanted == 0 {
            return 0;
        }
        let to = container.units.saturating_sub(wanted).clamp(container.floor, container.limit);
        let taken = container.units.saturating_sub(to);
        if taken == 0 {
            return 0;
        }
        self.given -= u64::from(taken);
        self.rows[at].units = Some((to, reason));
        taken
    }

    /// Sets the container's frequency level, not below the base nor above the ladder; whether that
    /// changes it.
    pub(super) fn set_level(&mut self, at: usize, to: u16, reason: Reason) -> bool {
        let to = to.clamp(self.node.level_base, self.level_max());
        if self.rows[at].level.is_some() || to == self.containers[at].level {
            return false;
        }
        self.rows[at].level = Some((to, reason));
        true
    }

    /// Sets the hops that the container puts on its requests; whether that changes them.
    pub(super) fn set_hint(&mut self, at: usize, to: u16, reason: Reason) -> bool {
        if self.rows[at].hint.is_some() || to == self.containers[at].hint {
            return false;
        }
        self.rows[at].hint = Some((to, reason));
        true
    }

    /// Names a container that should have more; the most urgent one first.
    pub(super) fn nominate(
        &mut self,
        at: usize,
        score: u32,
        sensitivity: Option<f64>,
        is_unmet: bool,
    ) {
        let container = self.containers[at].id;
        self.candidates.push(Candidate { container, score, sensitivity, is_unmet });
    }

    /// The highest level of the ladder.
    pub(super) fn level_max(&self) -> u16 {
        self.node.levels - 1
    }

    /// The level that containers have when nothing is wrong.
    pub(super) fn level_base(&self) -> u16 {
        self.node.level_base
    }

    /// Units that nobody has. What containers have beyond what the node has is nobody's to give.
    pub(super) fn free(&self) -> u32 {
        let free = u64::from(self.node.units).saturating_sub(self.given);
        u32::try_from(free).expect("no more than the node has")
    }

    /// Whether containers have more than the node has, because others gave it to them.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.given > u64::from(self.node.units)
    }

    /// All that was decided, with what is taken before what is given.
    pub(super) fn close(self) -> Outcome {
        let mut taken = Vec::new();
        let mut rest = Vec::new();
        let mut given = Vec::new();
        for (row, container) in self.rows.iter().zip(self.containers) {
            let mut decide = |change, reason, is_more| {
                let list = if is_more { &mut given } else { &mut taken };
                list.push(Decision { container: container.id, change, reason });
            };
            if let Some((to, reason)) = row.units {
                let from = container.units;
                decide(Change::Units { from, to }, reason, to > from);
            }
            if let Some((to, reason)) = row.level {
                let from = container.level;
                decide(Change::Level { from, to }, reason, to > from);
            }
            if let Some((to, reason)) = row.hint {
                let change = Change::Hint { from: container.hint, to };
                rest.push(Decision { container: container.id, change, reason });
            }
        }
        let mut decisions = taken;
        decisions.append(&mut rest);
        decisions.append(&mut given);
        Outcome { decisions, candidates: self.candidates }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::container;
    use super::super::intake::{Config, Intake};
    use super::super::{Container, Snapshot};
    use super::*;
    use crate::time::Instant;

    const REASON: Reason = Reason::Idle;

    fn measured(containers: &[Container]) -> Vec<Measured> {
        let snapshot = Snapshot { node: Node::default(), containers: containers.to_vec() };
        Intake::new(Config::default()).read(Instant::ORIGIN, &snapshot)
    }

    fn node(units: u32) -> Node {
        Node { units, levels: 5, level_base: 1, ..Node::default() }
    }

    #[test]
    fn what_is_taken_can_be_given_and_comes_first() {
        let containers = measured(&[container(1, 3), container(2, 3), container(3, 3)]);
        let mut ledger = Ledger::new(node(9), &containers);
        assert_eq!(ledger.give(0, 1, REASON), 0, "nothing is free");
        assert_eq!(ledger.take(2, 9, REASON), 2, "down to the floor");
        assert_eq!((ledger.free(), ledger.give(0, 5, REASON)), (2, 2));
        assert_eq!((ledger.give(1, 1, REASON), ledger.free()), (0, 0));
        assert!(ledger.set_hint(0, 3, REASON) && ledger.set_level(1, 4, REASON));
        let changes: Vec<Change> = ledger.close().decisions.iter().map(|it| it.change).collect();
        let expected = [
            Change::Units { from: 3, to: 1 },
            Change::Hint { from: 0, to: 3 },
            Change::Units { from: 3, to: 5 },
            Change::Level { from: 0, to: 4 },
        ];
        assert_eq!(changes, expected);
    }

    #[test]
    fn each_resource_of_a_container_changes_once() {
        let containers = measured(&[container(1, 3)]);
        let mut ledger = Ledger::new(node(9), &containers);
        assert_eq!((ledger.take(0, 1, REASON), ledger.give(0, 1, REASON)), (1, 0));
        assert_eq!(ledger.take(0, 1, REASON), 0);
        assert!(ledger.set_level(0, 2, REASON) && !ledger.set_level(0, 3, REASON));
        assert!(ledger.set_hint(0, 2, REASON) && !ledger.set_hint(0, 3, REASON));
        assert_eq!(ledger.close().decisions.len(), 3);
    }

    #[test]
    fn limits_ladders_and_what_does_not_change() {
        let full = Container { limit: 3, level: 4, ..container(1, 3) };
        let mut containers = measured(&[full, container(2, 3)]);
        (containers[0].level, containers[1].level) = (4, 1);
        let mut ledger = Ledger::new(node(100), &containers);
        assert_eq!(ledger.give(0, 1, REASON), 0);
        assert!(!ledger.set_level(0, 9, REASON) && !ledger.set_level(1, 0, REASON));
        assert!(!ledger.set_hint(0, 0, REASON));
        assert_eq!(ledger.close().decisions, []);
    }

    #[test]
    fn quotas_that_others_changed_are_brought_back_within_the_bounds() {
        let starved = Container { floor: 4, ..container(1, 1) };
        let fat = Container { limit: 6, ..container(2, 9) };
        let containers = measured(&[starved, fat]);
        // They have ten, the node has eight: two are nobody's.
        let mut ledger = Ledger::new(node(8), &containers);
        assert!(ledger.is_overdrawn());
        assert_eq!(ledger.give(0, 1, REASON), 0);
        assert_eq!(ledger.take(1, 1, REASON), 3);
        assert_eq!((ledger.is_overdrawn(), ledger.free()), (false, 1));
        assert_eq!(ledger.give(0, 1, REASON), 0, "less than its floor is no decision");

        let mut ledger = Ledger::new(node(20), &containers);
        assert_eq!(ledger.give(0, 1, REASON), 3);
    }
}
