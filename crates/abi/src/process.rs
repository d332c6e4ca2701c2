//! Which process wrote a page: its number alone does not tell, for numbers are used again.

use std::os::unix::fs::MetadataExt;
use std::{fs, io};

/// A process, as it names itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its number, in its own PID namespace.
    pub pid: u32,
    /// When it began: field 22 of `/proc/PID/stat`, clock ticks since boot.
    pub start_ticks: u64,
    /// Its PID namespace: the inode of `/proc/PID/ns/pid`; 0 where that could not be read.
    pub namespace: u64,
}

impl Process {
    /// This process.
    ///
    /// # Errors
    ///
    /// Where `/proc` is not mounted.
    pub fn this() -> io::Result<Self> {
        Ok(Self {
            pid: std::process::id(),
            start_ticks: start_ticks("self")?,
            namespace: namespace("self").unwrap_or(0),
        })
    }

    /// Its number as this process sees it, while it lives. A process in a container has another
    /// number there than here, and is looked for in all of `/proc`.
    ///
    /// # Errors
    ///
    /// Where `/proc` cannot be read.
    pub fn find(&self) -> io::Result<Option<u32>> {
        if self.namespace == 0 || self.namespace == namespace("self").unwrap_or(0) {
            return Ok(self.is(self.pid).then_some(self.pid));
        }
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // Processes come and go in the meantime: who has gone is not the one.
            let is_there = namespace(pid).is_ok_and(|inode| inode == self.namespace)
                && innermost_pid(pid).is_ok_and(|inner| inner == self.pid)
                && self.is(pid);
            if is_there {
                return Ok(Some(pid));
            }
        }
        Ok(None)
    }

    /// Whether the process that has this number here began when this one did.
    pub(crate) fn is(&self, pid: u32) -> bool {
        start_ticks(pid).is_ok_and(|ticks| ticks == self.start_ticks)
    }
}

/// Whether `uid` is one of those that a process acts as: real, effective, saved or of files.
///
/// `/proc/PID` itself belongs to root where a process may not be dumped, so it is not asked.
///
/// # Errors
///
/// When the process has gone.
pub fn acts_as(pid: u32, uid: u32) -> io::Result<bool> {
    Ok(status(pid, "Uid:")?.split_whitespace().any(|word| word.parse() == Ok(uid)))
}

fn start_ticks(pid: impl std::fmt::Display) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses, field 2, may itself hold spaces and parentheses.
    stat.rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(22 - 3))
        .and_then(|ticks| ticks.parse().ok())
        .ok_or_else(|| io::Error::other("/proc/PID/stat has no field 22"))
}

fn namespace(pid: impl std::fmt::Display) -> io::Result<u64> {
    Ok(fs::metadata(format!("/proc/{pid}/ns/pid"))?.ino())
}

/// The number of a process in its own namespace.
fn innermost_pid(pid: u32) -> io::Result<u32> {
    status(pid, "NSpid:")?
        .split_whitespace()
        .next_back()
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| io::Error::other("/proc/PID/status has no number in NSpid"))
}

fn status(pid: u32, field: &str) -> io::Result<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .map(str::to_owned)
        .ok_or_else(|| io::Error::other(format!("/proc/PID/status has no {field}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found() {
        let this = Process::this().unwrap();
        assert_eq!(this.find().unwrap(), Some(std::process::id()));
    }

    #[test]
    fn a_number_that_was_used_again_is_another_process() {
        let this = Process::this().unwrap();
        let earlier = Process { start_ticks: this.start_ticks - 1, ..this };
        assert_eq!(earlier.find().unwrap(), None);
    }

    #[test]
    fn a_process_of_another_namespace_is_looked_for_and_not_taken_for_one_of_ours() {
        let this = Process::this().unwrap();
        let elsewhere = Process { namespace: this.namespace + 1, ..this };
        assert_eq!(elsewhere.find().unwrap(), None);
        assert_eq!(innermost_pid(this.pid).unwrap(), this.pid);
    }

    #[test]
    fn this_process_acts_as_itself() {
        let uid = nix::unistd::geteuid().as_raw();
        assert!(acts_as(std::process::id(), uid).unwrap());
        assert!(!acts_as(std::process::id(), uid.wrapping_add(12_345)).unwrap());
    }
}
