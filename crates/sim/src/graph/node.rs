//! The nodes: a scaler each, FirstResponder, and what carries their decisions out.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use seawall_control::config::ConfigError;
use seawall_control::scaling::responder::{self, Responder};
use seawall_control::scaling::{
    Change, Container, ContainerId, Decision, Node as Facts, Report, Scaler, Snapshot,
};
use seawall_control::{Instant, Rng};

use super::machine::Machine;
use super::{Event, Fault, World};
use crate::scenario::Scenario;
use crate::world::Rule;

/// The policy that leaves everything as it is: nothing is asked of it.
const STATIC: &str = "static";

/// One machine.
#[derive(Debug)]
pub(super) struct Node {
    /// Its containers, in the graph's order.
    containers: Vec<u16>,
    scaler: Option<Scaler>,
    responder: Responder,
    snapshot: Snapshot,
    /// What is decided and not carried out.
    decided: VecDeque<Vec<Decision>>,
}

impl Node {
    /// From one decision to the next; none where nobody decides.
    pub(super) fn interval(&self) -> Option<Duration> {
        self.scaler.as_ref().map(Scaler::interval)
    }
}

/// The nodes of a scenario.
pub(super) fn nodes(
    scenario: &Scenario,
    machine: &Machine,
    seeds: &mut Rng,
) -> Result<Vec<Node>, ConfigError> {
    let Some(config) = &scenario.graph else { return Ok(Vec::new()) };
    let node = |index: u32| {
        let here = (0..machine.containers.len() as u16)
            .filter(|&at| u32::from(machine.containers[usize::from(at)].node) == index);
        let seed = seeds.next_u64();
        let is_static = config.ideal.is_some() || scenario.scaling.policy == STATIC;
        let scaler = if is_static { None } else { Some(scenario.scaling.build(seed)?) };
        let containers: Vec<u16> = here.collect();
        let floors = containers.iter().map(|&at| machine.containers[usize::from(at)].floor);
        let floors: u32 = floors.sum();
        let facts = Facts {
            units: floors + config.node_units.saturating_sub(floors) / config.step,
            levels: machine.levels(),
            level_base: 0,
            ..Facts::default()
        };
        Ok(Node {
            containers,
            scaler,
            responder: Responder::new(),
            snapshot: Snapshot { node: facts, containers: Vec::new() },
            decided: VecDeque::new(),
        })
    };
    (0..config.nodes).map(node).collect()
}

impl World<'_> {
    /// A node's scaler looks at its containers, and decides.
    pub(super) fn decide(&mut self, index: u16) {
        let node = &mut self.nodes[usize::from(index)];
        let Some(scaler) = &mut node.scaler else { return };
        let machine = &mut self.machine;
        node.snapshot.containers.clear();
        for &at in &node.containers {
            let limit = node.snapshot.node.units;
            node.snapshot.containers.push(shown(machine, at, self.now, limit, self.config.step));
        }
        let outcome = scaler.on_snapshot(self.now, &node.snapshot);
        let mut next = self.now + scaler.interval();
        if !outcome.decisions.is_empty() {
            node.decided.push_back(outcome.decisions);
            let done = self.now + self.config.actuation;
            self.events.push(done, Event::Apply { node: index });
            // Who acts does not look meanwhile.
            next = next.max(done + Duration::from_nanos(1));
        }
        if next < self.window.end + self.scenario.run.length() {
            self.events.push(next, Event::Decide { node: index });
        }
    }

    /// What a scaler has decided is carried out.
    pub(super) fn apply(&mut self, index: u16) {
        let node = &mut self.nodes[usize::from(index)];
        for decision in node.decided.pop_front().unwrap_or_default() {
            let at = decision.container.0 as u16;
            let container = &mut self.machine.containers[usize::from(at)];
            self.meters.decided(&decision.change);
            match decision.change {
                Change::Units { to, .. } => {
                    let (name, floor) = (&container.name, container.floor);
                    let kept = to >= floor;
                    let detail = || format!("{name} gets {to}, less than its floor of {floor}");
                    self.books.demand(kept, Rule::UnitsKept, detail);
                    let units = floor + to.saturating_sub(floor) * self.config.step;
                    self.machine.set_units(at, self.now, units);
                    self.check_units(index);
                }
                Change::Level { to, .. } => self.machine.set_level(at, self.now, to),
                Change::Hint { to, .. } => container.hint = to,
            }
        }
        self.meters.units_changed(self.now, &self.machine);
        if self.has(Fault::OverbooksNodes) {
            let of_node = self.machine.units_of(index);
            let at = self.nodes[usize::from(index)].containers[0];
            let units = self.machine.containers[usize::from(at)].cpu.units();
            let free = self.config.node_units - of_node;
            self.machine.set_units(at, self.now, units + free + 1);
            self.check_units(index);
        }
    }

    /// FirstResponder sees a request that comes to a service, whose job began at `start`.
    pub(super) fn respond(&mut self, service: u16, start: Instant) {
        let Some(costs) = self.config.responder else { return };
        let container = &self.machine.containers[usize::from(service)];
        let node = &mut self.nodes[usize::from(container.node)];
        let judged = responder::Config {
            expected: container.expected.time_from_start,
            window: costs.freeze.unwrap_or(self.meters.latency_at_low_load() * 2),
            ..responder::Config::default()
        };
        // One kind of job takes one path through the graph: there is one to freeze on each node.
        let (path, since) = (0, self.now.since(start));
        if node.responder.on_arrival(self.now, path, since, &judged).is_some() {
            self.meters.boosted();
            self.events.push(self.now + costs.actuation, Event::Boost { container: service });
        }
    }

    /// The frequency of a late container is raised, and that of those behind it on this node.
    pub(super) fn boost(&mut self, service: u16) {
        let Some(costs) = self.config.responder else { return };
        let (top, end) = (self.machine.levels() - 1, self.now + costs.boost);
        let container = &mut self.machine.containers[usize::from(service)];
        let (node, downstream) = (container.node, mem::take(&mut container.downstream));
        for &at in std::iter::once(&service).chain(&downstream) {
            if self.machine.containers[usize::from(at)].node != node {
                continue;
            }
            if costs.until_lowered {
                self.machine.set_level(at, self.now, top);
            } else {
                self.machine.boost(at, self.now, end);
                self.events.push(end, Event::BoostEnds { container: at });
            }
        }
        self.machine.containers[usize::from(service)].downstream = downstream;
    }

    /// The containers get what they had at first.
    pub(super) fn reset(&mut self) {
        for at in 0..self.machine.containers.len() as u16 {
            let container = &mut self.machine.containers[usize::from(at)];
            container.hint = 0;
            let floor = container.floor;
            self.machine.set_units(at, self.now, floor);
            self.machine.set_level(at, self.now, 0);
            self.machine.boost(at, self.now, self.now);
            self.machine.end_boost(at, self.now);
        }
        // What was on its way to them is out of date.
        self.nodes.iter_mut().flat_map(|node| &mut node.decided).for_each(Vec::clear);
    }
}

/// A container as a scaler sees it. What it has above its floor is counted in steps.
fn shown(machine: &mut Machine, at: u16, now: Instant, limit: u32, step: u32) -> Container {
    let cpu_time = machine.cpu_time(at, now);
    let container = &machine.containers[usize::from(at)];
    Container {
        id: ContainerId(u64::from(at)),
        units: container.floor + container.cpu.units().saturating_sub(container.floor) / step,
        floor: container.floor,
        limit,
        level: container.level,
        hint: container.hint,
        depth: container.depth,
        cpu_time: Some(cpu_time),
        expected: container.expected,
        report: Report::Counters(container.counters),
    }
}
