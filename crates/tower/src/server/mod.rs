//! The server side: who is let in, and what is told to those who are not.
//!
//! ```text
//!   Listener/Io: when did the bytes come? ──┐            ┌── canary: how long do tasks wait?
//!                                           ▼            ▼
//!   request ──► Layer: claims, class, session ──► Entry: algorithm, budget ──► Context ──► service
//!                  │ refused: 503, Retry-After, seawall: stage=…                              │
//!   response ◄─────┴─── body until its end ◄── head: window, queueing delay ◄─────────────────┘
//! ```
//!
//! A layer in a service sees a request only when its handler runs, which under overload is when it
//! is too late: it has waited in a socket, and in the runtime's own run queue. So its waits there
//! are measured. [`Listener`] and [`Io`] ask the kernel when bytes came; where others accept
//! connections, a canary tells how long tasks of the runtime wait.

mod admission;
mod answer;
mod body;
mod canary;
#[cfg(feature = "certificates")]
mod certificate;
mod classes;
mod config;
mod context;
mod future;
mod head;
mod io;
mod keeper;
mod layer;
mod listener;
mod orca;
pub mod parts;
mod refused;
mod senders;
mod service;
mod sessions;
mod stats;
mod ticket;
#[cfg(feature = "tonic-tls")]
mod tonic_tls;

pub use admission::Queue;
pub use body::Body;
#[cfg(feature = "certificates")]
pub use certificate::certificate_names;
pub use classes::{Classes, Head};
pub use config::{Config, Limits, Mode, Orca, Statuses};
pub use context::{Context, Deadlines};
pub use future::ResponseFuture;
pub use io::{Connection, Io, OfConnection};
pub use layer::{Builder, Layer, Monitor};
pub use listener::Listener;
pub use orca::{REPORT, Report};
pub use refused::Refused;
pub use service::Service;
pub use stats::{ClassStats, Stats};
