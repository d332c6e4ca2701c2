//! The seam between a server and what answers below it: a program in the kernel that refuses calls
//! before the server reads them.
//!
//! ```text
//!   client ──calls──► kernel ──those that it lets pass──► server
//!      ▲                │ Bouncer: does the server wait for a CPU, and for too long?
//!      └───refusals─────┘
//! ```
//!
//! Both write to the client, so that each has to know of the other: a refusal within a reply would
//! corrupt the stream. The server [holds](Bounced::hold) a connection before it writes to it, and
//! [releases](Bounced::release) it when no frame is half written.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::error::Error;
use core::fmt;

use crate::Instant;

/// Why something of the system's cannot be had.
pub type Problem = Box<dyn Error + Send + Sync>;

/// Refuses calls of which it knows that the server will not get a CPU in time for them.
pub trait Bouncer: fmt::Debug + Send + Sync {
    /// The thread that calls runs handlers of the server.
    ///
    /// # Errors
    ///
    /// The thread cannot be watched.
    fn enlist(&self) -> Result<(), Problem>;

    /// Answers on the connection with this descriptor from now on, once it is
    /// [released](Bounced::release). The descriptor has to stay open for as long as the result
    /// lives, and nothing may have been read from it or written to it.
    ///
    /// # Errors
    ///
    /// The connection cannot be watched. It serves without, as if this had not been called.
    fn adopt(&self, socket: i32) -> Result<Box<dyn Bounced>, Problem>;

    /// Calls that it has refused on all connections.
    fn refused(&self) -> u64;
}

/// A connection on which calls may be refused before the server reads them. It begins held.
///
/// What it says of itself can be wrong in one direction only: the server waits when it need not.
pub trait Bounced: fmt::Debug + Send {
    /// When the newest bytes came that the server may have read.
    fn arrived(&self) -> Option<Instant>;

    /// Refuses no more. True if all refusals have been written, behind `written` bytes of the
    /// server's own: then it may write. Else it asks again soon.
    ///
    /// # Errors
    ///
    /// The system does not tell; the connection has to be closed.
    fn hold(&mut self, written: u64) -> Result<bool, Problem>;

    /// No frame of the server's is half written any more.
    ///
    /// # Errors
    ///
    /// As [`hold`](Self::hold).
    fn release(&mut self) -> Result<(), Problem>;
}

/// Starts a bouncer for one server.
pub type Open = fn() -> Result<Arc<dyn Bouncer>, Problem>;
