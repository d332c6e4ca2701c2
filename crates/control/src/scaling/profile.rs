//! What requests take at low load, learned while containers run (SurgeGuard §IV).
//!
//! The paper profiles an application at low load before it is used, and expects twice what it
//! measures then. Here the profile is taken online, where nobody gives expected times. *Low load*
//! is a window of [`Config::window`] in which
//!
//! - the container had its base frequency,
//! - no request was shed, and none brought an upscale hint,
//! - at most [`Config::utilisation`] of its units were used, if its CPU time is known.
//!
//! The container's profile is the first quartile of the means of its last 64 such windows, and it
//! only falls: the lowest that was seen counts. Where the CPU time is not known, this alone tells
//! low load from high. A quartile rather than the minimum, because the minimum of many noisy means
//! lies far below all of them. A container that begins anew, as a new version does, is profiled
//! anew; its old profile serves until there is a new one.

use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::intake::{Measured, check_duration};
use super::memory::Remembered;
use super::roster::Roster;
use super::{ContainerId, Expected};
use crate::config::{ConfigError, duration};
use crate::time::{Instant, nanos};

/// Windows that a profile remembers.
const WINDOWS: usize = 64;

/// Windows without which there is no profile.
const WINDOWS_MIN: usize = 4;

/// How expected times are learned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Expected times are so many times those at low load. Default 2 (SurgeGuard §IV). 1 to 10.
    pub factor: f64,
    /// A window of the profile lasts at least so long. Default 1s. 1ms to 1h.
    #[serde(with = "duration")]
    pub window: Duration,
    /// And has at least so many requests. Default 100, so that the mean of exponential times is
    /// known to a tenth. 1 to 1,000,000.
    pub samples_min: u64,
    /// The load is low if at most this share of the container's units is used. Default 0.5. Above
    /// 0, to 1.
    pub utilisation: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { factor: 2.0, window: Duration::from_secs(1), samples_min: 100, utilisation: 0.5 }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let (ms, hour) = (Duration::from_millis(1), Duration::from_hours(1));
        ConfigError::check_range("profile.factor", self.factor, 1.0..=10.0)?;
        check_duration("profile.window", self.window, ms, hour)?;
        ConfigError::check_range("profile.samples_min", self.samples_min, 1..=1_000_000)?;
        ConfigError::check_range("profile.utilisation", self.utilisation, 0.001..=1.0)
    }
}

/// Ratios at low load, with which later ones are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Baseline {
    /// `queueBuildup`. 1 until it is known: a pool that is large enough.
    pub(super) queue_buildup: f64,
    /// The unexplained delay of each service before this one, nanoseconds.
    pub(super) residual: Option<f64>,
    /// From the start of the job, nanoseconds.
    pub(super) time_from_start: Option<f64>,
}

impl Default for Baseline {
    fn default() -> Self {
        Self { queue_buildup: 1.0, residual: None, time_from_start: None }
    }
}

/// Quantities of a profile, in the order of the arrays below.
const EXEC: usize = 0;
const QUEUE_BUILDUP: usize = 1;
const TIME_FROM_START: usize = 2;
const RESIDUAL: usize = 3;
const QUANTITIES: usize = 4;

/// One container's.
#[derive(Clone, Debug, Default)]
struct Profile {
    window: Option<Window>,
    /// Means of windows at low load, the latest [`WINDOWS`] of them.
    seen: [Vec<f64>; QUANTITIES],
    /// The window that is overwritten next.
    next: usize,
    learned: [Option<f64>; QUANTITIES],
    /// The next value replaces what is learned, also if it is higher.
    is_anew: bool,
}

/// The window that is being measured.
#[derive(Clone, Copy, Debug)]
struct Window {
    began: Instant,
    requests: u64,
    /// Sums over requests; `None` where some did not say.
    sums: [Option<f64>; QUANTITIES],
    /// Unit-nanoseconds that were used, and could have been.
    used: f64,
    usable: f64,
    is_low: bool,
}

impl Window {
    fn new(began: Instant) -> Self {
        let sums = [Some(0.0); QUANTITIES];
        Self { began, requests: 0, sums, used: 0.0, usable: 0.0, is_low: true }
    }
}

/// The profiles of all containers.
#[derive(Clone, Debug)]
pub(super) struct Profiles {
    config: Config,
    profiles: Roster<Profile>,
}

impl Profiles {
    pub(super) fn new(config: Config) -> Self {
        Self { config, profiles: Roster::default() }
    }

    /// Learns from what was measured, and says there what is expected.
    pub(super) fn observe(&mut self, now: Instant, level_base: u16, containers: &mut [Measured]) {
        let ids = containers.iter().map(|container| container.id);
        self.profiles.align(ids, |_| Profile::default());
        for (at, container) in containers.iter_mut().enumerate() {
            let profile = &mut self.profiles[at];
            profile.observe(now, &self.config, level_base, container);
            let learned = profile.expected(self.config.factor);
            let given = &mut container.expected;
            given.exec = given.exec.or(learned.exec);
            given.time_from_start = given.time_from_start.or(learned.time_from_start);
            container.baseline = profile.baseline();
        }
    }

    pub(super) fn knows(&self, id: ContainerId) -> bool {
        self.profiles.find(id).is_some()
    }

    /// What was learned of a container that the next observation is about.
    pub(super) fn recall(&mut self, entry: &Remembered) {
        let mut profile = Profile::default();
        profile.learned[EXEC] = entry.exec_ns;
        profile.learned[QUEUE_BUILDUP] = entry.queue_buildup;
        profile.learned[TIME_FROM_START] = entry.time_from_start_ns;
        profile.learned[RESIDUAL] = entry.residual_ns;
        self.profiles.insert(ContainerId(entry.id), profile);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Remembered> + '_ {
        self.profiles.iter().map(|(id, profile)| Remembered {
            id: id.0,
            exec_ns: profile.learned[EXEC],
            time_from_start_ns: profile.learned[TIME_FROM_START],
            queue_buildup: profile.learned[QUEUE_BUILDUP],
            residual_ns: profile.learned[RESIDUAL],
            exec_avg: Vec::new(),
        })
    }

    pub(super) fn find(&self, id: ContainerId) -> Option<Expected> {
        let expected = self.profiles.find(id)?.expected(self.config.factor);
        (expected != Expected::default()).then_some(expected)
    }
}

impl Profile {
    fn observe(&mut self, now: Instant, config: &Config, level_base: u16, container: &Measured) {
        if container.is_restarted {
            let learned = self.learned;
            *self = Self { learned, is_anew: true, ..Self::default() };
        }
        let mut window = self.window.take().unwrap_or_else(|| Window::new(now));
        window.is_low &=
            container.level == level_base && !container.is_hinted && !container.is_shedding;
        if let Some(used) = container.used {
            let span = nanos(used.span) as f64;
            window.used += used.units * span;
            window.usable += f64::from(container.units) * span;
        }
        if let Some(block) = &container.block {
            let means = &block.means;
            let values = [
                Some(means.exec_metric),
                Some(means.queue_buildup()),
                means.time_from_start,
                means.residual,
            ];
            for (sum, value) in window.sums.iter_mut().zip(values) {
                *sum = sum.zip(value).map(|(sum, value)| sum + value * block.requests as f64);
            }
            window.requests = window.requests.saturating_add(block.requests);
        }
        let is_full =
            now.since(window.began) >= config.window && window.requests >= config.samples_min;
        if !is_full {
            self.window = Some(window);
            return;
        }
        if window.is_low && window.used <= config.utilisation * window.usable {
            self.learn(&window);
        }
    }

    fn learn(&mut self, window: &Window) {
        for (quantity, sum) in window.sums.iter().enumerate() {
            let Some(sum) = sum else { continue };
            let mean = sum / window.requests as f64;
            let seen = &mut self.seen[quantity];
            if seen.len() < WINDOWS {
                seen.push(mean);
            } else {
                seen[self.next] = mean;
            }
            if seen.len() < WINDOWS_MIN {
                continue;
            }
            let quartile = first_quartile(seen);
            let learned = &mut self.learned[quantity];
            *learned = Some(match *learned {
                Some(lowest) if !self.is_anew => lowest.min(quartile),
                _ => quartile,
            });
        }
        self.next = (self.next + 1) % WINDOWS;
        self.is_anew &= self.seen[EXEC].len() < WINDOWS_MIN;
    }

    fn expected(&self, factor: f64) -> Expected {
        // A cast saturates.
        let times = |quantity: usize| {
            self.learned[quantity].map(|mean| Duration::from_nanos((mean * factor) as u64))
        };
        Expected { exec: times(EXEC), time_from_start: times(TIME_FROM_START) }
    }

    fn baseline(&self) -> Baseline {
        Baseline {
            queue_buildup: self.learned[QUEUE_BUILDUP].unwrap_or(1.0).max(1.0),
            residual: self.learned[RESIDUAL],
            time_from_start: self.learned[TIME_FROM_START],
        }
    }
}

fn first_quartile(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let at = values.len() / 4;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::fixture::World;
    use super::super::{Config, ContainerId, Expected};

    /// A world whose containers are profiled.
    fn world() -> World {
        let mut world = World::new(&Config::named("static").unwrap(), 8, &[2]);
        world.snapshot.containers[0].expected = Expected::default();
        world
    }

    /// So many seconds of 1000 requests each, with this execution and this share of the CPU.
    fn seconds(world: &mut World, seconds: u32, exec_us: u64, cpus: Option<f64>) {
        for _ in 0..seconds * 100 {
            world.serve(0, 10, exec_us, exec_us / 5);
            world.counters(0).in_flight = 10_000;
            if let Some(cpus) = cpus {
                let time = &mut world.snapshot.containers[0].cpu_time;
                let used = Duration::from_millis(10).mul_f64(cpus);
                *time = Some(time.unwrap_or_default() + used);
            }
            world.step();
        }
    }

    fn exec_us(world: &World) -> Option<u128> {
        Some(world.scaler.profiled(ContainerId(0))?.exec?.as_micros())
    }

    #[test]
    fn expects_twice_what_low_load_takes() {
        let mut world = world();
        seconds(&mut world, 3, 1_000, Some(0.5));
        assert_eq!(exec_us(&world), None, "three windows are too few");
        seconds(&mut world, 3, 1_000, Some(0.5));
        assert_eq!(exec_us(&world), Some(1_600), "1000 us, without 200 us of waits, twice");
        // High load does not count, and what is slower at low load does not either.
        seconds(&mut world, 10, 300, Some(1.9));
        seconds(&mut world, 10, 3_000, Some(0.5));
        assert_eq!(exec_us(&world), Some(1_600));
        // What is faster does, once it is more than a quarter of the windows.
        seconds(&mut world, 10, 500, Some(0.5));
        assert_eq!(exec_us(&world), Some(800));
    }

    #[test]
    fn without_cpu_time_the_lowest_counts() {
        let mut world = world();
        seconds(&mut world, 6, 9_000, None);
        assert_eq!(exec_us(&world), Some(14_400));
        seconds(&mut world, 6, 1_000, None);
        assert_eq!(exec_us(&world), Some(1_600));
        seconds(&mut world, 60, 9_000, None);
        assert_eq!(exec_us(&world), Some(1_600));
    }

    #[test]
    fn hints_shed_requests_and_boosts_are_no_low_load() {
        for spoil in [
            |world: &mut World| world.counters(0).hinted += 1,
            |world: &mut World| world.counters(0).shed += 1,
            |world: &mut World| world.snapshot.containers[0].level = 1,
        ] {
            let mut world = world();
            world.snapshot.node.levels = 3;
            for _ in 0..12 {
                spoil(&mut world);
                seconds(&mut world, 1, 1_000, None);
            }
            assert_eq!(exec_us(&world), None);
        }
    }

    #[test]
    fn a_new_version_is_profiled_anew() {
        let mut world = world();
        seconds(&mut world, 6, 1_000, None);
        *world.counters(0) = super::super::Counters::default();
        world.step();
        seconds(&mut world, 2, 2_000, None);
        assert_eq!(exec_us(&world), Some(1_600), "the old profile serves");
        seconds(&mut world, 4, 2_000, None);
        assert_eq!(exec_us(&world), Some(3_200));
    }
}
