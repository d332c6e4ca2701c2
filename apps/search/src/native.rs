//! The native protocol's payloads.
//!
//! [`SEARCH`] is the one method. Numbers are little-endian.
//!
//! | | payload |
//! |---|---|
//! | request | hits wanted (u16), the query (UTF-8) |
//! | reply | matching documents (u32), number of hits (u16), the hits |
//! | hit | document (u32), score (f32), length of the text (u16), the text (UTF-8) |

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

use crate::engine::{Found, Hit};

/// Searches. Neither the key-value store nor the synthetic service has a method of this number, so
/// that a load which meets a server of another kind fails instead of measuring nonsense.
pub const SEARCH: u16 = 201;

/// Longest text that a reply shows of a document, bytes.
pub const TEXT_BYTES_MAX: usize = 1_000;

/// Why a payload could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It ends too early.
    #[error("the payload ends too early")]
    Truncated,
    /// It has more bytes than it should.
    #[error("the payload has {0} bytes too many")]
    Trailing(usize),
    /// A text is not UTF-8.
    #[error("the text is not UTF-8")]
    Text,
}

/// The payload of a search for the best `limit` documents.
pub fn encode_request(words: &str, limit: u16) -> Bytes {
    let mut payload = BytesMut::with_capacity(2 + words.len());
    payload.put_u16_le(limit);
    payload.put_slice(words.as_bytes());
    payload.freeze()
}

/// The query of a request, and how many hits are wanted.
///
/// # Errors
///
/// If it is none; see [`DecodeError`].
pub fn decode_request(payload: &[u8]) -> Result<(&str, u16), DecodeError> {
    let (limit, words) = payload.split_first_chunk().ok_or(DecodeError::Truncated)?;
    let words = str::from_utf8(words).map_err(|_| DecodeError::Text)?;
    Ok((words, u16::from_le_bytes(*limit)))
}

/// The payload of a reply, with the first [`TEXT_BYTES_MAX`] bytes of each text.
pub fn encode_reply(found: &Found) -> Bytes {
    let mut payload = BytesMut::new();
    payload.put_u32_le(found.total);
    payload.put_u16_le(found.hits.len() as u16);
    for hit in &found.hits {
        let shown = &hit.text[..hit.text.floor_char_boundary(TEXT_BYTES_MAX)];
        payload.put_u32_le(hit.document);
        payload.put_f32_le(hit.score);
        payload.put_u16_le(shown.len() as u16);
        payload.put_slice(shown.as_bytes());
    }
    payload.freeze()
}

/// What a reply says was found.
///
/// # Errors
///
/// If it is none; see [`DecodeError`].
pub fn decode_reply(mut payload: Bytes) -> Result<Found, DecodeError> {
    let total = payload.try_get_u32_le().map_err(truncated)?;
    let count = payload.try_get_u16_le().map_err(truncated)?;
    let mut hits = Vec::new();
    for _ in 0..count {
        let document = payload.try_get_u32_le().map_err(truncated)?;
        let score = payload.try_get_f32_le().map_err(truncated)?;
        let length = usize::from(payload.try_get_u16_le().map_err(truncated)?);
        if payload.len() < length {
            return Err(DecodeError::Truncated);
        }
        let text = payload.split_to(length);
        let text = str::from_utf8(&text).map_err(|_| DecodeError::Text)?.into();
        hits.push(Hit { document, score, text });
    }
    if payload.is_empty() {
        Ok(Found { total, hits })
    } else {
        Err(DecodeError::Trailing(payload.len()))
    }
}

fn truncated(_: bytes::TryGetError) -> DecodeError {
    DecodeError::Truncated
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn found() -> impl Strategy<Value = Found> {
        let hit = (any::<u32>(), 0.0_f32..100.0, "\\PC{0,80}").prop_map(
            |(document, score, text): (_, _, String)| Hit { document, score, text: text.into() },
        );
        (any::<u32>(), vec(hit, 0..12)).prop_map(|(total, hits)| Found { total, hits })
    }

    proptest! {
        #[test]
        fn requests_survive_the_wire(words in "\\PC{0,80}", limit: u16) {
            let payload = encode_request(&words, limit);
            prop_assert_eq!(decode_request(&payload), Ok((words.as_str(), limit)));
        }

        #[test]
        fn replies_survive_the_wire(found in found()) {
            prop_assert_eq!(decode_reply(encode_reply(&found)), Ok(found));
        }

        #[test]
        fn a_reply_of_another_length_is_refused(found in found(), cut in 1..100_usize) {
            let whole = encode_reply(&found);
            let cut = whole.slice(..whole.len().saturating_sub(cut));
            prop_assert!(decode_reply(cut).is_err());
            let longer = [&whole[..], b"x"].concat();
            prop_assert_eq!(decode_reply(longer.into()), Err(DecodeError::Trailing(1)));
        }

        #[test]
        fn decoding_never_panics(payload in vec(any::<u8>(), 0..200)) {
            let _ = decode_request(&payload);
            let _ = decode_reply(payload.into());
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = "ö".repeat(TEXT_BYTES_MAX);
        let hit = Hit { document: 1, score: 1.0, text: format!("x{text}").into() };
        let reply = decode_reply(encode_reply(&Found { total: 1, hits: vec![hit] })).unwrap();
        assert_eq!(reply.hits[0].text.len(), TEXT_BYTES_MAX - 1);
    }

    #[test]
    fn the_layout_is_as_documented() {
        assert_eq!(&encode_request("sea", 0x0102)[..], b"\x02\x01sea");
        let hit = Hit { document: 3, score: 1.0, text: "t".into() };
        let reply = encode_reply(&Found { total: 9, hits: vec![hit] });
        assert_eq!(&reply[..], b"\x09\0\0\0\x01\0\x03\0\0\0\0\0\x80\x3f\x01\0t");
        assert_eq!(decode_request(b"\x01"), Err(DecodeError::Truncated));
        assert_eq!(decode_request(b"\x01\0\xff"), Err(DecodeError::Text));
    }
}
