//! The request context: what a request carries from the client to every place where it can wait.

mod budget;
mod context;
mod identity;
mod reason;
mod rejected;
mod stage;
mod waits;

pub use budget::Budget;
pub use context::{Claims, Context};
pub use identity::{Class, Identity, Priority, Tenant};
pub use reason::RefusalReason;
pub use rejected::Rejected;
pub use stage::Stage;
pub use waits::{Spent, Waits};
