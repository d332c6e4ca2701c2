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

    /// Gives what is free to containers that have less than their floor, because others took it. A
    /// part of what they lack helps, too.
    pub(super) fn restore_floors(&mut self) {
        for at in 0..self.containers.len() {
            let container = &self.containers[at];
            let lacks = container.floor.saturating_sub(container.units);
            self.give(at, lacks, Reason::Floor);
        }
    }

    /// Gives up to `wanted` units to the container at `at`; how many it got. One whose floor was
    /// restored gets them on top of it.
    pub(super) fn give(&mut self, at: usize, wanted: u32, reason: Reason) -> u32 {
        let given = wanted.min(self.room(at)).min(self.free());
        if given == 0 {
            return 0;
        }
        self.given += u64::from(given);
        self.rows[at].units = Some((self.units(at) + given, reason));
        given
    }

    /// How many units the container at `at` could be given in this round, if they were free.
    pub(super) fn room(&self, at: usize) -> u32 {
        match self.rows[at].units {
            None | Some((_, Reason::Floor)) => {
                self.containers[at].limit.saturating_sub(self.units(at))
            }
            Some(_) => 0,
        }
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

    /// Whether the container at `at` loses units in this round, so that it gets none.
    pub(super) fn is_taken(&self, at: usize) -> bool {
        self.units(at) < self.containers[at].units
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
        // Known when all is decided.
        let can_grow = false;
        self.candidates.push(Candidate { container, score, sensitivity, is_unmet, can_grow });
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

    /// Units of the container at `at`, with what is decided.
    fn units(&self, at: usize) -> u32 {
        self.rows[at].units.map_or(self.containers[at].units, |(to, _)| to)
    }

    /// Whether containers have more than the node has, because others gave it to them.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.given > u64::from(self.node.units)
    }

    /// All that was decided, with what is taken before what is given.
    pub(super) fn close(mut self) -> Outcome {
        self.promise();
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

    /// Says which candidates can count on more.
    fn promise(&mut self) {
        let mut left = self.free();
        let mut candidates = core::mem::take(&mut self.candidates);
        for candidate in &mut candidates {
            let found = self.containers.binary_search_by_key(&candidate.container, |it| it.id);
            let at = found.expect("candidates are containers of this round");
            let (row, container) = (&self.rows[at], &self.containers[at]);
            let level = row.level.map_or(container.level, |(to, _)| to);
            let gets_more = self.units(at) > container.units || level > container.level;
            let is_unit_left = left > 0 && self.units(at) < container.limit;
            let waits = !candidate.is_unmet && !gets_more && !self.is_taken(at);
            candidate.can_grow = gets_more || (waits && (is_unit_left || level < self.level_max()));
            left -= u32::from(waits && is_unit_left);
        }
        self.candidates = candidates;
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
        assert_eq!(ledger.give(0, 1, REASON), 1, "less than its floor is more than nothing");
    }

    #[test]
    fn floors_are_restored_from_what_is_free_and_first() {
        let starved = Container { floor: 4, ..container(1, 1) };
        let containers = measured(&[starved.clone(), container(2, 2), starved]);
        // The second of the same id does not count; seven are free.
        let mut ledger = Ledger::new(node(10), &containers);
        ledger.restore_floors();
        assert_eq!((ledger.free(), ledger.room(0)), (4, 96));
        assert_eq!(ledger.give(0, 1, REASON), 1, "and on top of it what the policy wants");
        assert_eq!(ledger.give(0, 1, REASON), 0, "once");
        let [decision] = &ledger.close().decisions[..] else { panic!() };
        let change = Change::Units { from: 1, to: 5 };
        assert_eq!((decision.change, decision.reason), (change, REASON));

        let mut ledger = Ledger::new(node(5), &containers);
        ledger.restore_floors();
        let [decision] = &ledger.close().decisions[..] else { panic!() };
        let change = Change::Units { from: 1, to: 3 };
        assert_eq!((decision.change, decision.reason), (change, Reason::Floor));
    }

    #[test]
    fn candidates_count_on_what_is_left_when_those_before_them_have_had_it() {
        let containers = measured(&[
            container(1, 3),
            container(2, 3),
            container(3, 3),
            container(4, 3),
            Container { limit: 3, ..container(5, 3) },
        ]);
        let of = |units: u32| {
            let mut ledger =
                Ledger::new(Node { levels: 1, level_base: 0, ..node(units) }, &containers);
            let is_given = ledger.give(0, 1, REASON) > 0;
            ledger.take(1, 1, REASON);
            ledger.nominate(0, 1, None, !is_given);
            (1..5).for_each(|at| ledger.nominate(at, 1, None, false));
            let candidates = ledger.close().candidates;
            candidates.iter().map(|it| it.can_grow).collect::<Vec<bool>>()
        };
        // One that gets a unit, one that loses it, two that wait, and one at its limit.
        assert_eq!(of(15), [false, false, true, false, false], "one unit: what was taken");
        assert_eq!(of(16), [true, false, true, false, false]);
        assert_eq!(of(17), [true, false, true, true, false]);
    }
}
