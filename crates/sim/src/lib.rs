//! A deterministic simulator that runs the very code of `seawall-control`, at any scale.
//!
//! The papers' testbeds have eleven machines and ten thousand clients. Here they are numbers in a
//! [`Scenario`], and what decides is what decides in a live server: the outbox of a client, both
//! halves of an algorithm, the predictor of the run queue.
//!
//! ```text
//!   plan (TOML) ──► cases: scenario × variants × sweeps ──► worlds, side by side on all cores
//!                                                              │
//!        claims ──► verdicts ◄── runs: one result for each ◄───┘   checkers run along
//! ```
//!
//! # Example
//!
//! ```
//! use seawall_sim::Plan;
//!
//! let text = "
//!     [scenario]
//!     workload.clients = 100
//!     run = { warm_up = '20ms', time = '20ms' }
//!     [[sweep]]
//!     key = 'workload.load'
//!     values = ['0.5x', '2x']
//! ";
//! let plan = Plan::read(text, &[], |_| Err("nothing is included".into()))?;
//! let runs = plan.run(|case, seed| eprintln!("{case}, seed {seed}"))?;
//! assert!(runs[1].figures.goodput > runs[0].figures.goodput);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not do
//!
//! It reads no clock and starts no runtime; equal plans give equal results on every machine. It
//! models no packets below a message, no caches and no scheduler: what messages cost is in the
//! plan, and so is what requests draw from the memory.

pub mod graph;
pub mod outcome;
pub mod plan;
mod queue;
mod runs;
pub mod scenario;
pub mod world;

pub use outcome::{Mix, Run, Shift};
pub use plan::Plan;
pub use runs::RunError;
pub use scenario::Scenario;
pub use world::World;
