//! An in-memory key-value store in the manner of memcached, and the server that keeps it fast under
//! overload.
//!
//! ```text
//!   server::KvServer   sockets · admission · run queue · wall clock
//!   ──────────────────────────────────────────────────────────────── no I/O below
//!   protocol::Parser ──Command──► protocol::execute ──┐
//!   native::Request::decode ────► native::execute ────┤
//!                                                     ▼
//!                      store::Store   item locks · slab lock · memory limit · expiry
//! ```
//!
//! Four parts; those below the server are usable alone:
//!
//! - [`server`] serves a store to native clients of `seawall_rpc` and to stock memcached clients.
//! - [`store`] holds the items: a hash table with a lock per bucket and a slab allocator behind one
//!   global lock. These locks are the store's points of contention, kept as few and as visible as
//!   in memcached; where they are contended they refuse requests that cannot wait for them.
//! - [`protocol`] is memcached's text protocol, sans-IO: bytes in, [`protocol::Command`]s out,
//!   replies appended to a buffer. Stock memcached clients speak to it.
//! - [`native`] is a small binary encoding of get, set and delete, for an RPC system that already
//!   frames its messages and numbers its methods.
//!
//! ```
//! use bytes::BytesMut;
//! use seawall_control::Instant;
//! use seawall_control::request::{Claims, Context};
//! use seawall_kv::protocol::{Parser, execute};
//! use seawall_kv::{Config, Store, UnixTime};
//!
//! let store = Store::new(&Config::default())?;
//! let mut parser = Parser::new(store.item_bytes_max());
//! let mut input = BytesMut::from("set greeting 0 0 5\r\nhello\r\nget greeting\r\n");
//! let mut output = BytesMut::new();
//! let now = UnixTime::from_secs(1_700_000_000);
//! let ctx = Context::new(Claims::default(), Instant::ORIGIN); // a request that may wait for ever
//! while let Some(parsed) = parser.next(&mut input) {
//!     match parsed {
//!         Ok(command) => _ = execute(&store, &ctx, now, &command, &mut output)?,
//!         Err(error) => error.write(&mut output),
//!     }
//! }
//! assert_eq!(&output[..], b"STORED\r\nVALUE greeting 0 5\r\nhello\r\nEND\r\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does *not* do: it persists nothing and replicates nothing. Of memcached's protocols it
//! speaks the text one over TCP, without the meta commands. Except for [`server`], it opens no
//! socket, starts no thread and reads no clock but to measure the wait for a lock: call
//! [`Store::sweep`] from a timer of your own.

pub mod native;
pub mod protocol;
pub mod ring;
pub mod server;
pub mod store;
mod time;

pub use store::{Config, Store};
pub use time::{Exptime, UnixTime};
