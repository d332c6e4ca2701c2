//! Seawall side by side with the limiters that others use, under the same loads.
//!
//! ```text
//!   core 0                                    core 1
//!   ┌───────────────────────────────────┐     ┌────────────────────────────────────────────┐
//!   │ a server: Go or Rust, one limiter │ ◄───┤ `seawall load http://…`, on schedule       │
//!   │ cpu · lock · mix of hot and cold  │     │ a proxy, where there is one: Envoy, ours   │
//!   └───────────────────────────────────┘     └────────────────────────────────────────────┘
//! ```
//!
//! [`serve`] is the server in Rust; the one in Go is in `go/`. The rest starts them, measures all
//! rows in turns, and says which acceptance bars are met.
//!
//! # What it does not do
//!
//! It has no load generator: that is `seawall load`, the same as for Seawall's own protocol, so
//! that goodput is counted in one way.

pub mod bars;
pub mod cases;
pub mod children;
pub mod envoy;
pub mod measure;
pub mod plans;
pub mod record;
pub mod rows;
#[cfg(test)]
mod sample;
pub mod serve;
pub mod table;
