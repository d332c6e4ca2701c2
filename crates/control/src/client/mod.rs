//! The client's side: what may leave now, and what waits, for how long.
//!
//! [`Outbox`] is the mechanism, written once: it holds requests back, counts what is outstanding
//! and lets old ones expire. A [`ClientController`](crate::controller::ClientController) only
//! answers whether the next one may leave.

mod credit;
mod open;
mod outbox;
mod polling;
mod unknown;

pub use credit::Credit;
pub use open::Open;
pub use outbox::{Config, Departed, Outbox, Report, Request};
pub use polling::Polling;
pub use unknown::Unknown;
