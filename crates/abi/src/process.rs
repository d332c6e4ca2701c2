//! Which process wrote a page: its number alone does not tell, for numbers are used again.

use std::collections::HashMap;
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

    /// The process that has this number here.
    ///
    /// # Errors
    ///
    /// When there is none, or its namespace cannot be looked at.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self {
            pid: innermost_pid(pid)?,
            start_ticks: start_ticks(pid)?,
            namespace: namespace(pid)?,
        })
    }

    /// Its number as this process sees it, while it lives. A process in a container has another
    /// number there than here, and is looked for in all of `/proc`.
    ///
    /// # Errors
    ///
    /// Where `/proc` cannot be read.
    pub fn find(&self) -> io::Result<Option<u32>> {
        Index::default().find(self)
    }

    /// Whether it would be seen here if it lived: its namespace is this process's own, or this one
    /// is in the machine's first, to which all others are open.
    pub fn would_be_seen(&self) -> bool {
        let own = namespace("self").unwrap_or(0);
        self.namespace != 0 && own != 0 && (own == self.namespace || own == FIRST_NAMESPACE)
    }

    /// Whether the process that has this number here began when this one did.
    pub(crate) fn is(&self, pid: u32) -> bool {
        start_ticks(pid).is_ok_and(|ticks| ticks == self.start_ticks)
    }
}

/// The inode of the PID namespace that a machine begins with (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Who has which number in other PID namespaces. A walk through `/proc` tells, and it is made once,
/// when the first process of another namespace is looked for: make an index for many questions,
/// and another one when processes may have come since.
#[derive(Debug, Default)]
pub struct Index {
    /// By namespace and number in there; processes of this one's own namespace are not in it.
    others: Option<HashMap<(u64, u32), u32>>,
}

impl Index {
    /// As [`Process::find`].
    ///
    /// # Errors
    ///
    /// Where `/proc` cannot be read.
    pub fn find(&mut self, process: &Process) -> io::Result<Option<u32>> {
        let own = namespace("self").unwrap_or(0);
        if process.namespace == 0 || process.namespace == own {
            return Ok(process.is(process.pid).then_some(process.pid));
        }
        if self.others.is_none() {
            self.others = Some(others(own)?);
        }
        let found = self
            .others
            .as_ref()
            .and_then(|others| others.get(&(process.namespace, process.pid)).copied());
        Ok(found.filter(|pid| process.is(*pid)))
    }
}

fn others(own: u64) -> io::Result<HashMap<(u64, u32), u32>> {
    let mut others = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Processes come and go in the meantime: who has gone is not the one.
        if let Ok(inode) = namespace(pid)
            && inode != own
            && let Ok(inner) = innermost_pid(pid)
        {
            others.insert((inode, inner), pid);
        }
    }
    Ok(others)
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
        assert_eq!(Process::of(std::process::id()).unwrap(), this);
        assert!(this.would_be_seen());
        assert!(!Process { namespace: 0, ..this }.would_be_seen());
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
