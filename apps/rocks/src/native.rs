//! The native protocol's payloads.
//!
//! A request is the key and nothing else. [`GET`] asks for any key; [`GET_SMALL`] and [`GET_LARGE`]
//! ask for the same, and tell the server beforehand which kind of value it will find, so that it
//! can measure the two apart. Numbers are little-endian.
//!
//! | reply | payload |
//! |---|---|
//! | found | 0 (u8), length of the value (u32), the value, unless the server leaves values away |
//! | not found | 1 (u8) |

use bytes::{Buf, Bytes};
use thiserror::Error;

/// Looks up a key. No other service of Seawall has methods of these numbers, so that a load which
/// meets a server of another kind fails instead of measuring nonsense.
pub const GET: u16 = 211;
/// Looks up a key that is said to have a small value.
pub const GET_SMALL: u16 = 212;
/// Looks up a key that is said to have a large value.
pub const GET_LARGE: u16 = 213;

/// Longest key, bytes.
pub const KEY_BYTES_MAX: usize = 1_024;

/// What a reply has before the value, bytes.
pub(crate) const HEAD: usize = 5;

const FOUND: u8 = 0;
const MISSING: u8 = 1;

/// A value that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// How long the value is, bytes.
    pub length: u32,
    /// The value; empty if the server leaves values away.
    pub value: Bytes,
}

/// Why a payload could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A key is 1 to 1024 bytes long.
    #[error("a key of {0} bytes, allowed are 1 to {KEY_BYTES_MAX}")]
    KeyLength(usize),
    /// It ends too early.
    #[error("the payload ends too early")]
    Truncated,
    /// It goes on after its last field.
    #[error("the payload has {0} bytes too many")]
    Trailing(usize),
    /// A reply that is neither of the two kinds.
    #[error("no reply begins with {0}")]
    UnknownStatus(u8),
}

/// Checks that a request's payload is a key.
///
/// # Errors
///
/// If it is none.
pub fn check_key(key: &[u8]) -> Result<(), DecodeError> {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Ok(());
    }
    Err(DecodeError::KeyLength(key.len()))
}

/// Writes a reply with `value` into an empty buffer.
pub(crate) fn encode_found(value: &[u8], reply: &mut Vec<u8>) {
    reply.reserve(HEAD + value.len());
    reply.push(FOUND);
    reply.extend_from_slice(&(value.len() as u32).to_le_bytes());
    reply.extend_from_slice(value);
}

/// The reply to a lookup that found nothing.
pub(crate) fn missing() -> Bytes {
    Bytes::from_static(&[MISSING])
}

/// What a reply says was found.
///
/// # Errors
///
/// If it is none; see [`DecodeError`].
pub fn decode_reply(mut payload: Bytes) -> Result<Option<Found>, DecodeError> {
    let truncated = |_| DecodeError::Truncated;
    match payload.try_get_u8().map_err(truncated)? {
        FOUND => {
            let length = payload.try_get_u32_le().map_err(truncated)?;
            let (whole, got) = (length as usize, payload.len());
            if got > whole {
                return Err(DecodeError::Trailing(got - whole));
            }
            if got != 0 && got < whole {
                return Err(DecodeError::Truncated);
            }
            Ok(Some(Found { length, value: payload }))
        }
        MISSING if payload.is_empty() => Ok(None),
        MISSING => Err(DecodeError::Trailing(payload.len())),
        unknown => Err(DecodeError::UnknownStatus(unknown)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn reply(value: &[u8]) -> Bytes {
        let mut reply = Vec::new();
        encode_found(value, &mut reply);
        reply.into()
    }

    proptest! {
        #[test]
        fn replies_survive_the_wire(value in vec(any::<u8>(), 0..400)) {
            let found = decode_reply(reply(&value)).unwrap().unwrap();
            prop_assert_eq!((found.length as usize, &found.value[..]), (value.len(), &value[..]));
        }

        #[test]
        fn a_reply_of_another_length_is_refused(
            value in vec(any::<u8>(), 2..400),
            cut in 1..99_usize,
        ) {
            let cut = cut.min(value.len() - 1);
            let whole = reply(&value);
            let shorter = decode_reply(whole.slice(..whole.len() - cut));
            prop_assert_eq!(shorter, Err(DecodeError::Truncated));
            let longer = [&whole[..], b"x"].concat();
            prop_assert_eq!(decode_reply(longer.into()), Err(DecodeError::Trailing(1)));
        }

        #[test]
        fn decoding_never_panics(payload in vec(any::<u8>(), 0..99)) {
            let _ = decode_reply(payload.into());
        }
    }

    #[test]
    fn the_layout_is_as_documented() {
        assert_eq!(&reply(b"v")[..], b"\0\x01\0\0\0v");
        assert_eq!(&reply(b"v")[..HEAD], b"\0\x01\0\0\0");
        assert_eq!(decode_reply(missing()), Ok(None));
        assert_eq!(decode_reply(Bytes::from_static(b"\x01\x01")), Err(DecodeError::Trailing(1)));
        assert_eq!(decode_reply(Bytes::from_static(b"\x07")), Err(DecodeError::UnknownStatus(7)));
        let head = decode_reply(Bytes::from_static(b"\0\x09\0\0\0")).unwrap().unwrap();
        assert_eq!((head.length, head.value.len()), (9, 0));
    }

    #[test]
    fn keys_have_a_length() {
        assert_eq!(check_key(b""), Err(DecodeError::KeyLength(0)));
        assert_eq!(check_key(&[b'k'; KEY_BYTES_MAX]), Ok(()));
        assert!(check_key(&[b'k'; KEY_BYTES_MAX + 1]).is_err());
    }
}
