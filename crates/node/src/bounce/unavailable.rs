//! Why the kernel does not answer for a server.

use std::path::Path;

use libbpf_rs::ErrorKind;
use thiserror::Error;

const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Why the kernel does not answer for servers here, and what is missing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BounceUnavailable {
    /// The kernel does not describe its structures.
    #[error(
        "the kernel has no type information at {BTF}: it was built without CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf,
    /// This process may not load eBPF programs.
    #[error(
        "the kernel refuses to load eBPF programs: run as root, or give CAP_BPF, CAP_PERFMON and \
         CAP_NET_ADMIN; where these are there, a security module or lockdown forbids it"
    )]
    NotPermitted(#[source] libbpf_rs::Error),
    /// The kernel does not know something that the programs use.
    #[error(
        "the kernel does not accept the eBPF programs: Linux 6.2 or later with CONFIG_BPF_SYSCALL, \
         CONFIG_BPF_EVENTS and CONFIG_BPF_STREAM_PARSER is needed"
    )]
    Refused(#[source] libbpf_rs::Error),
    /// The programs cannot be put into the path of connections.
    #[error(
        "the kernel does not put programs into the path of connections: CAP_NET_ADMIN and \
         CONFIG_BPF_STREAM_PARSER are needed"
    )]
    Attach(#[source] libbpf_rs::Error),
}

impl BounceUnavailable {
    /// What an error at loading means.
    pub(super) fn from_loading(error: libbpf_rs::Error) -> Self {
        match error.kind() {
            ErrorKind::PermissionDenied => Self::NotPermitted(error),
            _ if !Path::new(BTF).exists() => Self::NoBtf,
            _ => Self::Refused(error),
        }
    }
}
