//! What a node knows of its CPUs: how long a thread that waits for one will wait.
//!
//! ```text
//!   kernel                                   this process
//!   sched_switch, sched_wakeup ─► habits of threads
//!   run queue of CPU 3 ◄── interrupt ◄────── RunQueues::copy(3)
//!      └─ copy, with habits ───────────────► Sample { shadow } ─► shadow.wait(thread, features)
//! ```
//!
//! The kernel's run queues are copied by an eBPF program which runs on the CPU in question, so that
//! nothing switches meanwhile, and only when it is asked. In between, two small programs learn how
//! threads run and sleep. The prediction is pure code: `seawall_control::predict::cpu`.
//!
//! # Example
//!
//! ```no_run
//! use seawall_control::predict::cpu::Features;
//! use seawall_node::RunQueues;
//!
//! let mut queues = RunQueues::open()?;
//! let sample = queues.copy(0)?;
//! for entity in &sample.shadow.entities {
//!     if let Some(thread) = entity.id() {
//!         println!("{thread}: {:?}", sample.shadow.wait(thread, Features::Dependent));
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Who asks again and again has a [`Probe`], which finds the CPUs of threads; a server's guardian
//! has [`Foresight`].
//!
//! # What it needs
//!
//! Linux 5.17 or later with BTF, `CAP_BPF` and `CAP_PERFMON`, and `/proc/kallsyms` with addresses,
//! which tells the timer of ticks apart from others. [`Unavailable`] says what is missing; then CPU
//! waits are not predicted, and requests are judged by the other stages.
//!
//! # What it does not do
//!
//! It changes nothing in the kernel. Only [`Bounce`] refuses anything: calls, for a server that
//! asks for it (docs/guardian.md). For predictions, threads are known by the numbers of the first
//! PID namespace: in a container that has its own, they are not found.

pub mod agent;
mod bounce;
mod convert;
mod foresight;
pub mod precision;
mod probe;
mod refusal;
#[expect(unsafe_code, reason = "memory that it shares with a program in the kernel")]
pub mod responder;
mod run_queues;
mod tick;
mod unavailable;

#[allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    reason = "generated"
)]
mod programs {
    pub(crate) mod bounce {
        include!(concat!(env!("OUT_DIR"), "/bounce.rs"));
    }
    pub(crate) mod first_responder {
        include!(concat!(env!("OUT_DIR"), "/first_responder.rs"));
    }
    pub(crate) mod run_queue {
        include!(concat!(env!("OUT_DIR"), "/run_queue.rs"));
    }
}

pub use bounce::{Bounce, BounceUnavailable};
pub use foresight::Foresight;
pub use probe::Probe;
pub use run_queues::{Cost, RunQueues, Sample, Watched};
pub use unavailable::Unavailable;
