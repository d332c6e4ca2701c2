//! Credits: the mechanism that Breakwater, Protego and Svalinn share.
//!
//! A credit is the server's permission to have one request outstanding. The server keeps a *pool*,
//! and every session a *window*: the credits it holds, used and unused. Σ windows is what is
//! *issued*.
//!
//! ```text
//!             pool  ◄── PoolPolicy (what was measured → how large)
//!               │
//!   issued = Σ windows   ≤ pool + sessions after every grant
//!               │
//!   session: window = in the server (pending) + unused;  demand = waits at the client
//! ```
//!
//! The mechanism counts, distributes, revokes and enforces; a [`PoolPolicy`] only sizes the pool.
//! Distribution is *lazy* (Breakwater §4): a session's window is computed when a reply to it
//! leaves, from the session's own numbers and the totals, in O(1). A session whose window fell to
//! zero is *drained*, and is told by an explicit message when the pool has room again. Windows
//! travel as absolute numbers with a sequence number, so that a lost or late one heals itself.

mod config;
mod growth;
mod policy;
mod roster;
mod round_trip;
mod server;
mod session;
mod shares;
mod welcome;
mod window_log;

pub use config::{Config, Demand, Wake};
pub(crate) use growth::Growth;
pub use policy::{ClassCounts, Next, PoolPolicy, Window};
pub use server::{Audit, Server};
pub(crate) use welcome::Welcome;
pub(crate) use window_log::is_before;
