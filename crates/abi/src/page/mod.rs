//! A service's page: what it counts, and what the node agent orders it.
//!
//! One page is one file of 4096 bytes, `<folder>/<service>.<pid>.page`. The service
//! [maps](Publisher) it; whoever reads it, and the agent who writes orders into it, uses plain
//! reads and writes of the file ([`Reader`]), for these fail where a mapped page would kill.

mod description;
mod layout;
mod orders;
mod publisher;
mod reader;
mod shard;

pub use description::{Description, Malformed};
pub use layout::{FIELDS, FIRST_SHARD, Field, MAGIC, NAME_MAX, SHARD_SIZE, SHARDS, SIZE, VERSION};
pub use orders::{LEASE_MAX_NS, Orders, SPEED_BASE, SPEED_MAX};
pub use publisher::{Publisher, Unpublished};
pub use reader::{PAUSE_BEAT_NS, Pause, Reader, ServiceState, Unreadable};
pub use shard::{Counters, Sample, Shard};
