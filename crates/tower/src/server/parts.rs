//! What a layer is made of, for those who admit by themselves and speak alike, such as a proxy.
//!
//! ```text
//!   headers ─► Told ─► Senders: who is it? ─► Told::claims ─► Sessions: whose credits? ─► Entry
//!                                                                                          │
//!   response ◄─ Refusal: in the words of HTTP, or of gRPC ◄──────────────── refused ◄──────┘
//! ```
//!
//! What decides is [`Entry`](seawall_control::entry::Entry).

pub use super::answer::{Kind, Refusal};
pub use super::head::Told;
pub use super::senders::{Sender, Senders};
pub use super::sessions::{Owner, Sessions};
