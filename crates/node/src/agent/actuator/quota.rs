//! The quota of a group: CPU time that it may use in each period.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::{Held, Watched};
use super::{Actuator, ActuatorError, Saved, Target, UNLIMITED, Write, files};
use crate::agent::hierarchy::{Hierarchy, Version};

/// The kernel takes no quota below this (`min_cfs_quota_period`).
const QUOTA_LEAST_US: u64 = 1_000;

/// Two numbers and a space are shorter.
const SHARE_MAX: usize = 64;

/// A period where the group itself says nothing sensible: the kernel's default.
const PERIOD_DEFAULT_US: u64 = 100_000;

/// A container's quota, held so that it can be changed at once: the file stays open, and nothing is
/// read before.
#[derive(Debug)]
pub(crate) struct QuotaLever {
    version: Version,
    quota: Held,
    /// Of version 1, which keeps it in a file of its own.
    period: Option<Held>,
}

impl QuotaLever {
    pub(crate) fn open(quota: &Quota, target: &Target) -> Result<Self, ActuatorError> {
        let group = group_of(target)?;
        let open = |name: &str| Held::open(&group.join(name));
        let version = quota.version;
        let (quota, period) = match version {
            Version::V1 => (open("cpu.cfs_quota_us")?, Some(open("cpu.cfs_period_us")?)),
            Version::V2 => (open("cpu.max")?, None),
        };
        Ok(Self { version, quota, period })
    }

    /// Sets the quota, in the period that the group has; what then stands, as `read` would say.
    pub(crate) fn write(&mut self, milli: u32) -> Result<u32, ActuatorError> {
        let period_us = self.period_us()?;
        let quota_us = (u64::from(milli) * period_us / 1_000).max(QUOTA_LEAST_US);
        let text = match self.version {
            Version::V1 => quota_us.to_string(),
            Version::V2 => format!("{quota_us} {period_us}"),
        };
        self.quota.write(&text)?;
        Ok(Share { quota_us: Some(quota_us), period_us }.milli())
    }

    /// Read anew each time: who changes quota and period together leaves the share as it was, and a
    /// quota of the other period would be many times too large.
    fn period_us(&self) -> Result<u64, ActuatorError> {
        let file = self.period.as_ref().unwrap_or(&self.quota);
        let mut room = [0; SHARE_MAX];
        let text = file.read(&mut room)?;
        let period = text.split_whitespace().next_back().and_then(|period| period.parse().ok());
        let wrong = || files::garbled(file.path(), text, "a period");
        period.filter(|period| *period > 0).ok_or_else(wrong)
    }
}

/// Writes quotas, in version 1 or 2.
#[derive(Debug)]
pub struct Quota {
    version: Version,
    mount: PathBuf,
    period_us: Option<u64>,
    burst: f64,
    /// Of the groups that are read in each pass.
    watched: HashMap<PathBuf, ShareFiles>,
}

/// Where a group's share stands.
#[derive(Debug)]
struct ShareFiles {
    quota: Watched,
    /// Of version 1, which keeps it in a file of its own.
    period: Option<Watched>,
}

impl ShareFiles {
    fn open(version: Version, group: &Path) -> Result<Self, ActuatorError> {
        let open = |name: &str| Watched::open(&group.join(name));
        Ok(match version {
            Version::V1 => {
                let period = Some(open("cpu.cfs_period_us")?);
                Self { quota: open("cpu.cfs_quota_us")?, period }
            }
            Version::V2 => Self { quota: open("cpu.max")?, period: None },
        })
    }

    fn share(&self) -> Result<Share, ActuatorError> {
        let (mut one, mut other) = ([0; SHARE_MAX], [0; SHARE_MAX]);
        let quota = self.quota.read(&mut one)?;
        let wrong = |expected| files::garbled(self.quota.path(), quota, expected);
        let (quota_us, period_us) = match &self.period {
            Some(period) => {
                let text = period.read(&mut other)?;
                let wrong_period = || files::garbled(period.path(), text, "a number");
                let quota: i64 = quota.parse().map_err(|_| wrong("a number"))?;
                let period: i64 = text.parse().map_err(|_| wrong_period())?;
                (u64::try_from(quota).ok(), u64::try_from(period).unwrap_or(0))
            }
            None => {
                let wrong = || wrong("a quota and a period");
                let (quota, period) = quota.split_once(' ').ok_or_else(wrong)?;
                let quota = match quota {
                    "max" => None,
                    quota => Some(quota.parse().map_err(|_| wrong())?),
                };
                (quota, period.parse().map_err(|_| wrong())?)
            }
        };
        let period_us = if period_us == 0 { PERIOD_DEFAULT_US } else { period_us };
        Ok(Share { quota_us, period_us })
    }
}

type Written = Result<(), ActuatorError>;

/// What a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    /// None if it is not bounded.
    quota_us: Option<u64>,
    period_us: u64,
}

impl Share {
    fn milli(self) -> u32 {
        let milli = |quota: u64| (quota * 1_000 + self.period_us / 2) / self.period_us;
        let bounded = |quota| u32::try_from(milli(quota)).unwrap_or(UNLIMITED).min(UNLIMITED - 1);
        self.quota_us.map_or(UNLIMITED, bounded)
    }
}

impl Quota {
    /// For groups below this hierarchy. `period` is none for each group's own; `burst` is a share
    /// of the quota, and 0 leaves that setting alone where the kernel allows it.
    pub fn new(hierarchy: &Hierarchy, period: Option<Duration>, burst: f64) -> Self {
        let period_us = period.map(|period| period.as_micros() as u64);
        let (version, mount) = (hierarchy.version, hierarchy.mount.clone());
        Self { version, mount, period_us, burst, watched: HashMap::new() }
    }

    fn share(&self, group: &Path) -> Result<Share, ActuatorError> {
        ShareFiles::open(self.version, group)?.share()
    }

    /// The same of a group that will be asked for again.
    fn watch(&mut self, group: &Path) -> Result<Share, ActuatorError> {
        if let Some(Ok(share)) = self.watched.get(group).map(ShareFiles::share) {
            return Ok(share);
        }
        // It may be another group of the same name by now.
        self.watched.remove(group);
        let files = ShareFiles::open(self.version, group)?;
        let share = files.share()?;
        self.watched.insert(group.to_owned(), files);
        Ok(share)
    }

    fn burst_file(&self, group: &Path) -> PathBuf {
        group.join(match self.version {
            Version::V1 => "cpu.cfs_burst_us",
            Version::V2 => "cpu.max.burst",
        })
    }

    fn burst(&self, group: &Path) -> Result<Option<u64>, ActuatorError> {
        let path = self.burst_file(group);
        let Some(text) = files::read_if_there(&path)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| files::garbled(&path, &text, "microseconds"))
    }

    /// Writes quota and period such that the group has at no time more than both together give:
    /// version 1 has a file for each. If the second is refused, the first is taken back: half of a
    /// change may leave next to nothing.
    fn write(&self, group: &Path, before: Share, after: Share) -> Result<(), ActuatorError> {
        let quota = |share: Share| share.quota_us.map_or(-1, |quota| quota as i64);
        if self.version == Version::V2 {
            let text = format!("{} {}", quota(after), after.period_us);
            return files::write(&group.join("cpu.max"), &text);
        }
        let write_quota =
            |share| files::write(&group.join("cpu.cfs_quota_us"), &quota(share).to_string());
        let write_period = |share: Share| {
            files::write(&group.join("cpu.cfs_period_us"), &share.period_us.to_string())
        };
        let both = |first: &dyn Fn(Share) -> Written, second: &dyn Fn(Share) -> Written| {
            first(after)?;
            second(after).inspect_err(|_| {
                if let Err(error) = first(before) {
                    tracing::warn!(%error, "half of a change stands");
                }
            })
        };
        match after.period_us.cmp(&before.period_us) {
            std::cmp::Ordering::Equal => write_quota(after),
            std::cmp::Ordering::Less => both(&write_quota, &write_period),
            std::cmp::Ordering::Greater => both(&write_period, &write_quota),
        }
    }
}

impl Actuator for Quota {
    fn name(&self) -> &'static str {
        "quota"
    }

    fn read(&mut self, target: &Target) -> Result<u32, ActuatorError> {
        self.watch(group_of(target)?).map(Share::milli)
    }

    fn forget(&mut self, target: &Target) {
        if let Ok(group) = group_of(target) {
            self.watched.remove(group);
        }
    }

    fn save(&mut self, target: &Target) -> Result<Saved, ActuatorError> {
        let group = group_of(target)?;
        let mut writes = Vec::new();
        let mut keep = |name: &str| -> Result<(), ActuatorError> {
            let path = group.join(name);
            let text = files::read(&path)?;
            writes.push(Write { path, text });
            Ok(())
        };
        match self.version {
            Version::V1 => {
                // The quota first: between the two writes the group has too little, not too much.
                keep("cpu.cfs_quota_us")?;
                keep("cpu.cfs_period_us")?;
            }
            Version::V2 => keep("cpu.max")?,
        }
        if let Some(burst) = self.burst(group)? {
            let path = self.burst_file(group);
            // A burst above the quota is refused, so that it is nothing while the quota changes.
            writes.insert(0, Write { path: path.clone(), text: "0".to_owned() });
            writes.push(Write { path, text: burst.to_string() });
        }
        Ok(Saved::Files(writes))
    }

    fn apply(&mut self, target: &Target, amount: u32) -> Result<(), ActuatorError> {
        let group = group_of(target)?;
        let before = self.share(group)?;
        let period_us = self.period_us.unwrap_or(before.period_us);
        let quota = (u64::from(amount) * period_us / 1_000).max(QUOTA_LEAST_US);
        let after = Share { quota_us: Some(quota), period_us };
        let burst = (quota as f64 * self.burst) as u64;
        let current = self.burst(group)?;
        // Without an own wish the container's setting stays, cut to what the kernel takes.
        let wanted = current.map(|current| if self.burst > 0.0 { burst } else { current });
        let wanted = wanted.map(|burst| burst.min(quota));
        let write_burst = |burst: u64| files::write(&self.burst_file(group), &burst.to_string());
        if let Some(cut) = current.filter(|current| *current > quota).and(wanted) {
            write_burst(cut)?;
        }
        self.write(group, before, after).map_err(|error| match error {
            // Version 1 refuses what version 2 only does not deliver.
            ActuatorError::Refused { .. } => match ceiling(self, group) {
                Some((has, group)) if has < amount => {
                    ActuatorError::Bound { wanted: amount, has, group }
                }
                _ => error,
            },
            error => error,
        })?;
        match wanted.filter(|wanted| current.is_some_and(|now| now.min(quota) != *wanted)) {
            Some(wanted) => write_burst(wanted),
            None => Ok(()),
        }
    }

    fn least(&mut self, target: &Target) -> u32 {
        let own = || group_of(target).and_then(|group| self.share(group)).map(|has| has.period_us);
        let period = self.period_us.or_else(|| own().ok()).unwrap_or(PERIOD_DEFAULT_US);
        (QUOTA_LEAST_US * 1_000).div_ceil(period) as u32
    }

    fn ceiling(&mut self, target: &Target) -> Option<(u32, PathBuf)> {
        ceiling(self, group_of(target).ok()?)
    }
}

fn group_of(target: &Target) -> Result<&Path, ActuatorError> {
    target.cpu.as_deref().ok_or_else(|| ActuatorError::Missing {
        what: "a control group".to_owned(),
        hint: "the service has a metrics page only; use actuator.cpu = \"virtual\"",
    })
}

/// The least that a group around this one has.
fn ceiling(quota: &Quota, group: &Path) -> Option<(u32, PathBuf)> {
    let around = group.ancestors().skip(1).take_while(|outer| outer.starts_with(&quota.mount));
    let has = around.filter_map(|outer| Some((quota.share(outer).ok()?.milli(), outer)));
    let bounded = has.filter(|(milli, _)| *milli != UNLIMITED);
    bounded.min_by_key(|(milli, _)| *milli).map(|(milli, outer)| (milli, outer.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Tree {
        root: tempfile::TempDir,
        hierarchy: Hierarchy,
    }

    fn tree(version: Version) -> Tree {
        let root = tempfile::tempdir().unwrap();
        let mount = root.path().to_owned();
        Tree { root, hierarchy: Hierarchy { version, mount, root: "/".to_owned() } }
    }

    impl Tree {
        fn group(&self, path: &str, files: &[(&str, &str)]) -> Target {
            let folder = self.root.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            for (name, text) in files {
                fs::write(folder.join(name), format!("{text}\n")).unwrap();
            }
            Target { name: path.to_owned(), cpu: Some(folder), ..Target::default() }
        }

        fn holds(&self, path: &str) -> String {
            fs::read_to_string(self.root.path().join(path)).unwrap().trim_end().to_owned()
        }
    }

    #[test]
    fn version_1_is_read_changed_and_put_back() {
        let tree = tree(Version::V1);
        let target = tree.group(
            "a",
            &[
                ("cpu.cfs_quota_us", "50000"),
                ("cpu.cfs_period_us", "100000"),
                ("cpu.cfs_burst_us", "40000"),
            ],
        );
        let mut quota = Quota::new(&tree.hierarchy, None, 0.0);
        assert_eq!(quota.read(&target).unwrap(), 500);
        let saved = quota.save(&target).unwrap();
        quota.apply(&target, 1_250).unwrap();
        assert_eq!(tree.holds("a/cpu.cfs_quota_us"), "125000");
        assert_eq!(tree.holds("a/cpu.cfs_burst_us"), "40000");
        // Less than the burst: that has to give way.
        quota.apply(&target, 300).unwrap();
        assert_eq!(tree.holds("a/cpu.cfs_quota_us"), "30000");
        assert_eq!(tree.holds("a/cpu.cfs_burst_us"), "30000");
        saved.restore().unwrap();
        assert_eq!(tree.holds("a/cpu.cfs_quota_us"), "50000");
        assert_eq!(tree.holds("a/cpu.cfs_burst_us"), "40000");
        fs::remove_dir_all(target.cpu.as_ref().unwrap()).unwrap();
        // The kernel's files say by themselves that their group has gone; ordinary ones do not.
        quota.forget(&target);
        assert!(quota.read(&target).unwrap_err().is_gone());
        assert!(quota.apply(&target, 300).unwrap_err().is_gone());
    }

    #[test]
    fn version_2_is_one_file_and_its_burst_another() {
        let tree = tree(Version::V2);
        let files = [("cpu.max", "max 100000"), ("cpu.max.burst", "0")];
        let target = tree.group("a", &files);
        let mut quota = Quota::new(&tree.hierarchy, Some(Duration::from_millis(10)), 0.5);
        assert_eq!(quota.read(&target).unwrap(), UNLIMITED);
        let saved = quota.save(&target).unwrap();
        quota.apply(&target, 600).unwrap();
        assert_eq!(tree.holds("a/cpu.max"), "6000 10000");
        assert_eq!(tree.holds("a/cpu.max.burst"), "3000");
        assert_eq!(quota.read(&target).unwrap(), 600);
        saved.restore().unwrap();
        assert_eq!(tree.holds("a/cpu.max"), "max 100000");
        assert_eq!(tree.holds("a/cpu.max.burst"), "0");
    }

    #[test]
    fn the_kernel_has_a_least_quota() {
        let tree = tree(Version::V2);
        let target = tree.group("a", &[("cpu.max", "5000 10000")]);
        let mut quota = Quota::new(&tree.hierarchy, None, 0.0);
        assert_eq!(quota.least(&target), 100);
        quota.apply(&target, 1).unwrap();
        assert_eq!(tree.holds("a/cpu.max"), "1000 10000");
    }

    #[test]
    fn what_a_group_around_it_has_is_the_most() {
        let tree = tree(Version::V2);
        tree.group("pods", &[("cpu.max", "400000 100000")]);
        tree.group("pods/pod", &[("cpu.max", "150000 100000")]);
        let target = tree.group("pods/pod/c", &[("cpu.max", "50000 100000")]);
        let mut quota = Quota::new(&tree.hierarchy, None, 0.0);
        let (most, group) = quota.ceiling(&target).unwrap();
        assert_eq!(most, 1_500);
        assert!(group.ends_with("pods/pod"), "{}", group.display());
        let alone = tree.group("b", &[("cpu.max", "50000 100000")]);
        assert_eq!(quota.ceiling(&alone), None);
    }

    #[test]
    fn garbled_files_are_named() {
        let tree = tree(Version::V2);
        let target = tree.group("a", &[("cpu.max", "lots")]);
        let error = Quota::new(&tree.hierarchy, None, 0.0).read(&target).unwrap_err().to_string();
        assert!(error.contains("cpu.max holds `lots`"), "{error}");
        let target = Target::default();
        let error = Quota::new(&tree.hierarchy, None, 0.0).read(&target).unwrap_err().to_string();
        assert!(error.contains("virtual"), "{error}");
    }
}
