//! What is told apart of a request: its features, and their values as hashes.

use core::fmt;

use super::Route;
use crate::random::mix;

/// Headers whose values may be told apart.
pub const HEADERS_MAX: usize = 5;

/// Features of a request: route, method, size, and headers.
pub(super) const FEATURES: usize = 3 + HEADERS_MAX;

/// Bytes of a value's text that are kept for names.
const TEXT_MAX: usize = 48;

/// Upper bounds of all sizes but the largest, in bytes.
const SIZES: [u64; 12] = [
    0,
    1 << 8,
    1 << 10,
    1 << 12,
    1 << 14,
    1 << 16,
    1 << 18,
    1 << 20,
    1 << 22,
    1 << 24,
    1 << 26,
    1 << 28,
];

/// A request as far as it can be seen from outside.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method: `GET`.
    pub method: &'a str,
    /// The path, with or without a query.
    pub path: &'a str,
    /// Bytes of its body, if it says so.
    pub size: Option<u64>,
    /// The values of the headers that the configuration names, in its order; `None` for one that
    /// is not there or is no text.
    pub headers: &'a [Option<&'a str>],
}

/// The values of a request's features, as hashes: what to keep of a request until it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub(super) [u64; FEATURES]);

/// One of a request's features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    Route,
    Method,
    Size,
    Header(usize),
}

impl Feature {
    pub(super) fn at(index: usize) -> Self {
        match index {
            0 => Self::Route,
            1 => Self::Method,
            2 => Self::Size,
            header => Self::Header(header - 3),
        }
    }

    /// Whether its values have an order, so that it is cut in two and no value stands alone.
    pub(super) fn is_ordered(self) -> bool {
        self == Self::Size
    }
}

impl Key {
    /// Of a header that is not there, and of a size that is not told, the value is 0.
    pub(super) fn of(seed: u64, request: &Request<'_>) -> Self {
        let hasher = Hasher::new(seed);
        let mut values = [0; FEATURES];
        values[0] = Route::of(request.path).hash(hasher).finish();
        values[1] = hasher.text(request.method).finish();
        values[2] = request.size.map_or(0, |size| 1 + size_row(size) as u64);
        for (value, header) in values[3..].iter_mut().zip(request.headers) {
            *value = header.map_or(0, |text| hasher.text(text).finish());
        }
        Self(values)
    }
}

fn size_row(size: u64) -> usize {
    SIZES.partition_point(|most| *most < size)
}

/// The largest size in bytes below a value of [`Feature::Size`], which is 2 or more.
pub(super) fn size_below(value: u64) -> u64 {
    SIZES[(value as usize).clamp(2, SIZE_VALUES - 1) - 2]
}

/// How many values [`Feature::Size`] has.
pub(super) const SIZE_VALUES: usize = SIZES.len() + 2;

/// Hashes text, eight bytes at a time. Seeded, so that nobody outside knows what falls together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hasher(u64);

impl Hasher {
    pub(super) fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x9e37_79b9_7f4a_7c15))
    }

    pub(super) fn number(self, number: u64) -> Self {
        Self(mix(self.0 ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15))
    }

    pub(super) fn text(self, text: &str) -> Self {
        let mut hasher = self.number(text.len() as u64);
        for chunk in text.as_bytes().chunks(8) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            hasher = hasher.number(u64::from_le_bytes(bytes));
        }
        hasher
    }

    /// Never 0, which stands for what is not there.
    pub(super) fn finish(self) -> u64 {
        self.0.max(1)
    }
}

/// The beginning of a text, in place: kept for names, and replaced without allocating.
#[derive(Clone, Copy)]
pub(super) struct Text {
    bytes: [u8; TEXT_MAX],
    len: u8,
    is_cut: bool,
}

impl Default for Text {
    fn default() -> Self {
        Self { bytes: [0; TEXT_MAX], len: 0, is_cut: false }
    }
}

impl Text {
    /// The value of one feature of a request, as a person reads it.
    pub(super) fn of(feature: Feature, request: &Request<'_>) -> Self {
        let mut text = Self::default();
        // Writing to it never fails.
        let _ = match feature {
            Feature::Route => fmt::write(&mut text, format_args!("{}", Route::of(request.path))),
            Feature::Method => fmt::Write::write_str(&mut text, request.method),
            Feature::Size => Ok(()), // named by its bounds
            Feature::Header(header) => {
                let value = request.headers.get(header).copied().flatten();
                fmt::Write::write_str(&mut text, value.unwrap_or("(none)"))
            }
        };
        text
    }

    pub(super) fn from(text: &str) -> Self {
        let mut this = Self::default();
        let _ = fmt::Write::write_str(&mut this, text);
        this
    }

    pub(super) fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.len);
        let mut len = text.len().min(TEXT_MAX - start);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        self.is_cut |= len < text.len();
        self.bytes[start..start + len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len as u8;
        Ok(())
    }
}

impl fmt::Display for Text {
    /// What others sent is shown without control characters, which a terminal would obey.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.as_str().chars() {
            fmt::Write::write_char(f, if c.is_control() { '\u{fffd}' } else { c })?;
        }
        if self.is_cut { f.write_str("…") } else { Ok(()) }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn sizes_fall_into_rows_whose_least_is_known() {
        for (size, row) in [(0, 0), (1, 1), (256, 1), (257, 2), (1 << 28, 11), (u64::MAX, 12)] {
            assert_eq!(size_row(size), row);
            assert!(row == 0 || size_below(row as u64 + 1) < size);
        }
        assert_eq!(SIZE_VALUES, 1 + size_row(u64::MAX) + 1);
    }

    #[test]
    fn texts_are_cut_between_characters_and_shown_without_controls() {
        let long = "ä".repeat(60);
        let text = Text::from(&long);
        assert_eq!(text.to_string(), "ä".repeat(24) + "…");
        assert_eq!(Text::from("a\u{1b}[2J").to_string(), "a\u{fffd}[2J");
    }

    #[test]
    fn texts_that_differ_in_length_alone_hash_differently() {
        let hash = |text: &str| Hasher::new(3).text(text).finish();
        assert_ne!(hash("a"), hash("a\0"));
        assert_ne!(hash(""), 0);
        assert_ne!(Hasher::new(4).text("a").finish(), hash("a"));
    }
}
