//! Containers for tests.

use std::collections::BTreeSet;
use std::time::Duration;
use std::vec::Vec;

use super::{
    Change, Config, Container, ContainerId, Counters, Expected, Node, Outcome, Report, Scaler,
    Snapshot,
};
use crate::time::Instant;

/// A container with floor 1 that reports nothing, and is expected to take 1 ms.
pub(super) fn container(id: u64, units: u32) -> Container {
    Container {
        id: ContainerId(id),
        units,
        floor: 1,
        limit: 100,
        level: 0,
        hint: 0,
        depth: id as u16,
        cpu_time: None,
        expected: Expected { exec: Some(Duration::from_millis(1)), time_from_start: None },
        report: Report::Counters(Counters::default()),
    }
}

/// A node, and a scaler that looks at it every 10 ms.
pub(super) struct World {
    pub(super) scaler: Scaler,
    pub(super) snapshot: Snapshot,
    pub(super) now: Instant,
}

impl World {
    /// Containers 0, 1, … with these units, on a node that has `total`.
    pub(super) fn new(config: &Config, total: u32, units: &[u32]) -> Self {
        let containers = (0..).zip(units).map(|(id, units)| container(id, *units)).collect();
        let node = Node { units: total, ..Node::default() };
        let mut world = Self {
            scaler: config.build(1).unwrap(),
            snapshot: Snapshot { node, containers },
            now: Instant::ORIGIN,
        };
        // The first reading only says where sums stand.
        world.step();
        world
    }

    pub(super) fn counters(&mut self, at: usize) -> &mut Counters {
        match &mut self.snapshot.containers[at].report {
            Report::Counters(counters) => counters,
            other => panic!("{other:?} has no counters"),
        }
    }

    /// `requests` are served in the container, each with so many microseconds of execution, of
    /// which it waits so many for connections.
    pub(super) fn serve(&mut self, at: usize, requests: u64, exec_us: u64, wait_us: u64) {
        let counters = self.counters(at);
        counters.requests += requests;
        counters.exec_ns += requests * exec_us * 1_000;
        counters.pool_wait_ns += requests * wait_us * 1_000;
    }

    /// Lets 10 ms pass, decides, and carries it out.
    pub(super) fn step(&mut self) -> Outcome {
        self.now = self.now + Duration::from_millis(10);
        let outcome = self.scaler.on_snapshot(self.now, &self.snapshot);
        apply(&mut self.snapshot, &outcome);
        outcome
    }

    pub(super) fn units(&self) -> Vec<u32> {
        self.snapshot.containers.iter().map(|container| container.units).collect()
    }
}

/// Carries decisions out in their order, and checks that each can be.
pub(super) fn apply(snapshot: &mut Snapshot, outcome: &Outcome) {
    // Of those that are listed twice, the first counts.
    let mut seen = BTreeSet::new();
    snapshot.containers.retain(|container| seen.insert(container.id));
    let given = |snapshot: &Snapshot| -> u64 {
        snapshot.containers.iter().map(|container| u64::from(container.units)).sum()
    };
    let total = u64::from(snapshot.node.units);
    let before = given(snapshot);
    for decision in &outcome.decisions {
        let found = |container: &&mut Container| container.id == decision.container;
        let container = snapshot.containers.iter_mut().find(found).expect("it is there");
        match decision.change {
            Change::Units { from, to } => {
                assert_eq!(container.units, from, "{decision:?}");
                assert_ne!(from, to, "{decision:?}");
                let floor = container.floor.max(1);
                let bounds = floor..=container.limit.max(floor);
                let is_help = (from..floor).contains(&to);
                assert!(is_help || bounds.contains(&to), "{decision:?} leaves {bounds:?}");
                container.units = to;
            }
            Change::Level { from, to } => {
                let top = snapshot.node.levels.max(1) - 1;
                assert_eq!(container.level.min(top), from, "{decision:?}");
                assert!(from != to && to <= top, "{decision:?}");
                assert!(to >= snapshot.node.level_base.min(top), "{decision:?}");
                container.level = to;
            }
            Change::Hint { from, to } => {
                assert_eq!(container.hint, from, "{decision:?}");
                container.hint = to;
            }
        }
        let after = given(snapshot);
        assert!(after <= total.max(before), "{after} of {total} units are given");
    }
}
