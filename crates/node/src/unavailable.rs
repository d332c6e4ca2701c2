//! Why run queues cannot be seen.

use std::io;
use std::path::Path;

use libbpf_rs::ErrorKind;
use thiserror::Error;

/// Why the run queues of this machine cannot be copied, and what is missing. CPU waits are then not
/// predicted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The kernel does not describe its structures.
    #[error(
        "the kernel has no type information at {BTF}: it was built without CONFIG_DEBUG_INFO_BTF; \
         CPU waits are not predicted"
    )]
    NoBtf,
    /// This process may not load eBPF programs.
    #[error(
        "the kernel refuses to load eBPF programs: run as root, or give CAP_BPF and CAP_PERFMON; \
         where these are there, a security module or lockdown forbids it; CPU waits are not \
         predicted"
    )]
    NotPermitted(#[source] libbpf_rs::Error),
    /// The timer of ticks cannot be told apart from others.
    #[error(
        "/proc/kallsyms does not show where the kernel handles its ticks: run as root, or give \
         CAP_SYSLOG and set kernel.kptr_restrict to 1 or 0; CPU waits are not predicted"
    )]
    NoTicks,
    /// What `/proc` holds cannot be read.
    #[error("cannot read /proc/kallsyms; CPU waits are not predicted")]
    Proc(#[source] io::Error),
    /// The kernel does not know something that the programs use: it is older than 5.17, or was
    /// built without CONFIG_BPF_SYSCALL or CONFIG_BPF_EVENTS.
    #[error(
        "the kernel does not accept the eBPF programs: Linux 5.17 or later with CONFIG_BPF_SYSCALL \
         and CONFIG_BPF_EVENTS is needed; CPU waits are not predicted"
    )]
    Refused(#[source] libbpf_rs::Error),
    /// There is no such CPU, or it is offline.
    #[error("CPU {cpu} cannot be asked: it does not exist, or is offline")]
    NoCpu {
        /// Its number.
        cpu: u32,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
}

const BTF: &str = "/sys/kernel/btf/vmlinux";

impl Unavailable {
    /// What an error at loading or attaching means.
    pub(crate) fn from_loading(error: libbpf_rs::Error) -> Self {
        match error.kind() {
            ErrorKind::PermissionDenied => Self::NotPermitted(error),
            _ if !Path::new(BTF).exists() => Self::NoBtf,
            _ => Self::Refused(error),
        }
    }
}
