//! Why a connection ended.

use std::fmt;
use std::io;

use seawall_control::wire::DecodeError;

/// The reason for which a server closed a connection. It is logged, counted, and where the peer can
/// still read, told in a goaway frame.
#[derive(Debug)]
pub(super) enum CloseReason {
    /// The client said goodbye, or closed its end after all its calls were answered.
    Left,
    /// The client was gone while it had calls outstanding.
    Gone,
    /// The stream failed.
    Io(io::Error),
    /// A frame broke the protocol.
    Protocol(DecodeError),
    /// A frame came that the connection's state does not allow.
    Unexpected(&'static str),
    /// The hello did not come in time.
    HelloTimeout,
    /// A frame began and its end did not come in time.
    FrameTimeout,
    /// The client does not read what waits for it.
    NotReading,
    /// The client kept on sending more than its window allows.
    Violations,
    /// The client could not prove who it is.
    Unidentified,
    /// There are too many sessions.
    Full,
    /// The server stops.
    Shutdown,
}

impl CloseReason {
    /// A short name for counters.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Gone => "gone",
            Self::Io(_) => "io",
            Self::Protocol(_) => "protocol",
            Self::Unexpected(_) => "unexpected_frame",
            Self::HelloTimeout => "hello_timeout",
            Self::FrameTimeout => "frame_timeout",
            Self::NotReading => "not_reading",
            Self::Violations => "violations",
            Self::Unidentified => "unidentified",
            Self::Full => "full",
            Self::Shutdown => "shutdown",
        }
    }

    /// True when it is not just the client's own end: whoever looks after the server should know.
    pub(super) fn is_notable(&self) -> bool {
        !matches!(self, Self::Left | Self::Gone | Self::Io(_))
    }

    /// True when the client may still read what it is told.
    pub(super) fn can_be_told(&self) -> bool {
        !matches!(self, Self::Gone | Self::Io(_) | Self::NotReading)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("the client left"),
            Self::Gone => f.write_str("the client was gone while it had calls outstanding"),
            Self::Io(error) => write!(f, "the stream failed: {error}"),
            Self::Protocol(error) => error.fmt(f),
            Self::Unexpected(what) => f.write_str(what),
            Self::HelloTimeout => f.write_str("the hello did not come in time"),
            Self::FrameTimeout => f.write_str("a frame was not completed in time"),
            Self::NotReading => f.write_str("the client does not read its replies"),
            Self::Violations => f.write_str("too many calls beyond the window"),
            Self::Unidentified => {
                f.write_str("this listener wants a known token or client certificate")
            }
            Self::Full => f.write_str("the server has no room for another session"),
            Self::Shutdown => f.write_str("the server stops"),
        }
    }
}

impl From<DecodeError> for CloseReason {
    fn from(error: DecodeError) -> Self {
        Self::Protocol(error)
    }
}

impl From<io::Error> for CloseReason {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
