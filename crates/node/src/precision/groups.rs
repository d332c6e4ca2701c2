//! Groups of threads that share the CPU equally (cgroup v1).

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nix::unistd::gettid;

use super::MeasureError;

const CONTROLLER: &str = "/sys/fs/cgroup/cpu";

/// Groups that are removed again.
pub(super) struct Groups {
    folders: Vec<PathBuf>,
}

/// Where a thread enters a group.
pub(super) struct Entrance(PathBuf);

impl Groups {
    pub(super) fn create(count: usize) -> Result<Self, MeasureError> {
        let mut groups = Self { folders: Vec::new() };
        for number in 0..count {
            let name = format!("seawall-precision-{}-{number}", std::process::id());
            let folder = PathBuf::from(CONTROLLER).join(name);
            let failed = |source| MeasureError::Groups { folder: CONTROLLER.to_owned(), source };
            fs::create_dir(&folder).map_err(failed)?;
            groups.folders.push(folder);
        }
        Ok(groups)
    }

    pub(super) fn entrance(&self, group: usize) -> Entrance {
        Entrance(self.folders[group].join("tasks"))
    }
}

impl Entrance {
    /// Moves this thread into the group.
    pub(super) fn enter(&self) -> io::Result<()> {
        fs::write(&self.0, gettid().to_string())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in &self.folders {
            // Threads that have just ended may still be counted for a moment.
            for _ in 0..50 {
                if fs::remove_dir(folder).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
