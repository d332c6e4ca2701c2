//! Locks, semaphores and pools that refuse a request which cannot afford to wait for them.
//!
//! ```text
//!   request ── lock(&ctx) ──► free? ───────────────────────────────► guard
//!                               │ no
//!                               ▼
//!                      predict the wait ── more than is left? ─────► Rejected, at once
//!                               │ less
//!                               ▼
//!                      queue: first come, first served ─ charged ──► guard
//! ```
//!
//! A request under overload waits where the bottleneck is, and often that is a lock. Its context
//! knows what it has left, the smaller of its delay budget and its deadline; each primitive here
//! knows its own queueing delay, and turns away at once who would wait for nothing. Another replica
//! may serve it in time, and those who do wait get what they wait for in time. It is Protego's
//! active synchronisation queue management (NSDI '23, §3.2), for locks of all kinds, async and
//! blocking.
//!
//! | primitive | for |
//! |---|---|
//! | [`Mutex`], [`RwLock`] | data that requests share |
//! | [`Condvar`] | a condition that others bring about |
//! | [`Semaphore`] | a number of permits |
//! | [`MemorySemaphore`] | work that memory bandwidth limits; its capacity is steered |
//! | [`Pool`] | connections, and what else is made once and used often |
//! | [`Gate`] | anything else that takes long: blocking I/O, calls to other services |
//! | [`Cleanup`] | what a refusal must undo |
//!
//! Methods are called as those of `tokio::sync` and `parking_lot`, and take the request's context.
//! Those named `…_plain` take none: for work that must not be refused, such as maintenance.
//! Everybody shares one queue, but requests that must not be dropped wait ahead of the others;
//! after some of them in a row it is an ordinary one's turn.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//! use seawall_control::Instant;
//! use seawall_control::request::{Claims, Context, Stage};
//! use seawall_sync::Mutex;
//!
//! let orders = Mutex::new(Vec::new()).at(Stage(16), "orders");
//! # let budget = Some(Duration::from_micros(50));
//! # let ctx = Context::new(Claims { budget, ..Claims::default() }, Instant::ORIGIN);
//!
//! // In an async function it is `orders.lock(&ctx).await?`.
//! orders.blocking_lock(&ctx)?.push("tea");
//! assert_eq!(orders.snapshot().acquisitions, 1);
//! # Ok::<(), seawall_control::request::Rejected>(())
//! ```
//!
//! # What it costs
//!
//! To lock what is free is one compare-and-swap and to unlock it one addition: no clock is read and
//! nothing is allocated. One in 64 acquisitions of a lock that has been contended is timed. Clock,
//! queue and prediction are for those who have to wait.
//!
//! # What it does not do
//!
//! It starts no timer, and no thread but that of a [`memory::Steering`]: who was let in waits until
//! its turn, even if that takes longer than was predicted. To give up earlier, drop the future.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod block_on;
mod cleanup;
mod clock;
mod condvar;
pub mod contention;
mod gate;
pub mod memory;
#[allow(unsafe_code, reason = "guards give access to what a lock protects")]
pub mod mutex;
mod pool;
mod primitive;
#[cfg(all(test, not(loom)))]
mod privileges;
#[allow(unsafe_code, reason = "waiters own the nodes of the queue that links them")]
mod queue;
#[allow(unsafe_code, reason = "as queue")]
mod raw;
#[allow(unsafe_code, reason = "as mutex")]
pub mod rwlock;
pub mod semaphore;
#[cfg(all(test, not(loom)))]
mod testing;

pub use cleanup::Cleanup;
pub use condvar::{Condvar, Refused};
pub use gate::Gate;
pub use memory::MemorySemaphore;
pub use mutex::{Mutex, MutexGuard, OwnedMutexGuard};
pub use pool::{GetError, Pool, Pooled};
pub use rwlock::{
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
pub use seawall_control::predict::lock::{Estimate, LockKind};
pub use seawall_control::predict::memory::MemoryPolicy;
pub use semaphore::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// What the project's front page shows is compiled, here because this crate's tests know all that
/// it names.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
