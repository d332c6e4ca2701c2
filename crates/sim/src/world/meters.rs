//! What is read of a server from time to time, and told to its semaphore and its controller.

use std::collections::BTreeMap;
use std::time::Duration;

use seawall_control::controller::Signal;
use seawall_control::{Instant, Rng, random};
use seawall_measure::Window;

use super::level::{Level, overlap};
use super::memory::Memory;
use super::{Event, World};
use crate::scenario::{Power, Scenario};

/// How often a server that nobody asks for its memory or its power is asked how busy it is.
const CPU_INTERVAL: Duration = Duration::from_millis(10);

/// The bandwidth that is used, the power, and the CPU.
#[derive(Debug)]
pub(super) struct Meters {
    pub(super) interval: Duration,
    /// The controller is told how busy the cores are.
    tells_cpu: bool,
    cores: u32,
    /// Standard deviation of the bandwidth's reading, in bytes per second.
    noise: f64,
    rng: Rng,
    power: Option<Power>,
    busy_cores: Level,
    /// How many the semaphore lets in.
    capacity: Level,
    /// What it lets in now, and since when; how long it let in how many, in the measured time.
    current: (u32, Instant),
    times: BTreeMap<u32, Duration>,
    window: Window,
    /// Since when it lets that many in, if somebody wants to know.
    capacities: Option<Vec<(Instant, u32)>>,
}

impl Meters {
    /// The meters of a server, if anything is to be read.
    pub(super) fn new(scenario: &Scenario, tells_cpu: bool, seed: u64) -> Option<Self> {
        let server = &scenario.server;
        let window = scenario.window();
        let others = scenario.workload.draws_memory() || server.power.is_some();
        (others || tells_cpu).then(|| Self {
            interval: if others { server.memory.bandit.interval } else { CPU_INTERVAL },
            tells_cpu,
            cores: server.cores,
            noise: server.memory.noise.bytes() as f64,
            rng: Rng::new(random::mix(!seed)),
            power: server.power.clone(),
            busy_cores: Level::new(0, window),
            capacity: Level::new(0, window),
            current: (0, Instant::ORIGIN),
            times: BTreeMap::new(),
            window,
            capacities: scenario.run.bin.map(|_| Vec::new()),
        })
    }

    pub(super) fn on_busy_cores(&mut self, now: Instant, busy: u64) {
        self.busy_cores.set(now, busy);
    }

    pub(super) fn on_capacity(&mut self, now: Instant, capacity: u32) {
        self.capacity.set(now, u64::from(capacity));
        if self.current.0 != capacity {
            let (before, since) = std::mem::replace(&mut self.current, (capacity, now));
            *self.times.entry(before).or_default() += overlap(&self.window, since, now);
        }
        if let Some(capacities) = &mut self.capacities
            && capacities.last().is_none_or(|(_, last)| *last != capacity)
        {
            capacities.push((now, capacity));
        }
    }

    /// The server's mean power over the measured time, in watts.
    pub(super) fn power(&self) -> Option<f64> {
        let power = self.power.as_ref()?;
        Some(power.idle + power.core * self.busy_cores.mean())
    }

    /// The semaphore's mean capacity over the measured time.
    pub(super) fn capacity(&self) -> f64 {
        self.capacity.mean()
    }

    /// The capacity that it had for longest in the measured time, which is over, and for which part
    /// of that; of several the smallest.
    pub(super) fn mode(&self) -> (u32, f64) {
        let mut times = self.times.clone();
        let (capacity, since) = self.current;
        *times.entry(capacity).or_default() += overlap(&self.window, since, self.window.end);
        let longer = |a: (u32, Duration), b: (u32, Duration)| if b.1 > a.1 { b } else { a };
        let (mode, time) = times.into_iter().fold((capacity, Duration::ZERO), longer);
        (mode, time.as_secs_f64() / self.window.length().as_secs_f64())
    }

    /// The same in each whole bin of the run.
    pub(super) fn capacity_bins(&self, bin: Duration, length: Duration) -> Vec<f64> {
        let changes = self.capacities.as_deref().unwrap_or_default();
        let bins = length.as_nanos() / bin.as_nanos();
        let mut next = 0;
        let mut level =
            Level::new(0, Window::after_warm_up(Instant::ORIGIN, Duration::ZERO, length));
        let mean = |index| {
            let end = Instant::ORIGIN + bin * (index as u32 + 1);
            while let Some(&(at, capacity)) = changes.get(next).filter(|(at, _)| *at < end) {
                level.set(at, u64::from(capacity));
                next += 1;
            }
            level.read(end)
        };
        (0..bins).map(mean).collect()
    }
}

impl World<'_> {
    /// The meters of a server are read, and its semaphore and its controller are told.
    pub(super) fn read_meters(&mut self, index: u16) {
        let now = self.now;
        let server = &mut self.servers[usize::from(index)];
        let Some(meters) = &mut server.meters else { return };
        if now < self.window.end {
            self.events.push(now + meters.interval, Event::Meters { server: index });
        }
        if let Some(memory) = &mut server.memory {
            let noise = if meters.noise > 0.0 { meters.noise * meters.rng.normal() } else { 0.0 };
            let bytes_per_second = (memory.read(now) + noise).max(0.0);
            if let Some(semaphore) = &mut server.semaphore {
                semaphore.on_interval(bytes_per_second);
                meters.on_capacity(now, semaphore.capacity());
            }
            server.controller.on_signal(now, Signal::Bandwidth { bytes_per_second });
        }
        let busy_cores = meters.busy_cores.read(now);
        if let Some(power) = &meters.power {
            let watts = power.idle + power.core * busy_cores;
            server.controller.on_signal(now, Signal::Power { watts });
        }
        if meters.tells_cpu {
            let utilization = busy_cores / f64::from(meters.cores);
            server.controller.on_signal(now, Signal::Cpu { utilization });
        }
        self.let_in(index);
        self.dispatch(index);
    }

    /// What the memories, their semaphores and the meters of all servers tell of the whole run.
    pub(super) fn memory_use(&self) -> MemoryUse {
        let servers = self.servers.len() as f64;
        let run = &self.scenario.run;
        let meters = || self.servers.iter().filter_map(|server| server.meters.as_deref());
        let bandwidths = self.servers.iter().filter_map(|server| server.memory.as_deref());
        let powers = meters().filter_map(Meters::power);
        let guarded = self.servers.iter().any(|server| server.semaphore.is_some());
        MemoryUse {
            bandwidth: sum(bandwidths.map(Memory::mean)),
            power: sum(powers),
            capacity: sum(meters().filter(|_| guarded).map(Meters::capacity))
                .map(|sum| sum / servers),
            mode: meters().next().filter(|_| guarded).map(Meters::mode),
            capacities: match (run.bin, self.servers.first()) {
                (Some(bin), Some(server)) if guarded => {
                    let bins = |meters: &Meters| meters.capacity_bins(bin, run.length());
                    server.meters.as_deref().map(bins).unwrap_or_default()
                }
                _ => Vec::new(),
            },
        }
    }
}

/// What a run used of the memory, and of power.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// Bytes per second that all servers drew together in the measured time; `None` when no step
    /// says what it draws.
    pub bandwidth: Option<f64>,
    /// How many a memory semaphore let in at once, on average over the measured time and all
    /// servers; `None` without one.
    pub capacity: Option<f64>,
    /// How many that of the first server let in for most of that time, and for which part of it.
    pub mode: Option<(u32, f64)>,
    /// The mean of the first server in each bin of the time series, from the start of the run.
    pub capacities: Vec<f64>,
    /// Watts of all servers together, on average over the measured time; `None` unless the
    /// scenario says what a server takes.
    pub power: Option<f64>,
}

fn sum(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(|sum, value| sum + value)
}
