//! The containers, the pools between them, and what their frequencies do.

use std::time::Duration;

use seawall_control::Instant;
use seawall_control::config::ConfigError;
use seawall_control::scaling::{Counters, Expected};
use seawall_measure::Graph;

use super::Event;
use super::config::Config;
use super::container::Cpu;
use super::pool::Pool;
use super::profile::Profile;
use super::program::Program;
use super::request::ThreadId;
use crate::queue::Queue;

/// All containers of a run.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) program: Program,
    pub(super) containers: Vec<Container>,
    pub(super) pools: Vec<Pool>,
    /// Speed and power of a unit at each level.
    ladder: Vec<Rung>,
    /// Containers whose next end of work is not announced.
    changed: Vec<u16>,
}

/// What a level of frequency means.
#[derive(Clone, Copy, Debug)]
struct Rung {
    speed: f64,
    power: f64,
}

/// One service in its container.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) node: u16,
    pub(super) cpu: Cpu<ThreadId>,
    /// Units at first, and the least that it may have.
    pub(super) floor: u32,
    /// As the policy has set it.
    pub(super) level: u16,
    /// Until then FirstResponder has it at the top.
    boosted_until: Option<Instant>,
    /// Hops of the upscale hint on requests that it sends.
    pub(super) hint: u16,
    /// Services that a request passes before this one.
    pub(super) depth: u16,
    pub(super) expected: Expected,
    pub(super) counters: Counters,
    /// Services that it leads to, over any number of others.
    pub(super) downstream: Vec<u16>,
    has_changed: bool,
}

impl Machine {
    pub(super) fn new(config: &Config, profile: &Profile) -> Result<Self, ConfigError> {
        let graph = config.graph()?;
        let program = Program::new(&graph);
        let pools = program.pools.iter().map(|&size| Pool::new(config.pool_size(size)));
        let units = config.first_units(&graph);
        let containers = graph.services.iter().enumerate().map(|(index, service)| Container {
            name: service.name.clone(),
            node: (index as u32 % config.nodes) as u16,
            cpu: Cpu::new(units[index]).hyperthreaded(config.smt_gain),
            floor: units[index],
            level: 0,
            boosted_until: None,
            hint: 0,
            depth: depth(&graph, &service.name),
            expected: profile.expected(index),
            counters: Counters::default(),
            downstream: indices(&graph, &graph.downstream(&service.name)),
            has_changed: false,
        });
        Ok(Self {
            containers: containers.collect(),
            pools: pools.collect(),
            ladder: ladder(config),
            changed: Vec::new(),
            program,
        })
    }

    /// Levels of frequency.
    pub(super) fn levels(&self) -> u16 {
        self.ladder.len() as u16
    }

    /// A thread begins to work.
    pub(super) fn begin(&mut self, service: u16, now: Instant, thread: ThreadId, work: Duration) {
        self.advance(service, now);
        self.containers[usize::from(service)].cpu.begin(thread, work);
        self.change(service);
    }

    /// Whether an announced end of work is still meant.
    pub(super) fn is_due(&mut self, service: u16, epoch: u32, now: Instant) -> bool {
        let is_meant = self.containers[usize::from(service)].cpu.epoch == epoch;
        if is_meant {
            self.advance(service, now);
            self.change(service);
        }
        is_meant
    }

    /// A thread that has done its work.
    pub(super) fn finished(&mut self, service: u16) -> Option<ThreadId> {
        self.containers[usize::from(service)].cpu.finished()
    }

    pub(super) fn set_units(&mut self, service: u16, now: Instant, units: u32) {
        self.advance(service, now);
        self.containers[usize::from(service)].cpu.set_units(units);
        self.change(service);
    }

    pub(super) fn set_level(&mut self, service: u16, now: Instant, level: u16) {
        self.advance(service, now);
        self.containers[usize::from(service)].level = level.min(self.levels() - 1);
        self.tune(service);
    }

    /// The frequency is at the top until `end`, whatever the policy sets.
    pub(super) fn boost(&mut self, service: u16, now: Instant, end: Instant) {
        self.advance(service, now);
        self.containers[usize::from(service)].boosted_until = Some(end);
        self.tune(service);
    }

    /// Ends a boost, unless it was prolonged.
    pub(super) fn end_boost(&mut self, service: u16, now: Instant) {
        self.advance(service, now);
        let boost = &mut self.containers[usize::from(service)].boosted_until;
        *boost = boost.filter(|until| *until > now);
        self.tune(service);
    }

    /// The level at which a container runs.
    pub(super) fn level(&self, service: u16) -> u16 {
        let container = &self.containers[usize::from(service)];
        if container.boosted_until.is_some() { self.levels() - 1 } else { container.level }
    }

    fn tune(&mut self, service: u16) {
        let speed = self.ladder[usize::from(self.level(service))].speed;
        self.containers[usize::from(service)].cpu.set_speed(speed);
        self.change(service);
    }

    /// Lets all containers go on to `now`.
    pub(super) fn advance_all(&mut self, now: Instant) {
        (0..self.containers.len() as u16).for_each(|service| self.advance(service, now));
    }

    /// Puts the next end of work of each container that has changed into the events.
    pub(super) fn announce(&mut self, events: &mut Queue<Event>) {
        while let Some(service) = self.changed.pop() {
            let container = &mut self.containers[usize::from(service)];
            container.has_changed = false;
            container.cpu.epoch = container.cpu.epoch.wrapping_add(1);
            if let Some(at) = container.cpu.next_end() {
                let epoch = container.cpu.epoch;
                events.push(at, Event::Cpu { container: service, epoch });
            }
        }
    }

    /// Units that the containers of a node have.
    pub(super) fn units_of(&self, node: u16) -> u32 {
        let of_node = self.containers.iter().filter(|container| container.node == node);
        of_node.map(|container| container.cpu.units()).sum()
    }

    /// Time that the units of a container were at work.
    pub(super) fn cpu_time(&mut self, service: u16, now: Instant) -> Duration {
        self.advance(service, now);
        let used = self.containers[usize::from(service)].cpu.used();
        Duration::from_nanos(used.busy as u64)
    }

    /// Units that all containers have.
    pub(super) fn units(&self) -> u32 {
        self.containers.iter().map(|container| container.cpu.units()).sum()
    }

    fn advance(&mut self, service: u16, now: Instant) {
        let power = self.ladder[usize::from(self.level(service))].power;
        self.containers[usize::from(service)].cpu.advance(now, power);
    }

    fn change(&mut self, service: u16) {
        let container = &mut self.containers[usize::from(service)];
        if !container.has_changed {
            container.has_changed = true;
            self.changed.push(service);
        }
    }
}

fn ladder(config: &Config) -> Vec<Rung> {
    let frequency = &config.frequency;
    let steps = ((frequency.top - frequency.base) / frequency.step).round() as u16;
    let rung = |step: u16| {
        let clock = (frequency.base + f64::from(step) * frequency.step) / frequency.base;
        let speed = 1.0 / (frequency.part / clock + 1.0 - frequency.part);
        Rung { speed, power: clock.powf(frequency.power_exponent) }
    };
    (0..=steps).map(rung).collect()
}

fn depth(graph: &Graph, name: &str) -> u16 {
    u16::try_from(graph.depth(name)).unwrap_or(u16::MAX)
}

/// Where services of these names stand.
fn indices(graph: &Graph, names: &[&str]) -> Vec<u16> {
    let all = graph.services.iter().enumerate();
    let named = all.filter(|(_, service)| names.contains(&&*service.name));
    named.map(|(index, _)| index as u16).collect()
}
