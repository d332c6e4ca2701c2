//! Blocks of tagged entries: what is variable in a frame.
//!
//! An entry is tag (2 bytes), length (2 bytes), value. The extension block of a request and the
//! bodies of hello and settings are made of them. Unknown tags are skipped, so that old code reads
//! new frames.

use alloc::string::String;
use alloc::vec::Vec;

/// Longest value of an entry, in bytes.
pub const MAX_ENTRY: usize = u16::MAX as usize;

/// Longest text in an entry, in bytes: names are for people.
pub(super) const MAX_TEXT: usize = 4096;

/// Appends an entry to `block`.
///
/// # Panics
///
/// If `value` is longer than [`MAX_ENTRY`]: callers bound what they put here.
pub fn push_entry(block: &mut Vec<u8>, tag: u16, value: &[u8]) {
    let len = u16::try_from(value.len()).expect("an entry's value has at most 65535 bytes");
    block.extend_from_slice(&tag.to_le_bytes());
    block.extend_from_slice(&len.to_le_bytes());
    block.extend_from_slice(value);
}

/// As much of `text` as goes on the wire.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// Reads text: what is not UTF-8 is repaired, what is too long is cut. The sender is not punished,
/// and what comes out can be sent on.
pub(super) fn text(value: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(value).into_owned();
    text.truncate(cut(&text).len());
    text
}

/// The entries of a block, in order. An entry that reaches beyond the block ends it with an error.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a>(&'a [u8]);

impl<'a> Entries<'a> {
    /// Reads `block` from its start.
    pub const fn new(block: &'a [u8]) -> Self {
        Self(block)
    }

    /// The value of the first entry with this tag.
    ///
    /// # Errors
    ///
    /// [`BadBlock`](super::DecodeError::BadBlock) if the block is malformed up to there.
    pub fn find(self, tag: u16) -> Result<Option<&'a [u8]>, super::DecodeError> {
        for entry in self {
            let (found, value) = entry?;
            if found == tag {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(u16, &'a [u8]), super::DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.0.split_first_chunk::<4>().and_then(|(head, rest)| {
            let tag = u16::from_le_bytes([head[0], head[1]]);
            let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
            let (value, rest) = rest.split_at_checked(len)?;
            self.0 = rest;
            Some((tag, value))
        });
        if entry.is_none() {
            self.0 = &[];
        }
        Some(entry.ok_or(super::DecodeError::BadBlock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::DecodeError;

    #[test]
    fn entries_read_back_and_unknown_tags_are_skipped() {
        let mut block = Vec::new();
        push_entry(&mut block, 7, b"seven");
        push_entry(&mut block, 1, b"");
        assert_eq!(Entries::new(&block).find(1), Ok(Some(&b""[..])));
        assert_eq!(Entries::new(&block).find(7), Ok(Some(&b"seven"[..])));
        assert_eq!(Entries::new(&block).find(2), Ok(None));
    }

    #[test]
    fn text_is_repaired_and_cut_between_characters() {
        assert_eq!(text(b"a\xffb"), "a\u{fffd}b");
        let long = [0xff; MAX_TEXT];
        assert_eq!(text(&long).len(), MAX_TEXT / 3 * 3);
        assert_eq!(cut(&"é".repeat(MAX_TEXT)).len(), MAX_TEXT);
    }

    #[test]
    fn a_cut_entry_ends_the_block_with_an_error() {
        let mut block = Vec::new();
        push_entry(&mut block, 7, b"seven");
        block.pop();
        let mut entries = Entries::new(&block);
        assert_eq!(entries.next(), Some(Err(DecodeError::BadBlock)));
        assert_eq!(entries.next(), None);
    }
}
