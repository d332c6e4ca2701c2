//! Groups of pods that have one container: what the container may get, the pod has to have.
//!
//! A kubelet gives a pod's group the sum of its containers' limits. Where that is one container,
//! the group around it has what the container had at first, and would keep it there. It is raised
//! to what the container may get at most, as far as the groups around the pod let it; the
//! container's own quota binds after that. Both are put back in the end.
//!
//! Of a pod with several containers each could take what was raised for another: there the pod's
//! group binds, and the containers' limits are lowered to that.

use std::fs;
use std::path::Path;

use super::actuator::{Actuator, ActuatorError, Saved, Target, UNLIMITED};
use super::containers::{Limits, Tracked};
use super::look::{milli, trouble};
use super::pass::{Agent, entry};

/// A pod's group that is to be raised.
#[derive(Debug)]
pub(super) struct Raise {
    /// Where its state is kept.
    pub(super) key: String,
    target: Target,
    from: u32,
    to: u32,
    /// How it is now.
    pub(super) saved: Saved,
}

impl Raise {
    /// None if the pod's group need not be raised, or must not. `group` is the container's.
    pub(super) fn find(
        cpu: &mut dyn Actuator,
        container: &Target,
        group: &str,
        limits: Limits,
        unit: u32,
    ) -> Result<Option<Self>, ActuatorError> {
        let Some(folder) = container.cpu.as_ref().and_then(|folder| folder.parent()) else {
            return Ok(None);
        };
        let name = format!("the pod of {}", container.name);
        let target = Target { name, cpu: Some(folder.to_owned()), ..Target::default() };
        let from = cpu.read(&target)?;
        // Groups around the pod are shared with other pods: what these have is the most.
        let around = cpu.ceiling(&target).map_or(UNLIMITED, |(most, _)| most);
        let to = limits.limit.saturating_mul(unit).min(around);
        if from >= to || !is_alone(cpu, folder) {
            return Ok(None);
        }
        let pod = group.rsplit_once('/').map_or(group, |(pod, _)| pod);
        let saved = cpu.save(&target)?;
        // After its container in the order of keys: version 1 takes no less for a group than what
        // one inside of it has.
        Ok(Some(Self { key: format!("pod:{pod}"), target, from, to, saved }))
    }
}

/// A pod's group that was raised.
#[derive(Debug)]
pub(super) struct Raised {
    /// Where its state is kept.
    pub(super) key: String,
    target: Target,
    /// What it was given.
    has: u32,
}

impl Raised {
    /// Raises it further, when the groups around the pod have got more, and nobody else has set it.
    pub(super) fn follow(&mut self, cpu: &mut dyn Actuator, most: u32) {
        let to = cpu.ceiling(&self.target).map_or(most, |(around, _)| around.min(most));
        if to <= self.has || !matches!(cpu.read(&self.target), Ok(has) if has == self.has) {
            return;
        }
        let applied = cpu.apply(&self.target, to).and_then(|()| cpu.read(&self.target));
        match applied {
            Ok(has) => self.has = has,
            Err(error) => tracing::debug!(%error, "{} is not raised further", self.target.name),
        }
    }
}

/// Whether one group in this folder has a bound. The group of a pod's sandbox has none.
fn is_alone(cpu: &mut dyn Actuator, pod: &Path) -> bool {
    let Ok(entries) = fs::read_dir(pod) else { return false };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|is| is.is_dir()));
    let bounded = folders.filter(|entry| {
        let target = Target { cpu: Some(entry.path()), ..Target::default() };
        // What cannot be read may have one.
        !matches!(cpu.read(&target), Ok(UNLIMITED) | Err(ActuatorError::Gone))
    });
    bounded.take(2).count() == 1
}

impl Agent {
    /// Raises the group, which has been saved.
    pub(super) fn raise_pod(&mut self, tracked: &mut Tracked, raise: Raise, time: f64) {
        let Raise { key, target, from, to, .. } = raise;
        let change = format!("pod {}", milli(from, to));
        let applied = self.cpu.apply(&target, to);
        let result = applied.as_ref().map_or_else(ToString::to_string, |()| "applied".to_owned());
        tracing::info!(container = %tracked.name, %change, %result, "its pod");
        self.entries.push(entry(time, tracked, change, "its only container", &result));
        if let Err(error) = applied {
            trouble(&mut self.status, tracked, &error);
        }
        // What stands there is what counts: quotas are whole microseconds.
        let has = self.cpu.read(&target).unwrap_or(from);
        tracked.pod = Some(Raised { key, target, has });
    }
}
