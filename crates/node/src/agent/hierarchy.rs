//! Where this machine keeps its control groups: version 1 or 2, and mounted where.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A generation of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// One hierarchy for each controller.
    V1,
    /// One hierarchy for all.
    V2,
}

/// A mounted hierarchy that has a certain controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its generation.
    pub version: Version,
    /// The folder of its outermost group that can be seen.
    pub mount: PathBuf,
    /// Which group that is: `/` unless this process is in a container that shows it only a part.
    pub root: String,
}

/// The hierarchies that the agent works with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchies {
    /// That of the `cpu` controller: here containers are looked for.
    pub cpu: Hierarchy,
    /// That of the `cpuset` controller.
    pub cpuset: Option<Hierarchy>,
    /// That which counts CPU time: the `cpuacct` controller, or the same as `cpu` in version 2.
    pub usage: Option<Hierarchy>,
}

/// Why there is none.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NoHierarchy {
    /// The kernel's list of mounts cannot be read.
    #[error("cannot read {}, which tells where control groups are", path.display())]
    Unreadable {
        /// The list.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No group can be given CPU.
    #[error(
        "no control groups with the cpu controller: version 1 is not mounted, and version 2 {}; \
         mount one of them, or use --actuator virtual",
        describe(v2)
    )]
    NoCpu {
        /// Where version 2 is mounted, and its controllers.
        v2: Option<(PathBuf, String)>,
    },
}

fn describe(v2: &Option<(PathBuf, String)>) -> String {
    match v2 {
        None => "is not mounted either".to_owned(),
        Some((mount, controllers)) if controllers.is_empty() => {
            format!("at {} has no controllers", mount.display())
        }
        Some((mount, controllers)) => format!("at {} has only {controllers}", mount.display()),
    }
}

/// One line of the list of mounts.
struct Mount {
    root: String,
    point: PathBuf,
    kind: String,
    options: Vec<String>,
}

impl Hierarchies {
    /// Looks at the list of mounts of the machine whose files are below `root`: `/`, or where a
    /// container has its host's files, whose first process then knows the host's mounts.
    ///
    /// # Errors
    ///
    /// If there is no such list, or no hierarchy with the `cpu` controller on it.
    pub fn detect(root: &Path) -> Result<Self, NoHierarchy> {
        let process = if root == Path::new("/") { "self" } else { "1" };
        let path = root.join("proc").join(process).join("mountinfo");
        let text =
            fs::read_to_string(&path).map_err(|source| NoHierarchy::Unreadable { path, source })?;
        let mounts: Vec<Mount> = text.lines().filter_map(Mount::parse).collect();
        let below = |point: &Path| root.join(point.strip_prefix("/").unwrap_or(point));
        let v1 = |controller: &str| {
            let has = |mount: &&Mount| {
                mount.kind == "cgroup" && mount.options.iter().any(|option| option == controller)
            };
            mounts.iter().find(has).map(|mount| Hierarchy {
                version: Version::V1,
                mount: below(&mount.point),
                root: mount.root.clone(),
            })
        };
        let v2 = mounts.iter().find(|mount| mount.kind == "cgroup2").map(|mount| Hierarchy {
            version: Version::V2,
            mount: below(&mount.point),
            root: mount.root.clone(),
        });
        let controllers = v2
            .as_ref()
            .and_then(|v2| fs::read_to_string(v2.mount.join("cgroup.controllers")).ok())
            .unwrap_or_default();
        let with = |controller: &str| {
            v2.clone().filter(|_| controllers.split_whitespace().any(|name| name == controller))
        };
        // A machine in mixed mode has both mounted; a controller is in one of them only.
        let Some(cpu) = v1("cpu").or_else(|| with("cpu")) else {
            let v2 = v2.map(|v2| (v2.mount, controllers.trim().to_owned()));
            return Err(NoHierarchy::NoCpu { v2 });
        };
        let usage = v1("cpuacct").or_else(|| with("cpu"));
        Ok(Self { cpu, cpuset: v1("cpuset").or_else(|| with("cpuset")), usage })
    }
}

impl Hierarchy {
    /// The folder of a group, by its path as `/proc/PID/cgroup` tells it.
    pub fn folder(&self, group: &str) -> PathBuf {
        let inner = match self.root.as_str() {
            "/" => group,
            root => group.strip_prefix(root).unwrap_or(group),
        };
        self.mount.join(inner.trim_start_matches('/'))
    }
}

impl Mount {
    /// `36 35 98:0 /root /point rw,noatime master:1 - kind source options`, where any number of
    /// optional fields stands before the dash.
    fn parse(line: &str) -> Option<Self> {
        let (before, behind) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut behind = behind.split(' ');
        let (kind, options) = (behind.next()?, behind.nth(1)?);
        Some(Self {
            root: unescape(root),
            point: PathBuf::from(unescape(point)),
            kind: kind.to_owned(),
            options: options.split(',').map(str::to_owned).collect(),
        })
    }
}

/// The kernel writes blanks and backslashes in paths as octal numbers.
fn unescape(text: &str) -> String {
    let known = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    known.iter().fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(mountinfo: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/1")).unwrap();
        fs::write(root.path().join("proc/1/mountinfo"), mountinfo).unwrap();
        root
    }

    #[test]
    fn version_1_has_a_mount_for_each_controller() {
        let root = tree(
            "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
             34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
             40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
        );
        let found = Hierarchies::detect(root.path()).unwrap();
        assert_eq!(found.cpu.version, Version::V1);
        assert_eq!(found.cpu.mount, root.path().join("sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(found.usage, Some(found.cpu.clone()));
        assert_eq!(found.cpuset.unwrap().mount, root.path().join("sys/fs/cgroup/cpuset"));
        assert_eq!(found.cpu.folder("/a/b"), root.path().join("sys/fs/cgroup/cpu,cpuacct/a/b"));
        assert_eq!(found.cpu.folder("/"), root.path().join("sys/fs/cgroup/cpu,cpuacct"));
    }

    #[test]
    fn version_2_counts_if_it_has_the_controller() {
        let root =
            tree("30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
        let folder = root.path().join("sys/fs/cgroup");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cgroup.controllers"), "hugetlb\n").unwrap();
        let error = Hierarchies::detect(root.path()).unwrap_err().to_string();
        assert!(error.contains("has only hugetlb"), "{error}");

        fs::write(folder.join("cgroup.controllers"), "cpuset cpu io memory\n").unwrap();
        let found = Hierarchies::detect(root.path()).unwrap();
        assert_eq!(found.cpu.version, Version::V2);
        assert_eq!(found.cpuset, Some(found.cpu.clone()));
        assert_eq!(found.usage, Some(found.cpu));
    }

    #[test]
    fn nothing_mounted_and_nothing_readable_are_told_apart() {
        let root = tree("23 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
        let error = Hierarchies::detect(root.path()).unwrap_err().to_string();
        assert!(error.contains("is not mounted either"), "{error}");
        let error = Hierarchies::detect(&root.path().join("x")).unwrap_err().to_string();
        assert!(error.contains("x/proc/1/mountinfo"), "{error}");
    }

    #[test]
    fn a_part_of_the_hierarchy_is_looked_up_from_its_own_root() {
        let line = r"50 49 0:29 /docker/ab /a\040b rw - cgroup cgroup rw,cpu";
        let root = tree(line);
        let cpu = Hierarchies::detect(root.path()).unwrap().cpu;
        assert_eq!(cpu.folder("/docker/ab/x"), root.path().join("a b/x"));
        assert_eq!(cpu.folder("/docker/ab"), root.path().join("a b"));
    }
}
