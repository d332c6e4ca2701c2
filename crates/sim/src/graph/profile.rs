//! What a graph takes at low load, from which expected times and the SLO follow.

use std::time::Duration;

use seawall_control::config::ConfigError;
use seawall_control::scaling::{self, Expected};
use seawall_measure::{Load, Process, Schedule};

use super::World;
use crate::scenario::{Scenario, Timing};

/// Expected times are so many times those at low load (SurgeGuard §IV).
const FACTOR: u32 = 2;

/// The profile is taken once for all seeds: it belongs to the scenario.
const SEED: u64 = 1;

/// Means at low load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// From when a job is due until its reply is back.
    pub latency: Duration,
    /// Of each service, in the graph's order.
    services: Vec<Times>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    exec: Option<Duration>,
    time_from_start: Option<Duration>,
}

impl Profile {
    /// Profiles the graph of a scenario: nobody moves anything, and there are no surges.
    ///
    /// # Errors
    ///
    /// When the scenario makes no sense.
    pub fn of(scenario: &Scenario) -> Result<Self, ConfigError> {
        let mut low = scenario.clone();
        let Some(config) = &mut low.graph else { return Ok(Self::default()) };
        let rate = config.capacity()? * config.profile_load;
        let time = Duration::from_secs_f64(f64::from(config.profile_jobs) / rate);
        (config.ideal, config.responder, config.slowdown) = (None, None, None);
        low.scaling = scaling::Config::named("static")?;
        low.workload.load = Schedule::constant(Load::PerSecond(rate));
        low.workload.arrivals = Process::Poisson;
        low.run = Timing { warm_up: Duration::ZERO, time, bin: None };
        low.slo = Some(time);
        let mut world = World::with_profile(&low, SEED, &Self::default())?;
        let last = world.window.end + time;
        let lived = world.live(last);
        lived.map_err(|bug| ConfigError::new("graph", format!("a bug: {bug}")))?;
        let services = world.machine.containers.iter().map(|container| {
            let counters = container.counters;
            let mean = |sum: u64| {
                let mean = sum.checked_div(counters.requests)?;
                (mean > 0).then_some(Duration::from_nanos(mean))
            };
            Times {
                exec: mean(counters.exec_ns - counters.pool_wait_ns),
                time_from_start: mean(counters.time_from_start_ns),
            }
        });
        Ok(Self { latency: world.meters.mean_latency(), services: services.collect() })
    }

    /// What is expected of a service.
    pub(super) fn expected(&self, service: usize) -> Expected {
        let times = self.services.get(service).copied().unwrap_or_default();
        Expected {
            exec: times.exec.map(|exec| exec * FACTOR),
            time_from_start: times.time_from_start.map(|time| time * FACTOR),
        }
    }
}
