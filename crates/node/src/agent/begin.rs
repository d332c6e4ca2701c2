//! What the agent needs before it can begin.

use thiserror::Error;

use super::actuator::kubernetes::CannotResize;
use super::actuator::{Actuator, ActuatorError, Cpuset, Kubernetes, NoLadder, Quota, VirtualCpu};
use super::config::{Config, CpuActuator};
use super::hierarchy::{Hierarchies, NoHierarchy};
use super::state::StateError;

/// Why the agent cannot begin.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CannotBegin {
    /// There are no control groups.
    #[error(transparent)]
    Hierarchy(#[from] NoHierarchy),
    /// There is no cpuset controller.
    #[error("actuator.cpu = \"cpuset\" needs the cpuset controller, which is not there")]
    NoCpuset,
    /// Frequencies cannot be set.
    #[error(transparent)]
    Frequency(#[from] NoLadder),
    /// Pods cannot be resized.
    #[error(transparent)]
    Kubernetes(#[from] CannotResize),
    /// What the machine has cannot be saved.
    #[error("cannot save what the machine has: {0}")]
    Machine(#[from] ActuatorError),
    /// Nobody sees late requests.
    #[error(transparent)]
    Unwatched(#[from] super::responder::Unwatched),
    /// The folder of the state.
    #[error(transparent)]
    State(#[from] StateError),
}

/// What the configuration says that gives CPU.
pub(super) fn cpu_actuator(
    config: &Config,
    hierarchies: Option<&Hierarchies>,
) -> Result<Box<dyn Actuator>, CannotBegin> {
    match (config.actuator.cpu, hierarchies) {
        (CpuActuator::Quota, Some(found)) => {
            let (period, burst) = (config.actuator.period, config.actuator.burst);
            Ok(Box::new(Quota::new(&found.cpu, period, burst)))
        }
        (CpuActuator::Kubernetes, Some(found)) => {
            let quota = Quota::new(&found.cpu, None, 0.0);
            let settings = &config.actuator.kubernetes;
            Ok(Box::new(Kubernetes::open(settings, quota, &config.root)?))
        }
        (CpuActuator::Cpuset, Some(found)) if found.cpuset.is_some() => Ok(Box::new(Cpuset::new())),
        (CpuActuator::Cpuset, _) => Err(CannotBegin::NoCpuset),
        (CpuActuator::Virtual | CpuActuator::Quota | CpuActuator::Kubernetes, _) => {
            Ok(Box::new(VirtualCpu::new()))
        }
    }
}

/// Units of the machine.
pub(super) fn units_total(config: &Config) -> u32 {
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from) as u32;
    config.units.unwrap_or_else(|| (cpus() * 1_000 / config.unit_milli).max(1))
}
