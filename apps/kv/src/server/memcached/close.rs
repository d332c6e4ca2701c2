//! Why a connection ended.

use std::fmt;
use std::io;

/// The reason for which a connection was closed, for the log.
#[derive(Debug)]
pub(super) enum CloseReason {
    /// The client said `quit`, or closed its end.
    Left,
    /// The stream failed.
    Io(io::Error),
    /// A command began and its end did not come in time.
    Incomplete,
    /// The client does not read its replies, or too slowly.
    NotReading,
    /// The server stops.
    Shutdown,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("the client left"),
            Self::Io(error) => write!(f, "the stream failed: {error}"),
            Self::Incomplete => f.write_str("a command was not completed in time"),
            Self::NotReading => f.write_str("the client does not read its replies"),
            Self::Shutdown => f.write_str("the server stops"),
        }
    }
}

impl From<io::Error> for CloseReason {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
