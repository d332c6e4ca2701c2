//! `CaladanAlgo`: cores by queueing, one at a time (Caladan, OSDI '20, as the SurgeGuard paper
//! has it for comparison).
//!
//! Without Caladan's own network stack its queues cannot be seen, so that the paper takes
//! `queueBuildup` for its signal (SurgeGuard §V). A container whose requests wait more gets a unit,
//! and one whose requests do not gives one up. It changes no frequency.
//!
//! Deviation: three defects of the artifact are mended. It normalises the ratio by a time, so that
//! most containers always yield and the first one always grows; here it is the ratio at low load.
//! Its test for idle threads never finds one; here what nobody has is free. Its time stamps are
//! never set, so that its rules for the least recently used are dead; here, when units are short,
//! the container that has waited longest for one is served first. Which hyperthread of which core a
//! container gets is up to those who carry a decision out, and so are the rules about siblings.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::Reason;
use super::intake::{Measured, check_duration};
use super::ledger::Ledger;
use super::roster::Roster;
use super::scaler::Policy;
use crate::config::{ConfigError, duration};
use crate::time::Instant;

/// Parameters of `CaladanAlgo`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// From one decision to the next. Default 100ms, as in the artifact. 1us to 1m. With its own
    /// network stack, Caladan decides every 5 to 20 us.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// The queue buildup with which the present one is compared, as a multiple of that at low load.
    /// Default 1.45, as in the artifact. 1 to 100.
    pub target: f64,
    /// A container gets a unit if it is more than so many times that. Default 1.04. 0.1 to 100.
    pub threshold: f64,
    /// And gives one up if it is less than so many times that. Default 0.98. 0.01 to `threshold`.
    pub ok: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { interval: Duration::from_millis(100), target: 1.45, threshold: 1.04, ok: 0.98 }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let (us, minute) = (Duration::from_micros(1), Duration::from_mins(1));
        check_duration("caladan.interval", self.interval, us, minute)?;
        ConfigError::check_range("caladan.target", self.target, 1.0..=100.0)?;
        ConfigError::check_range("caladan.threshold", self.threshold, 0.1..=100.0)?;
        ConfigError::check_range("caladan.ok", self.ok, 0.01..=self.threshold)
    }

    pub(super) fn policy(&self) -> Box<dyn Policy> {
        Box::new(Caladan { config: *self, states: Roster::default() })
    }
}

#[derive(Debug)]
struct Caladan {
    config: Config,
    states: Roster<State>,
}

/// When a container last got a unit.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    got: Instant,
}

impl Policy for Caladan {
    fn decide(&mut self, now: Instant, containers: &[Measured], ledger: &mut Ledger<'_>) {
        self.states.align(containers.iter().map(|container| container.id), |_| State::default());
        if containers.iter().all(|container| container.block.is_none()) {
            return;
        }
        let mut waiting: Vec<(usize, f64)> = Vec::new();
        for (at, container) in containers.iter().enumerate() {
            let Some(ratio) = container.queue_ratio() else { continue };
            let ratio = ratio / self.config.target;
            if ratio > self.config.threshold {
                waiting.push((at, ratio));
            } else if ratio < self.config.ok {
                ledger.take(at, 1, Reason::QueueGone(ratio));
            }
        }
        waiting.sort_by(|a, b| self.states[a.0].got.cmp(&self.states[b.0].got).then(a.0.cmp(&b.0)));
        for (at, ratio) in waiting {
            let is_met = ledger.give(at, 1, Reason::QueueBuildup(ratio)) > 0;
            if is_met {
                self.states[at].got = now;
            }
            ledger.nominate(at, 1, None, !is_met);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::super::Config;
    use super::super::fixture::World;

    const ENOUGH: u64 = 20;

    #[test]
    fn feeds_the_container_that_waits_and_not_the_one_behind_it() {
        let mut world = World::new(&Config::named("caladan").unwrap(), 12, &[3, 3]);
        world.snapshot.containers[1].floor = 3;
        for _ in 0..5 {
            world.serve(0, ENOUGH, 3_586, 3_532);
            world.serve(1, ENOUGH, 54, 0);
            world.step();
        }
        assert_eq!(world.units(), [8, 3]);
        // Once nothing waits, it yields down to its floor.
        for _ in 0..30 {
            world.serve(0, ENOUGH, 54, 0);
            world.step();
        }
        assert_eq!(world.units(), [1, 3]);
    }

    #[test]
    fn without_pools_it_sees_nothing() {
        let mut world = World::new(&Config::named("caladan").unwrap(), 12, &[3]);
        world.snapshot.containers[0].floor = 3;
        for _ in 0..10 {
            world.serve(0, ENOUGH, 90_000, 0);
            world.counters(0).in_flight = 100;
            world.step();
        }
        assert_eq!(world.units(), [3]);
    }

    #[test]
    fn when_units_are_short_those_that_waited_longest_are_served() {
        let mut world = World::new(&Config::named("caladan").unwrap(), 4, &[1, 1, 1]);
        let mut got = Vec::new();
        for _ in 0..3 {
            for at in 0..3 {
                world.serve(at, ENOUGH, 1_000, 900);
            }
            world.step();
            got.push(world.units());
            world.snapshot.node.units += 1;
        }
        assert_eq!(got, [[2, 1, 1], [2, 2, 1], [2, 2, 2]]);
    }
}
