//! What can be wrong with a frame.

use core::fmt;

/// A frame that cannot be decoded, or not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The frame goes on: at least `missing` more bytes are needed to say more.
    Incomplete {
        /// Bytes that are missing for sure.
        missing: usize,
    },
    /// The bytes are not the start of a frame of this kind.
    BadMagic {
        /// What stood there instead, as far as it was received.
        found: [u8; 4],
    },
    /// A version that this code does not speak.
    BadVersion {
        /// The version found.
        version: u8,
    },
    /// An operation that does not exist.
    BadOp {
        /// The number found.
        op: u8,
    },
    /// A status that does not exist.
    BadStatus {
        /// The number found.
        status: u8,
    },
    /// A flag, or a combination of flags, that this version reserves is set.
    ReservedFlag {
        /// All flags found.
        flags: u16,
    },
    /// The body is larger than the receiver allows.
    TooLarge {
        /// Bytes announced.
        len: u32,
        /// Bytes allowed.
        max: u32,
    },
    /// The extension block, or an entry of a block, does not fit into what contains it, or an
    /// entry's value has a length that its tag does not allow.
    BadBlock,
}

impl DecodeError {
    /// True when more bytes may turn this into a frame.
    pub const fn is_incomplete(&self) -> bool {
        matches!(self, Self::Incomplete { .. })
    }

    /// A short name for counters.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Incomplete { .. } => "incomplete",
            Self::BadMagic { .. } => "bad_magic",
            Self::BadVersion { .. } => "bad_version",
            Self::BadOp { .. } => "bad_op",
            Self::BadStatus { .. } => "bad_status",
            Self::ReservedFlag { .. } => "reserved_flag",
            Self::TooLarge { .. } => "too_large",
            Self::BadBlock => "bad_block",
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete { missing } => write!(f, "at least {missing} more bytes are needed"),
            Self::BadMagic { found } => {
                write!(f, "not a Seawall frame: it starts with \"{}\"", found.escape_ascii())
            }
            Self::BadVersion { version } => {
                write!(f, "version {version} is not spoken here; allowed is {}", super::VERSION)
            }
            Self::BadOp { op } => write!(f, "operation {op} does not exist"),
            Self::BadStatus { status } => {
                write!(f, "status {status} does not exist; allowed is 0 to 3")
            }
            Self::ReservedFlag { flags } => write!(f, "flags {flags:#06x} are reserved"),
            Self::TooLarge { len, max } => {
                write!(f, "a body of {len} bytes; allowed is up to {max}")
            }
            Self::BadBlock => {
                f.write_str("a block or one of its entries has a length that does not fit")
            }
        }
    }
}

impl core::error::Error for DecodeError {}
