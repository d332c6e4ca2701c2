//! RocksDB with small and large values, where copying the large ones is bounded.
//!
//! ```text
//!   key ─► RocksDB: where is the value? ─► small ──────────────────────► copy ─► reply
//!           (mapped into memory, no copy)    │ large                      ▲
//!                                            └─► memory semaphore ────────┘
//!                                                  │ no room
//!                                                  └─► refused, at once
//! ```
//!
//! A small value is text, a large one a picture: the two kinds of request of Svalinn's RocksDB
//! (§5.1). To look up either takes some microseconds of CPU time, and the files are mapped into
//! memory, so that a lookup yields where the value lies without touching it. To copy a megabyte
//! into a reply takes memory bandwidth, of which a few cores use up all there is. More requests
//! that copy do not copy more then; they only keep cores busy with waiting for memory, which
//! requests for small values could have used. So the copy, and nothing else, may be behind a
//! [semaphore](seawall_sync::MemorySemaphore): see
//! [`StoreConfig::semaphore`](store::StoreConfig::semaphore).
//!
//! ```
//! use seawall_control::Instant;
//! use seawall_control::request::{Claims, Context};
//! use seawall_rocks::data::{self, Counts};
//! use seawall_rocks::store::{Store, StoreConfig};
//!
//! let folder = tempfile::tempdir()?;
//! data::build(folder.path(), Counts { small: 10, large: 2 }, |_| {})?;
//! let store = Store::open(folder.path(), &StoreConfig::default())?;
//!
//! let ctx = Context::new(Claims::default(), Instant::ORIGIN);
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! let reply = store.get(&ctx, &data::large_key(1)).await?;
//! let found = seawall_rocks::native::decode_reply(reply)?.expect("it was written");
//! assert_eq!(found.value, data::large_value(1));
//! # anyhow::Ok(()) })?;
//! # anyhow::Ok(())
//! ```
//!
//! # What it does not do
//!
//! It writes nothing once it is served: values are built before, by `seawall-rocks build`, and
//! compacted, as in the experiment that it repeats.

mod buffers;
pub mod data;
pub mod native;
pub mod server;
pub mod store;
