//! What containers have now, and what others have changed of it.

use super::actuator::{ActuatorError, UNLIMITED};
use super::config::CpuActuator;
use super::containers::{Tracked, units};
use super::pass::{Agent, entry, save};
use super::settled;
use super::status::Status;

impl Agent {
    /// Reads what each container has, and notices what others have changed.
    pub(super) fn read_back(&mut self, time: f64) {
        let (mut gone, mut chosen) = (Vec::new(), Vec::new());
        let is_virtual = self.config.actuator.cpu == CpuActuator::Virtual;
        let contests_max = self.config.contests_max;
        for (key, tracked) in &mut self.containers {
            // A dry run goes on from what it would have done.
            if self.state.is_none() && tracked.is_ours {
                continue;
            }
            let unit = self.config.unit_milli;
            let (read, told) = settled::read(&mut *self.cpu, &mut self.status, tracked, unit);
            if let Some((change, told)) = told {
                self.entries.push(entry(time, tracked, change, "was asked for", &told));
            }
            match read {
                Ok(amount) if amount == tracked.amount => tracked.is_seen = true,
                // A page is its owner's to write. What it was given is what the agent last said,
                // and that is said again at the end of this pass: no service raises itself.
                Ok(amount) if is_virtual => {
                    tracked.is_seen = true;
                    self.status.foreign_changes += 1;
                    tracked.contests = tracked.contests.saturating_add(1);
                    // A service that goes on and on does not fill the log.
                    if tracked.contests <= contests_max {
                        let change = milli(amount, tracked.amount);
                        tracing::warn!(container = %tracked.name, %change, "changed by others");
                        let (why, result) = ("changed by others", "put back");
                        self.entries.push(entry(time, tracked, change, why, result));
                    }
                }
                // What is there now is another container, of which the next look finds out.
                Ok(_) if !tracked.is_same() => gone.push(key.clone()),
                Ok(amount) => {
                    tracked.is_seen = true;
                    let change = foreign(tracked, amount, self.config.unit_milli);
                    self.status.foreign_changes += 1;
                    tracing::warn!(container = %tracked.name, %change, "changed by others");
                    self.entries.push(entry(time, tracked, change, "changed by others", "noticed"));
                    // What others have chosen is the truth that is put back in the end.
                    let saved = save(&mut *self.cpu, self.frequency.as_deref_mut(), tracked);
                    chosen.extend(saved.ok().map(|saved| (key.clone(), saved)));
                }
                Err(error) if error.is_gone() => gone.push(key.clone()),
                Err(error) => {
                    tracked.is_seen = false;
                    trouble(&mut self.status, tracked, &error);
                }
            }
            if let Some(frequency) = &mut self.frequency
                && (frequency.name() != "virtual" || !tracked.is_level_known)
                && let Ok(level) = frequency.read(&tracked.target)
            {
                tracked.level = level as u16;
                tracked.is_level_known = true;
            }
        }
        // All at once: who reloads systemd changes every service, and a write waits for the disk.
        if let Some(state) = self.state.as_mut().filter(|_| !chosen.is_empty())
            && let Err(error) = state.save(chosen)
        {
            self.status.error("state");
            tracing::warn!(%error, "what others have chosen is not saved");
        }
        let is_lost = |tracked: &Tracked| {
            !is_virtual && (tracked.contests > contests_max || tracked.amount == UNLIMITED)
        };
        let lost = self.containers.iter().filter(|(_, tracked)| is_lost(tracked));
        let lost: Vec<String> = lost.map(|(key, _)| key.clone()).collect();
        for key in &lost {
            let Some(tracked) = self.containers.get(key) else { continue };
            self.status.left_alone += 1;
            tracing::warn!(container = %tracked.name, "others insist: it is left alone");
            self.entries.push(entry(time, tracked, String::new(), "others insist", "left alone"));
            self.strangers.insert(key.clone(), "others set its CPU".to_owned());
        }
        self.status.gone += gone.len() as u64;
        self.drop_containers(&gone);
        self.drop_containers(&lost);
    }

    pub(super) fn drop_containers(&mut self, keys: &[String]) {
        for key in keys {
            if let Some(tracked) = self.containers.remove(key) {
                self.cpu.forget(&tracked.target);
                if let Some(frequency) = &mut self.frequency {
                    frequency.forget(&tracked.target);
                }
                if let Some(response) = &self.response {
                    response.forget(&tracked.target);
                }
                if let (Some(pod), Some(state)) = (&tracked.pod, &mut self.state)
                    && let Err(error) = state.put_back(&pod.key)
                {
                    tracing::debug!(%error, "a pod's group is put back in the end");
                }
            }
        }
        if let Some(state) = &mut self.state
            && let Err(error) = state.forget(keys.iter().map(String::as_str))
        {
            self.status.error("state");
            tracing::warn!(%error, "containers that have gone stay in the saved state");
        }
    }
}

/// Takes what others have set for the truth.
fn foreign(tracked: &mut Tracked, amount: u32, unit: u32) -> String {
    let change = milli(tracked.amount, amount);
    tracked.contests += u32::from(tracked.is_ours);
    tracked.is_ours = false;
    tracked.amount = amount;
    tracked.units = units(amount, unit);
    change
}

/// A change, for the log.
pub(super) fn milli(from: u32, to: u32) -> String {
    let amount = |milli: u32| match milli {
        UNLIMITED => "unlimited".to_owned(),
        milli => milli.to_string(),
    };
    format!("milli {} -> {}", amount(from), amount(to))
}

/// Something is wrong with a container: told when it changes, counted each time.
pub(super) fn trouble(status: &mut Status, tracked: &mut Tracked, error: &ActuatorError) {
    status.error(match error {
        ActuatorError::Denied { .. } => "denied",
        ActuatorError::Refused { .. } => "refused",
        ActuatorError::Missing { .. } => "missing",
        ActuatorError::Garbled { .. } => "garbled",
        ActuatorError::Remote(_) => "remote",
        ActuatorError::Pending(_) => "pending",
        ActuatorError::Api { kind, .. } => kind,
        ActuatorError::Bound { .. } => "bound",
        ActuatorError::Gone => "gone",
    });
    let text = error.to_string();
    if tracked.told.as_ref() != Some(&text) {
        tracing::warn!(container = %tracked.name, error = %text, "cannot act on a container");
        tracked.told = Some(text);
    }
}
