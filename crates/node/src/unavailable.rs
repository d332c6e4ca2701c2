//! Why run queues cannot be seen.

use std::io;

use thiserror::Error;

use crate::refusal::{BPF, BTF, Capability, PERFMON, Refusal, SYSLOG, lacking};

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
        "this process may not load eBPF programs: it lacks {lacks}; run as root where root has \
         them, or give it these; CPU waits are not predicted"
    )]
    NotPermitted {
        /// The capabilities that are missing.
        lacks: String,
    },
    /// It has the capabilities.
    #[error(
        "something forbids eBPF programs although this process has CAP_BPF and CAP_PERFMON: \
         lockdown, a security module, or the kernel's verifier; CPU waits are not predicted"
    )]
    Forbidden(#[source] libbpf_rs::Error),
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
        "this kernel, Linux {kernel}, does not accept the eBPF programs: 5.17 or later with \
         CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS is needed; CPU waits are not predicted"
    )]
    Refused {
        /// Its version.
        kernel: String,
        /// What it said.
        source: libbpf_rs::Error,
    },
    /// There is no such CPU, or it is offline.
    #[error("CPU {cpu} cannot be asked: it does not exist, or is offline")]
    NoCpu {
        /// Its number.
        cpu: u32,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
}

/// What looking into run queues takes.
const NEEDED: [Capability; 2] = [BPF, PERFMON];

impl Unavailable {
    /// What an error at loading or attaching means.
    pub(crate) fn from_loading(error: libbpf_rs::Error) -> Self {
        match Refusal::from_loading(&error, &NEEDED) {
            Refusal::NoBtf => Self::NoBtf,
            Refusal::Lacks(lacks) => Self::NotPermitted { lacks },
            Refusal::Forbidden => Self::Forbidden(error),
            Refusal::Kernel(kernel) => Self::Refused { kernel, source: error },
        }
    }

    /// Without the address of the handler of ticks: who lacks more is told all of it.
    pub(crate) fn no_ticks() -> Self {
        match (lacking(&NEEDED), lacking(&[BPF, PERFMON, SYSLOG])) {
            (Some(_), Some(lacks)) => Self::NotPermitted { lacks },
            _ => Self::NoTicks,
        }
    }
}
