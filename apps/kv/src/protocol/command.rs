//! The commands of the text protocol.

use core::fmt;

use bytes::Bytes;

use crate::store::StoreMode;
use crate::time::Exptime;

/// One request. Keys have been checked to be 1 to 250 bytes, and have no spaces in them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// `get` and `gets`.
    Get {
        /// What to look up.
        keys: Keys,
        /// Whether the reply shows compare-and-swap numbers (`gets`).
        with_cas: bool,
    },
    /// `gat` and `gats`.
    Gat {
        /// The new expiration time of what is found.
        exptime: Exptime,
        /// What to look up.
        keys: Keys,
        /// Whether the reply shows compare-and-swap numbers (`gats`).
        with_cas: bool,
    },
    /// `set`, `add`, `replace`, `append`, `prepend` and `cas`.
    Store {
        /// Which of them.
        mode: StoreMode,
        /// Where to store.
        key: Bytes,
        /// What to store.
        value: Bytes,
        /// To be returned with the value.
        flags: u32,
        /// When the item expires.
        exptime: Exptime,
        /// No reply is wanted.
        noreply: bool,
    },
    /// A storage command whose value exceeds what the parser was told to accept. The parser
    /// discards the value.
    StoreTooLarge {
        /// Which storage command.
        mode: StoreMode,
        /// Where it would have been stored.
        key: Bytes,
        /// No reply is wanted.
        noreply: bool,
    },
    /// `delete`.
    Delete {
        /// What to remove.
        key: Bytes,
        /// No reply is wanted.
        noreply: bool,
    },
    /// `incr` and `decr`.
    Arithmetic {
        /// Which of them.
        operation: Arithmetic,
        /// The number's key.
        key: Bytes,
        /// By how much.
        delta: u64,
        /// No reply is wanted.
        noreply: bool,
    },
    /// `touch`.
    Touch {
        /// The item's key.
        key: Bytes,
        /// Its new expiration time.
        exptime: Exptime,
        /// No reply is wanted.
        noreply: bool,
    },
    /// `stats`.
    Stats {
        /// Which statistics; the general ones if empty.
        topic: Bytes,
    },
    /// `flush_all`.
    FlushAll {
        /// When: [`Exptime::NEVER`], the wire's 0, means now.
        delay: Exptime,
        /// No reply is wanted.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `verbosity`, which changes nothing.
    Verbosity {
        /// No reply is wanted.
        noreply: bool,
    },
    /// `quit`.
    Quit,
}

impl Command {
    /// Whether the client asked for no reply. It must then not be sent one, not even an error.
    pub fn noreply(&self) -> bool {
        match *self {
            Self::Store { noreply, .. }
            | Self::StoreTooLarge { noreply, .. }
            | Self::Delete { noreply, .. }
            | Self::Arithmetic { noreply, .. }
            | Self::Touch { noreply, .. }
            | Self::FlushAll { noreply, .. }
            | Self::Verbosity { noreply } => noreply,
            Self::Get { .. } | Self::Gat { .. } | Self::Stats { .. } | Self::Version => false,
            // It closes the connection instead.
            Self::Quit => true,
        }
    }
}

/// `incr` or `decr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `incr`: add.
    Increment,
    /// `decr`: subtract.
    Decrement,
}

/// The keys of a multi-key request, as they stand in the request's line.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    words: Bytes,
}

impl Keys {
    /// `words` must be checked keys, with spaces between them.
    pub(super) fn new(words: Bytes) -> Self {
        Self { words }
    }

    /// The keys in the order of the request, at least one.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        super::line::words(&self.words)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|key| key.escape_ascii().to_string())).finish()
    }
}
