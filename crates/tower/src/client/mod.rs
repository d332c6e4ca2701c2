//! The client: requests leave when the server has time for them, and go elsewhere when it has not.
//!
//! ```text
//!   request ──► Replicas ── picks ──► Service ── waits for a credit ──► your client ──► server
//!                  ▲ refused: another one  ▲ window, seq: `seawall` header │
//!                  └───────────────────────┴───────────────────────────────┘
//! ```
//!
//! * [`Layer`] and [`Service`] wrap a client of one server, whatever its bodies are: credits,
//!   deadlines, and what travels with a request.
//! * [`Replicas`] is a service over several such clients, and retries what was refused.
//!
//! A server without Seawall ignores the header, and sees a client that holds nothing back.

mod answer;
mod attempt;
mod body;
mod config;
mod error;
mod future;
mod layer;
mod meters;
mod options;
mod outgoing;
mod replay;
mod replicas;
mod retry;
mod service;
mod session;
mod toward;

pub use answer::Refusal;
pub use body::Body;
pub use config::{Config, Dropped};
pub use error::{BoxError, Error, Refused};
pub use future::ResponseFuture;
pub use layer::Layer;
pub use options::{CallOptions, Deadline};
pub use replay::{Recording, Replay, ReplayError};
pub use replicas::Replicas;
pub use retry::{Attempts, Failure, Hook};
pub use service::Service;
pub use toward::{OriginError, Toward};
