//! Which replica a request goes to.
//!
//! ```text
//!                                 ┌ refused by what concerns all requests: busy until then
//!   eligible replicas ─► not busy ┤
//!                                 └ two choices · C3 · snitch · in turns ─► replica
//! ```
//!
//! A refusal tells what no latency does: which stage is in the way, and for how long (LIBROS §III).
//! If that stage concerns all requests of the replica, such as a process that waits for the CPU,
//! the others avoid the replica for so long, and come back then. A lock that one request did not
//! get says nothing about those that do not take it.
//!
//! ```
//! use core::time::Duration;
//! use seawall_control::Instant;
//! use seawall_control::replica::{Config, Selector};
//! use seawall_control::request::Stage;
//!
//! let selector = &mut Selector::new(&Config::default(), 2, 1);
//! selector.on_refusal(Instant::ORIGIN, 0, Stage::RUN_QUEUE, Duration::from_millis(5));
//! let chosen = |selector: &mut Selector, at| selector.choose(at, |_| true);
//! assert_eq!(chosen(selector, Instant::from_micros(4_999)), Some(1));
//! ```

mod c3;
mod config;
mod selector;
mod snitch;

pub use c3::Config as C3;
pub use config::{Config, Selection};
pub use selector::{Answered, Selector};
