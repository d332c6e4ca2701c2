//! Control groups: each replica and the noise beside it share one CPU as one of several nodes does,
//! and each service of a graph has a quota of its own.
//!
//! ```text
//!   core ─► group of replica 0: server + noise
//!        ─► group of replica 1: server
//! ```
//!
//! The groups have equal weights, so noise at one replica takes no CPU time from another, beyond
//! what the scheduler's time slices make others wait. A limit keeps them apart even more: who has
//! used it up waits for the next tenth of a second, as containers with a CPU limit do.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

/// Real-time microseconds of each second that all groups of a comparison together may use, so that
/// servers' guardians may be among them.
const REALTIME_US: usize = 900_000;

/// How often that is asked for again while others have it, and how soon.
const TRIES: usize = 50;
const RETRY: Duration = Duration::from_millis(20);

/// After this, a group that has used its limit up may go on: the usual value.
const PERIOD: Duration = Duration::from_millis(100);

/// Waits until its input ends, and then ends all that is in the groups, and these.
const CLEAN: &str = r#"
cat > /dev/null
for try in $(seq 100); do
  cat "$0"/*/cgroup.procs 2> /dev/null | xargs -r kill -KILL 2> /dev/null
  rmdir "$0"/*/ 2> /dev/null
  rmdir "$0" 2> /dev/null && exit
  sleep 0.02
done
"#;

/// The control groups of a comparison. They are removed when this is dropped, with all that runs in
/// them, and also when this process is killed.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// Who does that.
    cleaner: Child,
}

/// That of one replica.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
}

impl Groups {
    /// Makes groups for so many replicas, each of which gets at most `limit` processors.
    ///
    /// # Errors
    ///
    /// If the system has no control groups for CPU time, or does not let this process make any.
    pub(crate) fn new(replicas: usize, limit: Option<f64>) -> Result<Self> {
        let root = root()?;
        Self::below(&root, (replicas, limit), true).with_context(|| refused(&root))
    }

    /// The same for so many processes none of which needs real-time priority; their limits are set
    /// later.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(crate) fn without_realtime(count: usize) -> Result<Self> {
        let root = root()?;
        Self::below(&root, (count, None), false).with_context(|| refused(&root))
    }

    fn below(root: &Path, (replicas, limit): (usize, Option<f64>), realtime: bool) -> Result<Self> {
        let top = root.join(format!("seawall-{}", process::id()));
        fs::create_dir(&top)?;
        let cleaner = Command::new("sh")
            .args(["-c", CLEAN])
            .arg(&top)
            .stdin(Stdio::piped())
            .process_group(0) // so that Ctrl-C does not end it, too
            .spawn()?;
        let mut groups = Self { groups: Vec::new(), cleaner };
        // Version 2 hands controllers down one by one; version 1 has no such file.
        let subtree = top.join("cgroup.subtree_control");
        if subtree.exists() {
            fs::write(root.join("cgroup.subtree_control"), "+cpu")?;
            fs::write(subtree, "+cpu")?;
        }
        if realtime {
            let_use_real_time(&top, REALTIME_US)?;
        }
        for replica in 0..replicas {
            let folder = top.join(format!("replica-{replica}"));
            fs::create_dir(&folder)?;
            if realtime {
                let_use_real_time(&folder, REALTIME_US / replicas)?;
            }
            let group = Group { folder };
            limit.map_or(Ok(()), |limit| group.limit(limit, PERIOD))?;
            groups.groups.push(group);
        }
        Ok(groups)
    }

    pub(crate) fn of(&self, replica: usize) -> &Group {
        &self.groups[replica]
    }
}

/// Where control groups for CPU time are.
fn root() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").context("cannot read /proc/mounts")?;
    let root = controller(&mounts, |root| {
        fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default()
    });
    root.ok_or_else(|| anyhow!("this needs control groups for CPU time, and none are mounted here"))
}

fn refused(root: &Path) -> String {
    format!("cannot make control groups in {}, which takes root", root.display())
}

/// Lets threads of a group use so many microseconds of each second at real-time priority. Kernels
/// without real-time groups let all.
fn let_use_real_time(group: &Path, us: usize) -> Result<()> {
    let runtime = group.join("cpu.rt_runtime_us");
    if !runtime.exists() {
        return Ok(());
    }
    // The kernel counts groups that have ended for some milliseconds more.
    let mut given = fs::write(&runtime, us.to_string());
    for _ in 0..TRIES {
        if given.is_ok() {
            break;
        }
        thread::sleep(RETRY);
        given = fs::write(&runtime, us.to_string());
    }
    given.with_context(|| {
        format!(
            "cannot give {} {us} µs of each second for real-time threads; other groups may have \
             too much of it, such as those of another comparison, which has to end first",
            group.display()
        )
    })
}

impl Drop for Groups {
    fn drop(&mut self) {
        drop(self.cleaner.stdin.take());
        let _ = self.cleaner.wait();
    }
}

impl Group {
    /// The file to which a process writes its number to be one of the group's.
    pub(crate) fn members(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Its path in the hierarchy of the controller of CPU time.
    pub(crate) fn name(&self) -> String {
        let parts: Vec<_> =
            self.folder.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
        format!("/{}/{}", parts[1], parts[0])
    }

    /// Makes a process one of the group's, and what it starts from now on.
    ///
    /// # Errors
    ///
    /// If the system does not let it in.
    pub(crate) fn take_in(&self, process: u32) -> Result<()> {
        fs::write(self.members(), process.to_string())
            .with_context(|| format!("cannot put a process into {}", self.folder.display()))
    }

    /// Gives it this many processors, counted over a period.
    ///
    /// # Errors
    ///
    /// If the system does not let this process do that.
    pub(crate) fn limit(&self, processors: f64, period: Duration) -> Result<()> {
        let period = period.as_micros();
        let quota = (processors * period as f64) as u128;
        let put = |file: &str, text: String| {
            let path = self.folder.join(file);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        // Version 2 has one file, version 1 has two.
        if self.folder.join("cpu.max").exists() {
            return put("cpu.max", format!("{quota} {period}"));
        }
        put("cpu.cfs_period_us", period.to_string())?;
        put("cpu.cfs_quota_us", quota.to_string())
    }
}

/// Where the controller of CPU time is mounted, of version 1 or of version 2 if that has it.
fn controller(mounts: &str, controllers: impl Fn(&Path) -> String) -> Option<PathBuf> {
    let mut second = None;
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, folder, kind, options, ..] = &fields[..] else { continue };
        if kind == "cgroup" && options.split(',').any(|option| option == "cpu") {
            return Some(folder.into());
        }
        let has_cpu = || controllers(folder.as_ref()).split_whitespace().any(|name| name == "cpu");
        if kind == "cgroup2" && has_cpu() {
            second = Some(folder.into());
        }
    }
    second
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "\
tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
";
    const SECOND: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,relatime 0 0\n";

    #[test]
    fn both_versions_are_found() {
        let found = |mounts, controllers: &str| controller(mounts, |_| controllers.to_owned());
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(found(FIRST, "hugetlb"), path("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(found(SECOND, "cpuset cpu io"), path("/sys/fs/cgroup"));
        assert_eq!(found(SECOND, "cpuset io"), None);
        assert_eq!(found("", ""), None);
    }
}
