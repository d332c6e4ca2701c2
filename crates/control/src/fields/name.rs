//! Short texts that travel in the field.

use core::fmt;
use core::hash::{Hash, Hasher};

/// A short text of printable ASCII: what a client calls itself, or the name of a stage.
///
/// It lies where it is used, so that reading one allocates nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Zero beyond `len`, so that equal names are equal in all bytes.
    bytes: [u8; Self::MAX_LEN],
    len: u8,
}

impl Name {
    /// Bytes of the longest name.
    pub const MAX_LEN: usize = 64;

    /// `text` as a name; `None` if it is empty, longer than [`MAX_LEN`](Self::MAX_LEN), or not all
    /// printable ASCII.
    pub fn new(text: &str) -> Option<Self> {
        Self::collect(text.bytes())
    }

    /// The nearest name to `text`: cut where it is too long, with `_` for what cannot travel.
    pub fn lossy(text: &str) -> Self {
        let repair = |c: char| if is_printable(c) { c as u8 } else { b'_' };
        let text = if text.is_empty() { "_" } else { text };
        let repaired = text.chars().map(repair).take(Self::MAX_LEN);
        Self::collect(repaired).expect("at least one printable byte, and no more than fit")
    }

    /// The inside of a quoted string, in which a backslash hides the next character.
    pub(super) fn unquote(quoted: &[u8]) -> Option<Self> {
        let mut bytes = quoted.iter().copied();
        Self::collect(core::iter::from_fn(|| match bytes.next() {
            Some(b'\\') => bytes.next(),
            byte => byte,
        }))
    }

    fn collect(text: impl Iterator<Item = u8>) -> Option<Self> {
        let mut name = Self { bytes: [0; Self::MAX_LEN], len: 0 };
        for byte in text {
            if !is_printable(byte.into()) {
                return None;
            }
            *name.bytes.get_mut(usize::from(name.len))? = byte;
            name.len += 1;
        }
        (name.len > 0).then_some(name)
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).expect("a name is ASCII")
    }
}

/// Whether a string of a structured field may hold it (RFC 9651 §3.3.3).
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~')
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

/// As a string of a structured field, in quotes.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for part in self.as_str().split_inclusive(['"', '\\']) {
            match part.strip_suffix(['"', '\\']) {
                Some(before) => {
                    f.write_str(before)?;
                    f.write_str("\\")?;
                    f.write_str(&part[before.len()..])?;
                }
                None => f.write_str(part)?,
            }
        }
        f.write_str("\"")
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn only_short_printable_texts_are_names() {
        let longest = "x".repeat(Name::MAX_LEN);
        assert_eq!(Name::new(&longest).unwrap().as_str(), longest);
        for bad in ["", "tab\t", "é", &"x".repeat(Name::MAX_LEN + 1)] {
            assert_eq!(Name::new(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn others_are_repaired() {
        assert_eq!(Name::lossy("caché\n").as_str(), "cach__");
        assert_eq!(Name::lossy("").as_str(), "_");
        assert_eq!(Name::lossy(&"é".repeat(99)).as_str(), "_".repeat(Name::MAX_LEN));
    }

    #[test]
    fn quotes_and_backslashes_are_hidden_and_come_back() {
        let name = Name::new(r#"a"b\"#).unwrap();
        assert_eq!(name.to_string(), r#""a\"b\\""#);
        assert_eq!(Name::unquote(br#"a\"b\\"#), Some(name));
    }
}
