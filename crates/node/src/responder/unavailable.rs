//! Why packets are not watched.

use thiserror::Error;

use super::Refused;
use crate::refusal::{BPF, BTF, PERFMON, Refusal};

/// Why the FirstResponder cannot work here, and what is missing. The library that receives requests
/// can judge them instead, a little later.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// It cannot be told that.
    #[error("the FirstResponder's configuration is refused")]
    Config(#[from] Refused),
    /// The kernel does not describe its structures.
    #[error(
        "the kernel has no type information at {BTF}: it was built without CONFIG_DEBUG_INFO_BTF; \
         packets are not watched"
    )]
    NoBtf,
    /// This process may not load eBPF programs.
    #[error(
        "this process may not load eBPF programs: it lacks {lacks}; run as root where root has \
         them, or give it these; packets are not watched"
    )]
    NotPermitted {
        /// The capabilities that are missing.
        lacks: String,
    },
    /// It has the capabilities.
    #[error(
        "something forbids eBPF programs although this process has CAP_BPF and CAP_PERFMON: \
         lockdown, a security module, or the kernel's verifier; packets are not watched"
    )]
    Forbidden(#[source] libbpf_rs::Error),
    /// The kernel does not know something that the program uses.
    #[error(
        "this kernel, Linux {kernel}, does not accept the eBPF program: 5.19 or later with \
         CONFIG_NET, CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS is needed; packets are not watched"
    )]
    Refused {
        /// Its version.
        kernel: String,
        /// What it said.
        source: libbpf_rs::Error,
    },
    /// Programs can be loaded, but what they share cannot be read or written.
    #[error("what the eBPF program shares with this process cannot be mapped")]
    Shared(#[source] std::io::Error),
}

impl Unavailable {
    /// What an error at loading or attaching means.
    pub(super) fn from_loading(error: libbpf_rs::Error) -> Self {
        match Refusal::from_loading(&error, &[BPF, PERFMON]) {
            Refusal::NoBtf => Self::NoBtf,
            Refusal::Lacks(lacks) => Self::NotPermitted { lacks },
            Refusal::Forbidden => Self::Forbidden(error),
            Refusal::Kernel(kernel) => Self::Refused { kernel, source: error },
        }
    }
}
