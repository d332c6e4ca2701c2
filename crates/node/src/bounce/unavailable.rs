//! Why the kernel does not answer for a server.

use thiserror::Error;

use crate::refusal::{BPF, BTF, NET_ADMIN, PERFMON, Refusal};

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
        "this process may not load eBPF programs: it lacks {lacks}; run as root where root has \
         them, or give it these"
    )]
    NotPermitted {
        /// The capabilities that are missing.
        lacks: String,
    },
    /// It has the capabilities.
    #[error(
        "something forbids eBPF programs although this process has CAP_BPF, CAP_PERFMON and \
         CAP_NET_ADMIN: lockdown, a security module, or the kernel's verifier"
    )]
    Forbidden(#[source] libbpf_rs::Error),
    /// The kernel does not know something that the programs use.
    #[error(
        "this kernel, Linux {kernel}, does not accept the eBPF programs: 6.2 or later with \
         CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS and CONFIG_BPF_STREAM_PARSER is needed"
    )]
    Refused {
        /// Its version.
        kernel: String,
        /// What it said.
        source: libbpf_rs::Error,
    },
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
        match Refusal::from_loading(&error, &[BPF, PERFMON, NET_ADMIN]) {
            Refusal::NoBtf => Self::NoBtf,
            Refusal::Lacks(lacks) => Self::NotPermitted { lacks },
            Refusal::Forbidden => Self::Forbidden(error),
            Refusal::Kernel(kernel) => Self::Refused { kernel, source: error },
        }
    }
}
