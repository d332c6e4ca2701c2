#![no_std]
//! The decisions of Seawall, without I/O: who may send, what is refused, and when.
//!
//! ```text
//!   client half                                     server half
//!   ┌────────┐   request: demand, window_ack   ┌────────────────────┐
//!   │ Outbox │ ──────────────────────────────► │ ServerController   │ Admit · Refuse
//!   │   ▲    │                                 │   credit::Server   │
//!   │   │    │ ◄────────────────────────────── │     └ PoolPolicy   │
//!   └───┼────┘   reply: window, window_seq     └────────────────────┘
//!   ClientController: Now · At · Hold · Drop
//! ```
//!
//! Everything is a state machine to which facts are reported and which answers at once. Time is an
//! argument, randomness a seed, and nothing here reads a clock, spawns, locks or touches a socket;
//! so the live server, the simulator and a fuzzer run the very same code.
//!
//! # Example
//!
//! ```
//! use seawall_control::controller::{
//!     Arrival, Completion, Init, Outcome, SessionEvent, SessionId, Verdict,
//! };
//! use seawall_control::{Instant, admission};
//!
//! let algorithm = admission::Config::default().build()?; // Breakwater
//! let mut server = algorithm.server(Init::new(Instant::ORIGIN, 1));
//!
//! let session = SessionId { slot: 0, generation: 0 };
//! server.on_session(Instant::ORIGIN, session, SessionEvent::Opened(Default::default()));
//!
//! let now = Instant::from_micros(5);
//! assert_eq!(server.on_arrival(now, &Arrival::new(session)), Verdict::Admit);
//!
//! let later = Instant::from_micros(105);
//! server.on_completion(later, &Completion::new(session, Outcome::Done, now));
//! println!("the reply carries {:?}", server.feedback(later, session));
//! # Ok::<(), seawall_control::config::ConfigError>(())
//! ```
//!
//! # What it does not do
//!
//! It opens no connection, measures no time and keeps no task: that is `seawall-rpc` for real
//! networks.

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod admission;
pub mod aqm;
pub mod bandit;
pub mod bounce;
pub mod breakwater;
pub mod classes;
pub mod client;
pub mod codel;
pub mod config;
pub mod controller;
pub mod credit;
pub mod dagor;
pub mod delay;
pub mod entry;
pub mod estimate;
pub mod fields;
pub mod gate;
#[cfg(feature = "harness")]
pub mod harness;
pub mod lanes;
pub mod limit;
pub mod metrics;
pub mod open;
pub mod predict;
pub mod privilege;
pub mod protego;
pub mod random;
pub mod replica;
pub mod request;
pub mod retry;
pub mod scaling;
pub mod secret;
pub mod seda;
pub mod sre;
pub mod standing;
pub mod steer;
pub mod svalinn;
pub mod time;
pub mod timer;
pub mod token_bucket;
pub mod trust;
pub mod utility;
pub mod window;
pub mod wire;

pub use random::Rng;
pub use time::Instant;
