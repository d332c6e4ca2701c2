//! The seam: what an admission algorithm is told, and what it answers.
//!
//! ```text
//!            on_demand            on_arrival  on_dequeue  on_completion  on_signal
//!               │                     │           │            │            │
//!  request ─► ClientController ───► ServerController ◄─────────┴────────────┘
//!               ▲      Now · At · Hold · Drop         Admit · Refuse
//!               └────────────── feedback: window · level ──┘
//! ```
//!
//! Calling order, for both halves: report facts with `on_*`; then carry out all that `poll_*` hands
//! out; then sleep until `poll_timeout` or the next fact, and call `handle_timeout` when that time
//! has come. `now` never decreases. `&self` only reads.

mod client;
mod facts;
mod server;

pub use client::{ClientController, Demand, Departure, DropReason, Response};
pub use facts::{
    Arrival, Completion, Dequeue, Feedback, Outcome, SessionEvent, SessionId, Signal, Verdict,
};
pub use server::{Algorithm, Init, ServerController};
