//! A small binary encoding of get, set and delete, for an RPC system that frames its messages and
//! numbers its methods.
//!
//! The method number travels in the RPC's own header ([`GET`], [`SET`], [`DELETE`]), so that a
//! payload needs no opcode. Numbers are little-endian. A field without a length takes what is left
//! of the payload.
//!
//! ```text
//! request   GET      key
//!           SET      flags u32 │ exptime i64 │ key_len u16 │ key │ value
//!           DELETE   key
//!
//! reply     status u8, then
//!           0 Hit       flags u32 │ value
//!           1 Miss
//!           2 Stored
//!           3 Deleted
//!           4 NotFound
//! ```
//!
//! A write that the store cannot carry out has no reply: it fails the call, as the RPC system tells
//! failures.
//!
//! Keys are 1 to 250 bytes of any kind; `exptime` is the text protocol's ([`Exptime`]). Decoding
//! checks everything that a peer may get wrong and copies nothing: keys and values are slices of
//! the payload.
//!
//! ```
//! use bytes::{Bytes, BytesMut};
//! use seawall_kv::native::Request;
//!
//! let request = Request::Get { key: Bytes::from_static(b"greeting") };
//! let mut payload = BytesMut::new();
//! request.encode(&mut payload);
//! assert_eq!(Request::decode(request.method(), payload.freeze()), Ok(request));
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use seawall_control::request::Context;

use crate::store::{Entry, KEY_BYTES_MAX, Store, StoreError};
use crate::time::{Exptime, UnixTime};

/// Method number of [`Request::Get`].
pub const GET: u16 = 1;
/// Method number of [`Request::Set`].
pub const SET: u16 = 2;
/// Method number of [`Request::Delete`].
pub const DELETE: u16 = 3;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Look up a key.
    Get {
        /// The key.
        key: Bytes,
    },
    /// Store a value in any case.
    Set {
        /// The key.
        key: Bytes,
        /// The value.
        value: Bytes,
        /// To be returned with the value.
        flags: u32,
        /// When the item expires.
        exptime: Exptime,
    },
    /// Remove a key.
    Delete {
        /// The key.
        key: Bytes,
    },
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The key's value.
    Hit {
        /// The value.
        value: Bytes,
        /// What it was stored with.
        flags: u32,
    },
    /// There is no such item.
    Miss,
    /// The value has been stored.
    Stored,
    /// The item has been removed.
    Deleted,
    /// There was no item to remove.
    NotFound,
}

/// Why a payload could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// No method has this number.
    #[error("unknown method {0}")]
    UnknownMethod(u16),
    /// No reply has this status.
    #[error("unknown status {0}")]
    UnknownStatus(u8),
    /// The payload ends within a field.
    #[error("payload too short")]
    Truncated,
    /// The payload goes on after its last field.
    #[error("{0} bytes after the end of the message")]
    Trailing(usize),
    /// A key is 1 to 250 bytes long.
    #[error("a key of {0} bytes, allowed are 1 to {KEY_BYTES_MAX}")]
    KeyLength(usize),
}

/// What the reply to a lookup has before the value, bytes.
pub(crate) const HIT_HEAD: usize = 5;

const HIT: u8 = 0;
const MISS: u8 = 1;
const STORED: u8 = 2;
const DELETED: u8 = 3;
const NOT_FOUND: u8 = 4;

impl Request {
    /// The method number under which the payload has to be sent.
    pub const fn method(&self) -> u16 {
        match self {
            Self::Get { .. } => GET,
            Self::Set { .. } => SET,
            Self::Delete { .. } => DELETE,
        }
    }

    /// The key that it is about.
    pub const fn key(&self) -> &Bytes {
        match self {
            Self::Get { key } | Self::Set { key, .. } | Self::Delete { key } => key,
        }
    }

    /// Appends the payload to `out`.
    ///
    /// # Panics
    ///
    /// If the key is not 1 to [`KEY_BYTES_MAX`] bytes long, which its user has to see to.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Get { key } | Self::Delete { key } => {
                assert_eq!(check_key(key), Ok(()));
                out.put_slice(key);
            }
            Self::Set { key, value, flags, exptime } => {
                assert_eq!(check_key(key), Ok(()));
                out.reserve(14 + key.len() + value.len());
                out.put_u32_le(*flags);
                out.put_i64_le(exptime.to_wire());
                out.put_u16_le(key.len() as u16);
                out.put_slice(key);
                out.put_slice(value);
            }
        }
    }

    /// Reads the payload of a request for method number `method`.
    ///
    /// # Errors
    ///
    /// If it is not one; see [`DecodeError`].
    pub fn decode(method: u16, mut payload: Bytes) -> Result<Self, DecodeError> {
        match method {
            GET => check_key(&payload).map(|()| Self::Get { key: payload }),
            DELETE => check_key(&payload).map(|()| Self::Delete { key: payload }),
            SET => {
                let flags = payload.try_get_u32_le().map_err(truncated)?;
                let exptime = payload.try_get_i64_le().map_err(truncated)?;
                let key_len = usize::from(payload.try_get_u16_le().map_err(truncated)?);
                if payload.len() < key_len {
                    return Err(DecodeError::Truncated);
                }
                let key = payload.split_to(key_len);
                check_key(&key)?;
                Ok(Self::Set { key, value: payload, flags, exptime: Exptime::from_wire(exptime) })
            }
            unknown => Err(DecodeError::UnknownMethod(unknown)),
        }
    }
}

impl Reply {
    /// Appends the payload to `out`.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Hit { value, flags } => {
                out.reserve(HIT_HEAD + value.len());
                out.put_u8(HIT);
                out.put_u32_le(*flags);
                out.put_slice(value);
            }
            Self::Miss => out.put_u8(MISS),
            Self::Stored => out.put_u8(STORED),
            Self::Deleted => out.put_u8(DELETED),
            Self::NotFound => out.put_u8(NOT_FOUND),
        }
    }

    /// Reads the payload of a reply.
    ///
    /// # Errors
    ///
    /// If it is not one; see [`DecodeError`].
    pub fn decode(mut payload: Bytes) -> Result<Self, DecodeError> {
        let reply = match payload.try_get_u8().map_err(truncated)? {
            HIT => {
                let flags = payload.try_get_u32_le().map_err(truncated)?;
                return Ok(Self::Hit { value: payload, flags });
            }
            MISS => Self::Miss,
            STORED => Self::Stored,
            DELETED => Self::Deleted,
            NOT_FOUND => Self::NotFound,
            unknown => return Err(DecodeError::UnknownStatus(unknown)),
        };
        if payload.is_empty() { Ok(reply) } else { Err(DecodeError::Trailing(payload.len())) }
    }
}

/// Carries out `request` at `now`; `ctx` says how long it may wait for locks.
///
/// # Errors
///
/// Why the store does not take what was to be written, or [`StoreError::Rejected`].
pub fn execute(
    store: &Store,
    ctx: &Context,
    now: UnixTime,
    request: &Request,
) -> Result<Reply, StoreError> {
    Ok(match request {
        Request::Get { key } => match store.get(ctx, now, key)? {
            Some(found) => Reply::Hit { value: found.data, flags: found.flags },
            None => Reply::Miss,
        },
        Request::Set { key, value, flags, exptime } => {
            let entry = Entry { key, value, flags: *flags, exptime: *exptime };
            store.set(ctx, now, &entry)?;
            Reply::Stored
        }
        Request::Delete { key } if store.delete(ctx, now, key)? => Reply::Deleted,
        Request::Delete { .. } => Reply::NotFound,
    })
}

fn check_key(key: &[u8]) -> Result<(), DecodeError> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(DecodeError::KeyLength(key.len()));
    }
    Ok(())
}

fn truncated(_: bytes::TryGetError) -> DecodeError {
    DecodeError::Truncated
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use seawall_control::Instant;
    use seawall_control::request::Claims;

    use super::*;
    use crate::store::{Config, PAGE_BYTES};

    const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);

    fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
        vec(any::<u8>(), 0..max).prop_map(Bytes::from)
    }

    fn key() -> impl Strategy<Value = Bytes> {
        vec(any::<u8>(), 1..=KEY_BYTES_MAX).prop_map(Bytes::from)
    }

    fn request() -> impl Strategy<Value = Request> {
        let set = (key(), bytes(400), any::<u32>(), any::<i64>()).prop_map(
            |(key, value, flags, exptime)| Request::Set {
                key,
                value,
                flags,
                exptime: Exptime::from_wire(exptime),
            },
        );
        prop_oneof![
            key().prop_map(|key| Request::Get { key }),
            key().prop_map(|key| Request::Delete { key }),
            set,
        ]
    }

    fn reply() -> impl Strategy<Value = Reply> {
        prop_oneof![
            (bytes(400), any::<u32>()).prop_map(|(value, flags)| Reply::Hit { value, flags }),
            Just(Reply::Miss),
            Just(Reply::Stored),
            Just(Reply::Deleted),
            Just(Reply::NotFound),
        ]
    }

    proptest! {
        #[test]
        fn requests_survive_the_wire(request in request()) {
            let mut payload = BytesMut::new();
            request.encode(&mut payload);
            prop_assert_eq!(Request::decode(request.method(), payload.freeze()), Ok(request));
        }

        #[test]
        fn replies_survive_the_wire(reply in reply()) {
            let mut payload = BytesMut::new();
            reply.encode(&mut payload);
            prop_assert_eq!(Reply::decode(payload.freeze()), Ok(reply));
        }

        #[test]
        fn decoding_never_panics(method in 0..5u16, payload in bytes(600)) {
            let _ = Request::decode(method, payload.clone());
            let _ = Reply::decode(payload);
        }

        #[test]
        fn a_set_cut_short_is_refused_or_has_a_shorter_value(
            request in request(),
            cut in 0..1000usize,
        ) {
            let mut payload = BytesMut::new();
            request.encode(&mut payload);
            payload.truncate(cut);
            if let (Ok(Request::Set { key, value, .. }), Request::Set { key: k, value: v, .. }) =
                (Request::decode(request.method(), payload.freeze()), &request)
            {
                prop_assert!(key == *k && v.starts_with(&value));
            }
        }
    }

    #[test]
    fn the_layout_is_as_documented() {
        let (key, value) = (Bytes::from_static(b"key"), Bytes::from_static(b"value"));
        let set = Request::Set { key, value, flags: 0x0102_0304, exptime: Exptime::from_wire(-2) };
        let mut payload = BytesMut::new();
        set.encode(&mut payload);
        let expected = b"\x04\x03\x02\x01\xfe\xff\xff\xff\xff\xff\xff\xff\x03\x00keyvalue";
        assert_eq!(&payload[..], expected);
        let mut payload = BytesMut::new();
        Reply::Hit { value: Bytes::from_static(b"v"), flags: 5 }.encode(&mut payload);
        assert_eq!(&payload[..], b"\x00\x05\x00\x00\x00v");
    }

    #[test]
    fn what_a_peer_can_get_wrong() {
        let decode = |payload: &'static [u8]| Reply::decode(Bytes::from_static(payload));
        assert_eq!(decode(b""), Err(DecodeError::Truncated));
        assert_eq!(decode(b"\x00\x01"), Err(DecodeError::Truncated));
        assert_eq!(decode(b"\x01\x01"), Err(DecodeError::Trailing(1)));
        assert_eq!(decode(b"\x09"), Err(DecodeError::UnknownStatus(9)));
        assert_eq!(Request::decode(GET, Bytes::new()), Err(DecodeError::KeyLength(0)));
        let long = Bytes::from(vec![0; 251]);
        assert_eq!(Request::decode(DELETE, long), Err(DecodeError::KeyLength(251)));
        assert_eq!(Request::decode(9, Bytes::new()), Err(DecodeError::UnknownMethod(9)));
    }

    #[test]
    fn requests_are_carried_out() {
        let store = Store::with_seed(&Config::default(), 1).unwrap();
        let ctx = Context::new(Claims::default(), Instant::ORIGIN);
        let key = Bytes::from_static(b"k");
        let get = Request::Get { key: key.clone() };
        let set = |value: &[u8]| Request::Set {
            key: key.clone(),
            value: Bytes::copy_from_slice(value),
            flags: 3,
            exptime: Exptime::from_wire(10),
        };
        assert_eq!(execute(&store, &ctx, NOW, &get), Ok(Reply::Miss));
        assert_eq!(execute(&store, &ctx, NOW, &set(b"v")), Ok(Reply::Stored));
        let hit = Reply::Hit { value: Bytes::from_static(b"v"), flags: 3 };
        assert_eq!(execute(&store, &ctx, NOW, &get), Ok(hit));
        let later = UnixTime::from_secs(NOW.as_secs() + 10);
        assert_eq!(execute(&store, &ctx, later, &get), Ok(Reply::Miss));
        let refused = execute(&store, &ctx, NOW, &set(&vec![0; PAGE_BYTES])).unwrap_err();
        assert!(refused.to_string().contains("at most 1048576 fit"), "{refused}");
    }
}
