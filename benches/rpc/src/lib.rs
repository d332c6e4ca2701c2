//! What a call costs with Seawall's RPC, beside the least that a call can cost and beside gRPC.
//!
//! ```text
//!   one core: the client           the other core: the server
//!   ┌──────────────────────┐       ┌───────────────────────────────────────────────┐
//!   │ depth callers, each  │       │ seawall-breakwater · seawall-none             │
//!   │ with one call at a   │ ◄───► │ echo: length-prefixed frames, coalesced writes│
//!   │ time, one connection │       │ tonic: unary gRPC, HTTP/2 without TLS         │
//!   └──────────────────────┘       └───────────────────────────────────────────────┘
//! ```
//!
//! Every contestant offers the same to the callers: an async function from payload to payload. They
//! take turns within one run, so that whatever slows the machine down slows all of them, and the
//! report gives their ratios, round by round.
//!
//! Two commands use this: `seawall-bench-rpc` measures time, `allocations` counts allocations.
//!
//! # What it does not do
//!
//! The loop is closed and nothing is overloaded: it says what a call costs, not how a service fares
//! when more arrives than it can do. Nothing here asserts on time.

pub mod closed_loop;
pub mod contestants;
pub mod cores;
pub mod paced;
pub mod report;
