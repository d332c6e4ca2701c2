//! Why the kernel takes no programs from this process.

use std::fs;
use std::path::Path;

use libbpf_rs::{ErrorKind, PrintLevel};

pub(crate) const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Who has it may do what each of those says that are marked to be a part of it.
const SYS_ADMIN: u32 = 21;

/// A permission, by its name and its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capability {
    name: &'static str,
    number: u32,
    /// `CAP_SYS_ADMIN` does as well, of which it once was a part.
    is_in_sys_admin: bool,
}

pub(crate) const BPF: Capability = Capability::new("CAP_BPF", 39, true);
pub(crate) const PERFMON: Capability = Capability::new("CAP_PERFMON", 38, true);
pub(crate) const NET_ADMIN: Capability = Capability::new("CAP_NET_ADMIN", 12, true);
pub(crate) const SYSLOG: Capability = Capability::new("CAP_SYSLOG", 34, false);

impl Capability {
    const fn new(name: &'static str, number: u32, is_in_sys_admin: bool) -> Self {
        Self { name, number, is_in_sys_admin }
    }

    /// Whether it is in this set.
    fn is_in(self, set: u64) -> bool {
        let has = |number: u32| set & (1 << number) != 0;
        has(self.number) || self.is_in_sys_admin && has(SYS_ADMIN)
    }
}

/// What an error at loading means.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The kernel does not describe its structures.
    NoBtf,
    /// These permissions are not there.
    Lacks(String),
    /// The permissions are there, and something forbids it all the same.
    Forbidden,
    /// The kernel, of this version, does not know something that the programs use.
    Kernel(String),
}

impl Refusal {
    /// Of programs that take these permissions.
    pub(crate) fn from_loading(error: &libbpf_rs::Error, needed: &[Capability]) -> Self {
        let lacking = lacking(needed);
        match error.kind() {
            ErrorKind::PermissionDenied if lacking.is_some() => {
                Self::Lacks(lacking.unwrap_or_default())
            }
            _ if !Path::new(BTF).exists() => Self::NoBtf,
            ErrorKind::PermissionDenied => Self::Forbidden,
            _ => Self::Kernel(release()),
        }
    }
}

/// Which of these permissions this process lacks, in words; nothing if it has all.
pub(crate) fn lacking(needed: &[Capability]) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let set = effective(&status)?;
    let names: Vec<&str> =
        needed.iter().filter(|needed| !needed.is_in(set)).map(|needed| needed.name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The permissions of a process, by what `/proc` says of it.
fn effective(status: &str) -> Option<u64> {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

/// The kernel's version, such as `6.12.41+deb13-amd64`.
fn release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease");
    release.map_or_else(|_| "of unknown version".into(), |release| release.trim().to_owned())
}

/// What libbpf has to say goes to the log: of what is missing it only guesses.
pub(crate) fn log() {
    let log = |_: PrintLevel, text: String| tracing::debug!("{}", text.trim_end());
    libbpf_rs::set_print(Some((PrintLevel::Info, log)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_read_by_their_numbers() {
        let status = "Name:\tseawall\nCapInh:\t0000000000000000\nCapEff:\t000000c000000000\n";
        let set = effective(status).unwrap();
        assert!(BPF.is_in(set) && PERFMON.is_in(set));
        assert!(!NET_ADMIN.is_in(set) && !SYSLOG.is_in(set));
        let sys_admin = effective("CapEff:\t0000000000200000\n").unwrap();
        assert!(BPF.is_in(sys_admin) && NET_ADMIN.is_in(sys_admin) && !SYSLOG.is_in(sys_admin));
        assert_eq!(effective("CapEff:\tnone\n"), None);
        assert_eq!(effective(""), None);
    }

    #[test]
    fn a_version_is_named() {
        assert!(release().starts_with(|first: char| first.is_ascii_digit()), "{}", release());
    }
}
