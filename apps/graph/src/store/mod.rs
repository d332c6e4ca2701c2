//! Real stores: a service of the graph that stands in front of memcached or redis.
//!
//! ```text
//!   caller ── seawall-rpc ──► front (this process) ── the store's own protocol ──► memcached
//! ```
//!
//! A front is a service like all others: it has a page of metrics, connections to it can be pooled,
//! and it is scaled. Deviation: in DeathStarBench callers speak to the stores themselves and
//! measure them from outside. Measured in front of the store, its numbers mean the same as
//! everybody's.
//!
//! The front and the store share a control group. What the store takes less than the table's work
//! is worked off by the front, so that a table that was stretched for slow runs keeps its
//! proportions.

mod client;
mod process;

pub use client::{StoreClient, StoreError};
pub use process::{StoreProcess, is_installed};
