//! How a handler says that it failed.

use std::fmt;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use seawall_control::request::{Rejected, Stage};

use crate::client::{CallError, Unsent};

/// Why a handler has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// The request failed: a code and a message for people.
    Error {
        /// What went wrong. The constants of [`Status`] use gRPC's numbers; own codes go from 256
        /// on.
        code: u16,
        /// What went wrong, in words. The client sees it.
        message: String,
    },
    /// A stage refused the request before it had an effect.
    Rejected(Rejected),
}

impl Status {
    /// Somebody called it off.
    pub const CANCELLED: u16 = 1;
    /// The request makes no sense.
    pub const INVALID: u16 = 3;
    /// It took longer than it may.
    pub const DEADLINE_EXCEEDED: u16 = 4;
    /// What it asks for does not exist.
    pub const NOT_FOUND: u16 = 5;
    /// Something that the request needs has run out, such as memory.
    pub const RESOURCE_EXHAUSTED: u16 = 8;
    /// The method does not exist.
    pub const UNIMPLEMENTED: u16 = 12;
    /// The handler has a defect.
    pub const INTERNAL: u16 = 13;
    /// Nobody knows what became of the request: a replica that it was handed to was lost.
    pub const UNAVAILABLE: u16 = 14;

    /// A failure with `code`, explained by `message`.
    pub fn error(code: u16, message: impl Into<String>) -> Self {
        Self::Error { code, message: message.into() }
    }

    /// The body of an error reply: the code, then the message.
    pub(crate) fn encode_error(code: u16, message: &str) -> Bytes {
        let mut body = BytesMut::with_capacity(2 + message.len());
        body.put_u16_le(code);
        body.put_slice(message.as_bytes());
        body.freeze()
    }

    /// Reads the body of an error reply.
    pub(crate) fn decode_error(body: &[u8]) -> Self {
        let Some((code, message)) = body.split_first_chunk::<2>() else {
            return Self::error(Self::INTERNAL, "the server sent an error without a code");
        };
        Self::error(u16::from_le_bytes(*code), String::from_utf8_lossy(message))
    }
}

impl From<Rejected> for Status {
    fn from(rejected: Rejected) -> Self {
        Self::Rejected(rejected)
    }
}

impl From<CallError> for Status {
    /// What a handler says whose own call to another service has failed. A refusal stays one: it
    /// names the stage that refused, wherever that was.
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        match error {
            CallError::Rejected(rejected) => Self::Rejected(rejected),
            CallError::NotSent(Unsent::Dropped(_)) => {
                let none = Duration::ZERO;
                Self::Rejected(Rejected::new(Stage::CONNECTION, none, none))
            }
            CallError::NotSent(Unsent::TooLarge { .. }) => Self::error(Self::INVALID, message),
            CallError::Failed { code, message } => Self::Error { code, message },
            CallError::Cancelled => Self::error(Self::CANCELLED, message),
            CallError::DeadlineExceeded => Self::error(Self::DEADLINE_EXCEEDED, message),
            CallError::NotSent(Unsent::Disconnected(_)) | CallError::ConnectionLost(_) => {
                Self::error(Self::UNAVAILABLE, message)
            }
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error { code, message } => write!(f, "error {code}: {message}"),
            Self::Rejected(rejected) => rejected.fmt(f),
        }
    }
}

impl std::error::Error for Status {}
