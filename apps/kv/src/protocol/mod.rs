//! memcached's text protocol, sans-IO.
//!
//! ```text
//!   bytes read ──► BytesMut ──► Parser::next ──► Ok(Command) ──► execute ──┐
//!                                   │                                     ├──► BytesMut to write
//!                                   └──────────► Err(ParseError) ─► write ─┘
//! ```
//!
//! The caller owns both buffers and the connection. It appends what it reads to one buffer, calls
//! [`Parser::next`] until that answers `None`, and writes out the other whenever it likes; so
//! pipelined requests are answered in one write. Keys and values of a command are slices of the
//! input buffer, not copies.
//!
//! One well-formed request gives one command, one malformed request gives one error, and after an
//! error the parser looks for the next line at the first place where one can begin:
//!
//! | malformed | reply | parsing resumes |
//! |---|---|---|
//! | unknown command, wrong number of words | `ERROR` | at the next line |
//! | bad key, bad number | `CLIENT_ERROR …` | after the data block, if its length is readable |
//! | data block not followed by `\r\n` | `CLIENT_ERROR bad data chunk` | at the next line |
//! | line over [`LINE_BYTES_MAX`] | `CLIENT_ERROR line too long` | at the next line |
//! | value over the item limit | `SERVER_ERROR object too large for cache` | after the data block |
//!
//! memcached itself reads the rest of a bad data block as commands and answers each with one more
//! `ERROR`; here a client that counts replies stays in step.
//!
//! Left out: the meta commands (`mg`, `ms`, …), which no client needs in order to use a server
//! without them, `slabs`, `lru` and other commands that steer memcached's own machinery, and
//! authentication.

mod command;
mod execute;
mod line;
mod parser;
pub mod response;

pub use self::command::{Arithmetic, Command, Keys};
pub use self::execute::{Connection, REPLY_BYTES_MAX, execute};
pub use self::parser::{LINE_BYTES_MAX, Parser};

use bytes::BytesMut;

/// Why a request could not be understood. Displayed as the line that answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// No such command, or not with this number of words.
    #[error("ERROR")]
    UnknownCommand,
    /// A key that is too long, or a number that is none.
    #[error("CLIENT_ERROR bad command line format")]
    BadFormat,
    /// `delete` with superfluous words.
    #[error("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]")]
    BadDelete,
    /// An expiration time that is not a number.
    #[error("CLIENT_ERROR invalid exptime argument")]
    BadExptime,
    /// An amount to add or subtract that is not a number.
    #[error("CLIENT_ERROR invalid numeric delta argument")]
    BadDelta,
    /// A data block that is not as long as announced.
    #[error("CLIENT_ERROR bad data chunk")]
    BadDataChunk,
    /// A line of more than [`LINE_BYTES_MAX`] bytes.
    #[error("CLIENT_ERROR line too long")]
    LineTooLong,
}

/// A request that could not be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct ParseError {
    /// What is wrong with it.
    pub error: ProtocolError,
    /// The client asked for no reply, and will not look for one.
    pub noreply: bool,
}

impl ParseError {
    /// Appends the reply, if the client waits for one.
    pub fn write(&self, out: &mut BytesMut) {
        if !self.noreply {
            response::line(out, self.error);
        }
    }
}
