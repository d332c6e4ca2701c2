//! This machine's control groups. Where they cannot be written, the tests say so and pass.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_node::agent::actuator::{Actuator, ActuatorError, Quota, Target, UNLIMITED};
use seawall_node::agent::hierarchy::{Hierarchies, Hierarchy, Version};

/// A group of this machine that is removed again, with one inside.
struct Group {
    hierarchy: Hierarchy,
    outer: PathBuf,
    inner: PathBuf,
}

impl Group {
    fn create(name: &str) -> Option<Self> {
        let hierarchy = match Hierarchies::detect(Path::new("/")) {
            Ok(found) => found.cpu,
            Err(error) => {
                eprintln!("not tested: {error}");
                return None;
            }
        };
        let outer = hierarchy.mount.join(format!("seawall-test-{name}-{}", std::process::id()));
        let inner = outer.join("inner");
        if let Err(error) = fs::create_dir_all(&inner) {
            eprintln!("not tested: {}: {error}", inner.display());
            return None;
        }
        let group = Self { hierarchy, outer, inner };
        if group.hierarchy.version == Version::V2 {
            // Only groups whose parent hands the controller down have its files.
            let handed = fs::write(group.outer.join("cgroup.subtree_control"), "+cpu");
            if handed.is_err() || !group.inner.join("cpu.max").exists() {
                eprintln!("not tested: the cpu controller is not handed down");
                return None;
            }
        }
        Some(group)
    }

    fn target(&self, folder: &Path) -> Target {
        Target { name: "test".to_owned(), cpu: Some(folder.to_owned()), ..Target::default() }
    }

    fn quota(&self, period: Option<Duration>) -> Quota {
        Quota::new(&self.hierarchy, period, 0.0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.inner);
        let _ = fs::remove_dir(&self.outer);
    }
}

#[test]
fn the_kernel_takes_what_is_written_and_gets_it_back() {
    let Some(group) = Group::create("quota") else { return };
    let target = group.target(&group.inner);
    let mut quota = group.quota(Some(Duration::from_millis(10)));
    assert_eq!(quota.read(&target).unwrap(), UNLIMITED);
    let saved = quota.save(&target).unwrap();
    for amount in [500, 1_500, 200, 100] {
        quota.apply(&target, amount).unwrap();
        assert_eq!(quota.read(&target).unwrap(), amount);
    }
    saved.restore().unwrap();
    assert_eq!(quota.read(&target).unwrap(), UNLIMITED);
    assert_eq!(quota.save(&target).unwrap(), saved);
}

#[test]
fn a_burst_gives_way_to_a_smaller_quota_and_comes_back() {
    let Some(group) = Group::create("burst") else { return };
    let target = group.target(&group.inner);
    let mut quota = group.quota(None);
    quota.apply(&target, 800).unwrap();
    let burst = ["cpu.cfs_burst_us", "cpu.max.burst"];
    let burst = burst.map(|name| group.inner.join(name)).into_iter().find(|path| path.exists());
    let Some(burst) = burst else {
        eprintln!("not tested: this kernel has no burst");
        return;
    };
    fs::write(&burst, "60000").unwrap();
    let saved = quota.save(&target).unwrap();
    quota.apply(&target, 300).unwrap();
    assert_eq!(fs::read_to_string(&burst).unwrap().trim(), "30000");
    saved.restore().unwrap();
    assert_eq!(fs::read_to_string(&burst).unwrap().trim(), "60000");
    assert_eq!(quota.read(&target).unwrap(), 800);
}

#[test]
fn a_group_around_it_that_has_less_is_named() {
    let Some(group) = Group::create("bound") else { return };
    let (outer, inner) = (group.target(&group.outer), group.target(&group.inner));
    let mut quota = group.quota(None);
    quota.apply(&outer, 700).unwrap();
    assert_eq!(quota.ceiling(&inner), Some((700, group.outer.clone())));
    let applied = quota.apply(&inner, 900);
    match group.hierarchy.version {
        Version::V1 => {
            let error = applied.unwrap_err();
            assert!(matches!(error, ActuatorError::Bound { has: 700, .. }), "{error}");
        }
        // It takes the number and delivers less.
        Version::V2 => applied.unwrap(),
    }
    quota.apply(&inner, 600).unwrap();
}

#[test]
fn half_of_a_change_does_not_stand() {
    let Some(group) = Group::create("half") else { return };
    let (outer, inner) = (group.target(&group.outer), group.target(&group.inner));
    let mut own = group.quota(None);
    own.apply(&outer, 700).unwrap();
    own.apply(&inner, 500).unwrap();
    // In version 1 the quota of the shorter period is taken, and the period is not.
    let applied = group.quota(Some(Duration::from_millis(10))).apply(&inner, 900);
    if group.hierarchy.version == Version::V1 {
        assert!(matches!(applied, Err(ActuatorError::Bound { has: 700, .. })), "{applied:?}");
        assert_eq!(own.read(&inner).unwrap(), 500);
    }
}

#[test]
fn what_cannot_be_put_back_as_a_whole_stays_as_it_is() {
    let Some(group) = Group::create("whole") else { return };
    if group.hierarchy.version == Version::V2 {
        return;
    }
    let (outer, inner) = (group.target(&group.outer), group.target(&group.inner));
    let mut own = group.quota(None);
    own.apply(&inner, 900).unwrap();
    let saved = own.save(&inner).unwrap();
    group.quota(Some(Duration::from_millis(10))).apply(&inner, 300).unwrap();
    // Somebody lowers the group around it to less than what was saved.
    own.apply(&outer, 700).unwrap();
    let error = saved.restore().unwrap_err();
    assert!(matches!(error, ActuatorError::Refused { .. }), "{error}");
    assert_eq!(own.read(&inner).unwrap(), 300);
    own.apply(&outer, 900).unwrap();
    saved.restore().unwrap();
    assert_eq!(own.read(&inner).unwrap(), 900);
}

#[test]
fn a_group_that_goes_is_gone() {
    let Some(group) = Group::create("gone") else { return };
    let target = group.target(&group.inner);
    let mut quota = group.quota(None);
    let saved = quota.save(&target).unwrap();
    fs::remove_dir(&group.inner).unwrap();
    assert!(quota.read(&target).unwrap_err().is_gone());
    assert!(quota.apply(&target, 300).unwrap_err().is_gone());
    assert!(saved.restore().unwrap_err().is_gone());
}
