//! Microservice graphs from tables, as real processes: each service listens on TCP, works as its
//! table says, and calls others over connections of bounded number.
//!
//! ```text
//!   table (seawall_measure::Graph)          one process per service
//!   ┌───────────────────────────┐           ┌───────────────────────────────────────────┐
//!   │ [[service]]               │           │ request ─► steps: work ── CPU, or slots    │
//!   │ name = "user-timeline"    │  ──────►  │                   call ── pool ─► service  │
//!   │ steps = [ work, call, … ] │           │                   parallel                 │
//!   └───────────────────────────┘           └───────────────────────────────────────────┘
//! ```
//!
//! Work is CPU time, or time in [virtual cores](cpu): the first takes as many CPUs as the table
//! has, the second fits a node of dozens of cores on two, with all of its queues, connections and
//! decisions real. Stores in the table can be [real ones](store).
//!
//! # Example
//!
//! ```
//! use seawall_graph::{Service, ServiceConfig};
//! use seawall_measure::Graph;
//!
//! let graph = Graph::read("
//!     name = 'one'
//!     [[service]]
//!     name = 'front'
//!     units = 2
//!     steps = [{ work = 'const:100us' }]
//! ")?;
//! let service = Service::start(&ServiceConfig::new(graph, "front"))?;
//! println!("front listens at {}", service.address());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not do
//!
//! It decides nothing about CPU: the node agent does. It starts one service of a graph; the
//! `seawall graph` command starts them all, and measures.

pub mod cpu;
mod service;
mod steps;
pub mod store;

pub use service::{JOB, Service, ServiceConfig, StartError};
