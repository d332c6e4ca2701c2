//! A sidecar and gateway for services that speak HTTP/1.1, HTTP/2 or gRPC.
//!
//! ```text
//!   client ─ HTTP/1.1, HTTP/2, TLS ─► proxy ─ HTTP/1.1, HTTP/2, TLS ─► replica
//!                                       │
//!                                       └──── refused, lost, not well ─► another replica
//! ```
//!
//! # Example
//!
//! ```
//! use seawall_proxy::{Config, Proxy};
//!
//! let mut config = Config::for_upstream(vec!["http://127.0.0.1:8080".parse()?]);
//! config.listen = "127.0.0.1:0".parse()?; // any free port
//! let proxy = Proxy::start(config)?;
//! println!("listens at {}", proxy.address());
//! proxy.shutdown()?; // finishes what was begun
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not do
//!
//! It changes no bodies, caches nothing, and resolves names only when it connects. HTTP/3 and
//! `CONNECT` are not spoken.

mod admit;
mod check;
pub mod config;
mod forward;
mod listen;
mod proxy;
mod route;
mod shared;
mod tls;
mod upstream;
mod watch;

pub use check::{Findings, check};
pub use config::{Config, ConfigError};
pub use proxy::{Proxy, StartError, Unfinished};
pub use tls::TlsError;
pub use watch::Watched;
