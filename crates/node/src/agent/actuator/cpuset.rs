//! Whole CPUs of a container's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::files::{self, list_cpus, parse_cpus};
use super::{Actuator, ActuatorError, Saved, Target, UNLIMITED, Write};

/// Thousandths of a CPU that a CPU has.
const CPU_MILLI: u32 = 1_000;

/// Writes `cpuset.cpus`, the same file in versions 1 and 2.
///
/// A container keeps the CPUs that it has as long as it may. It is given those that the fewest
/// others have, so that containers which shared CPUs at first grow apart.
#[derive(Debug, Default)]
pub struct Cpuset {
    /// The CPUs of each group, as last read or written.
    owned: BTreeMap<PathBuf, Vec<u32>>,
}

impl Cpuset {
    /// For groups whose CPUs are not known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// CPUs that the group may have: those of the group around it.
    fn allowed(group: &Path) -> Result<Vec<u32>, ActuatorError> {
        let around = group.parent().unwrap_or(group);
        // Version 2 calls effective what version 1 calls so in other words.
        for name in ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"] {
            let path = around.join(name);
            if let Some(text) = files::read_if_there(&path)? {
                return parse_cpus(&path, &text);
            }
        }
        Err(ActuatorError::Missing {
            what: around.join("cpuset.cpus").display().to_string(),
            hint: "the cpuset controller is not enabled there",
        })
    }

    fn own(&mut self, group: &Path) -> Result<Vec<u32>, ActuatorError> {
        let path = group.join("cpuset.cpus");
        let cpus = parse_cpus(&path, &files::read(&path)?)?;
        self.owned.insert(group.to_owned(), cpus.clone());
        Ok(cpus)
    }

    /// How many others have this CPU.
    fn sharers(&self, group: &Path, cpu: u32) -> usize {
        let others = self.owned.iter().filter(|(other, _)| *other != group);
        others.filter(|(_, cpus)| cpus.contains(&cpu)).count()
    }

    fn choose(&self, group: &Path, own: &[u32], allowed: &[u32], count: usize) -> Vec<u32> {
        let mut kept: Vec<u32> = own.iter().copied().filter(|cpu| allowed.contains(cpu)).collect();
        // Of what it has, the least shared stay.
        kept.sort_by_key(|cpu| (self.sharers(group, *cpu), *cpu));
        kept.truncate(count);
        let mut more: Vec<u32> =
            allowed.iter().copied().filter(|cpu| !kept.contains(cpu)).collect();
        more.sort_by_key(|cpu| (self.sharers(group, *cpu), *cpu));
        kept.extend(more.into_iter().take(count - kept.len()));
        kept.sort_unstable();
        kept
    }
}

impl Actuator for Cpuset {
    fn name(&self) -> &'static str {
        "cpuset"
    }

    fn read(&mut self, target: &Target) -> Result<u32, ActuatorError> {
        let cpus = self.own(group_of(target)?)?;
        // In version 2, none of its own means all of its parent's.
        Ok(if cpus.is_empty() { UNLIMITED } else { cpus.len() as u32 * CPU_MILLI })
    }

    fn save(&mut self, target: &Target) -> Result<Saved, ActuatorError> {
        let path = group_of(target)?.join("cpuset.cpus");
        let text = files::read(&path)?;
        // The kernel takes an empty write for none at all; a line's end it takes for no CPUs.
        let text = if text.is_empty() { "\n".to_owned() } else { text };
        Ok(Saved::Files(vec![Write { path, text }]))
    }

    fn apply(&mut self, target: &Target, amount: u32) -> Result<(), ActuatorError> {
        let group = group_of(target)?;
        let (own, allowed) = (self.own(group)?, Self::allowed(group)?);
        let count = (amount / CPU_MILLI).max(1) as usize;
        if count > allowed.len() {
            let has = allowed.len() as u32 * CPU_MILLI;
            let around = group.parent().unwrap_or(group).to_owned();
            return Err(ActuatorError::Bound { wanted: amount, has, group: around });
        }
        let cpus = self.choose(group, &own, &allowed, count);
        files::write(&group.join("cpuset.cpus"), &list_cpus(&cpus))?;
        self.owned.insert(group.to_owned(), cpus);
        Ok(())
    }

    fn least(&mut self, _target: &Target) -> u32 {
        CPU_MILLI
    }

    fn ceiling(&mut self, target: &Target) -> Option<(u32, PathBuf)> {
        let group = target.cpuset.as_deref()?;
        let allowed = Self::allowed(group).ok()?;
        Some((allowed.len() as u32 * CPU_MILLI, group.parent()?.to_owned()))
    }

    fn forget(&mut self, target: &Target) {
        if let Some(group) = &target.cpuset {
            self.owned.remove(group);
        }
    }
}

fn group_of(target: &Target) -> Result<&Path, ActuatorError> {
    target.cpuset.as_deref().ok_or_else(|| ActuatorError::Missing {
        what: "a group of the cpuset controller".to_owned(),
        hint: "mount it, or use actuator.cpu = \"quota\"",
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn target(root: &Path, name: &str, cpus: &str) -> Target {
        let folder = root.join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cpuset.cpus"), cpus).unwrap();
        Target { name: name.to_owned(), cpuset: Some(folder), ..Target::default() }
    }

    fn holds(target: &Target) -> String {
        fs::read_to_string(target.cpuset.as_ref().unwrap().join("cpuset.cpus")).unwrap()
    }

    #[test]
    fn containers_keep_their_cpus_and_get_those_that_nobody_has() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cpuset.cpus.effective"), "0-5\n").unwrap();
        let (a, b) = (target(root.path(), "a", "0-1\n"), target(root.path(), "b", "2-3\n"));
        let mut cpuset = Cpuset::new();
        assert_eq!(cpuset.read(&a).unwrap(), 2_000);
        assert_eq!(cpuset.read(&b).unwrap(), 2_000);
        let saved = cpuset.save(&b).unwrap();
        cpuset.apply(&a, 3_000).unwrap();
        assert_eq!(holds(&a), "0,1,4");
        cpuset.apply(&b, 1_000).unwrap();
        assert_eq!(holds(&b), "2");
        cpuset.apply(&a, 5_000).unwrap();
        assert_eq!(holds(&a), "0,1,3,4,5");
        saved.restore().unwrap();
        assert_eq!(holds(&b), "2-3");
        assert_eq!(cpuset.ceiling(&a).unwrap().0, 6_000);
    }

    #[test]
    fn shared_cpus_are_given_up_first() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cpuset.effective_cpus"), "0-3\n").unwrap();
        let (a, b) = (target(root.path(), "a", "0-2"), target(root.path(), "b", "0-1"));
        let mut cpuset = Cpuset::new();
        cpuset.read(&a).unwrap();
        cpuset.read(&b).unwrap();
        cpuset.apply(&a, 1_000).unwrap();
        assert_eq!(holds(&a), "2");
    }

    #[test]
    fn more_than_there_are_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cpuset.cpus"), "0-1\n").unwrap();
        let a = target(root.path(), "a", "");
        let mut cpuset = Cpuset::new();
        assert_eq!(cpuset.read(&a).unwrap(), UNLIMITED);
        let error = cpuset.apply(&a, 3_000).unwrap_err();
        assert!(matches!(error, ActuatorError::Bound { has: 2_000, .. }), "{error}");
    }
}
