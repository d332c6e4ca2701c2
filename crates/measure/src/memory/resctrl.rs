//! Memory bandwidth monitoring of the last caches, through the resctrl file system.

use std::path::{Path, PathBuf};

use seawall_control::steer::Meter;

use super::Unavailable;
use crate::kernel;

/// The file of each cache that counts bytes between it and memory, of any node.
const TOTAL: &str = "mbm_total_bytes";

/// How often a first reading is tried: some processors have none until they were asked once.
const FIRST_READINGS: u32 = 3;

/// What goes through all last caches, of all control groups that there are when it is opened.
///
/// The hardware counts for each cache (`mon_L3_00`, …) and each group of tasks; a reading is a file
/// for each pair. A group that goes away makes readings fail.
#[derive(Debug)]
pub struct Resctrl {
    files: Vec<PathBuf>,
}

impl Resctrl {
    /// Opens the resctrl file system that is mounted at `root`.
    ///
    /// # Errors
    ///
    /// When none is mounted there, when the processor does not count, or does not do so now.
    pub fn open(root: &Path) -> Result<Self, Unavailable> {
        let caches = root.join("mon_data");
        if !root.join("info").is_dir() {
            let problem = "no resctrl file system is mounted here (or processor or kernel lack it)";
            return Err(Unavailable::at(root, problem));
        }
        let files = counters(root);
        if files.is_empty() {
            return Err(Unavailable::at(&caches, format!("no cache in it has {TOTAL}")));
        }
        let mut opened = Self { files };
        if (0..FIRST_READINGS).any(|_| opened.total().is_some()) {
            return Ok(opened);
        }
        Err(opened.files.iter().find_map(|file| kernel::read_number(file).err()).unwrap_or_else(
            || Unavailable::at(&caches, format!("{TOTAL} cannot be read now and then")),
        ))
    }
}

impl Meter for Resctrl {
    fn name(&self) -> &str {
        "resctrl"
    }

    /// `None` while the hardware says `Unavailable` or `Error` for any cache.
    fn total(&mut self) -> Option<u64> {
        let numbers = self.files.iter().map(|file| kernel::read_number(file).ok());
        numbers.sum()
    }
}

/// The files of all caches, for the tasks of the default group and of the others. What monitoring
/// groups count is contained in that.
fn counters(root: &Path) -> Vec<PathBuf> {
    let groups = kernel::list(root).into_iter().map(|(_, path)| path);
    let monitored =
        std::iter::once(root.to_owned()).chain(groups).map(|group| group.join("mon_data"));
    monitored
        .flat_map(|caches| kernel::list(&caches))
        .filter(|(name, _)| name.starts_with("mon_L3_"))
        .map(|(_, cache)| cache.join(TOTAL))
        .filter(|file| file.is_file())
        .collect()
}
