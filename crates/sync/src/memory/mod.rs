//! A semaphore for work that memory bandwidth limits, and what steers its capacity.
//!
//! ```text
//!   request ── try_wait() ──► holders < capacity? ── no ──► refused
//!                                    │ yes     ▲
//!                                    ▼         │ resize
//!                              copies, scans   │
//!                                    │         │
//!                                    ▼         │
//!                       memory ── Meter ──► Steering: each interval, reward per holder
//! ```
//!
//! When enough cores wait for memory, another one makes all of them slower and serves nobody
//! sooner. The hardware's queue cannot refuse anybody, so requests are held in front of it by a
//! semaphore, of which the capacity is what just uses memory up (Svalinn §3.2). That depends on
//! what the requests do, so a [`Steering`] looks for it all the time.
//!
//! ```
//! use seawall_control::request::{Context, Rejected};
//! use seawall_sync::MemorySemaphore;
//!
//! fn scan(ctx: &Context, column: &[u64]) -> Result<u64, Rejected> {
//!     let memory = MemorySemaphore::shared();
//!     let _permit = memory.try_wait().ok_or_else(|| memory.refuse(ctx))?;
//!     Ok(column.iter().sum()) // then others may
//! }
//! ```
//!
//! Deviation: the paper has one semaphore for a process. [`MemorySemaphore::shared`] is that one;
//! further ones can be made, for machines with more than one memory node.

mod semaphore;
#[cfg(not(loom))]
mod steering;

pub use semaphore::{MemoryPermit, MemorySemaphore, OwnedMemoryPermit, Permit};
#[cfg(not(loom))]
pub use steering::{SteerError, Steering};
