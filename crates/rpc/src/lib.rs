//! Seawall's native RPC: a server that admits what it can serve in time, and clients that keep to
//! it.
//!
//! ```text
//!   Client ── Session ── one TCP connection ──► Server
//!             Outbox: wait for credits           reader → admission → run queue → handler
//!             driver: coalesced writes           writer ◄─────── replies ──────────┘
//! ```
//!
//! A [`Session`] is a connection and carries many calls at once. The server's algorithm
//! (`seawall_control::admission`) decides how many; what it says travels on replies. Handlers are
//! async functions that run on the server's own, measured run queue.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use seawall_rpc::{Client, ClientConfig, Context, Request, Router, Server, ServerConfig, Status};
//!
//! async fn shout(_ctx: Context, payload: Bytes) -> Result<Bytes, Status> {
//!     Ok(Bytes::from(payload.to_ascii_uppercase()))
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let config = ServerConfig {
//!     listen: ([127, 0, 0, 1], 0).into(),
//!     slo: Duration::from_secs(1), // what would come later is refused at once
//!     ..ServerConfig::default()
//! };
//! let server = Server::start(config, Router::new().method(1, "shout", shout))?;
//!
//! let client = Client::new([server.address()], ClientConfig::default());
//! let reply = client.call(Request::new(1, "hello")).await?;
//! assert_eq!(reply.payload, "HELLO");
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not do
//!
//! It knows nothing of what payloads mean, and discovers no services. It sends nothing twice that
//! may have run, unless the caller says that this does no harm: a [`Client`] of several replicas
//! sends on what one of them refused, within a budget; a [`Session`] tells its caller of a refusal
//! at once, with the stage and the predicted delay.

mod client;
pub mod clock;
mod net;
mod server;
mod status;
mod tls;

pub use client::{
    Answer, CallError, CallFuture, CallResult, Client, ClientConfig, ConnectError, Connections,
    Downstream, Failure, Reply, Request, Session, Unsent,
};
pub use seawall_control::request::Budget;
pub use seawall_control::secret::Secret;
pub use seawall_control::trust::{Known, Trust};
pub use server::{
    ClassStats, Context, CpuPredictor, GuardianConfig, GuardianWay, Guest, GuestListener,
    GuestReply, Guests, Halter, KernelError, Limits, PageConfig, RealtimeError, Router, Server,
    ServerConfig, SpillAt, SpillConfig, SpillTls, StartError, Stats, Threads, TlsConfig, Worker,
    Working, install_bouncer, install_cpu_delay,
};
pub use status::Status;
pub use tls::{ClientTls, TlsError};
