//! Paths with their numbers and ids taken out: `/users/123/orders/9f3c61d2` is
//! `/users/:n/orders/:id`.
//!
//! Two requests of the same route are handled by the same code. Which one exactly is asked for is
//! told by what is taken out, of which there is no end.

use core::fmt;

use super::value::Hasher;

/// Parts of a path that are looked at; what follows them is one more, `…`.
pub const PARTS_MAX: usize = 12;

/// A part that is longer than this is taken for an id.
const LITERAL_MAX: usize = 40;

/// A part with letters that has at least so many characters, of which some are digits, is taken for
/// an id if the digits are [this many](ID_DIGITS).
const ID_MIN: usize = 16;
const ID_DIGITS: usize = 3;

/// Hexadecimal digits that make an id, if there is a decimal one among them: words like `facade`
/// have none.
const HEX_MIN: usize = 8;

/// A path whose numbers and ids are taken out. It borrows the path, and allocates nothing.
///
/// ```
/// use seawall_control::classes::Route;
///
/// assert_eq!(Route::of("/users/123/orders/9f3c61d2?full=1").to_string(), "/users/:n/orders/:id");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    path: &'a str,
}

/// One part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    Literal(&'a str),
    Number,
    Id,
    Rest,
}

impl<'a> Route<'a> {
    /// The route of `path`, of which a query is cut off.
    pub fn of(path: &'a str) -> Self {
        Self { path: path.split(['?', '#']).next().unwrap_or_default() }
    }

    fn parts(self) -> impl Iterator<Item = Part<'a>> {
        let parts = self.path.split('/').filter(|part| !part.is_empty());
        parts.take(PARTS_MAX + 1).enumerate().map(|(index, part)| match index {
            PARTS_MAX => Part::Rest,
            _ => Part::of(part),
        })
    }

    /// Adds all parts to `hasher`.
    pub(super) fn hash(self, mut hasher: Hasher) -> Hasher {
        for part in self.parts() {
            hasher = match part {
                Part::Literal(text) => hasher.text(text),
                // Bytes that are in no text.
                Part::Number => hasher.number(0xff00),
                Part::Id => hasher.number(0xff01),
                Part::Rest => hasher.number(0xff02),
            };
        }
        hasher
    }
}

impl<'a> Part<'a> {
    fn of(part: &'a str) -> Self {
        if part.len() > LITERAL_MAX {
            return Self::Id;
        }
        let [mut digits, mut hex, mut dashes, mut marks] = [0; 4];
        for byte in part.bytes() {
            match byte {
                b'0'..=b'9' => digits += 1,
                b'a'..=b'f' | b'A'..=b'F' => hex += 1,
                b'-' => dashes += 1,
                b'_' | b'.' | b':' | b',' | b';' | b'+' => marks += 1,
                b'%' | b'@' | b'=' | 128.. => return Self::Id,
                _ => {}
            }
        }
        if digits == 0 {
            return Self::Literal(part);
        }
        if digits + dashes + marks == part.len() {
            return Self::Number;
        }
        let is_hex = digits + hex >= HEX_MIN && digits + hex + dashes == part.len();
        if is_hex || part.len() >= ID_MIN && digits >= ID_DIGITS {
            return Self::Id;
        }
        Self::Literal(part)
    }
}

impl fmt::Display for Route<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_empty = true;
        for part in self.parts() {
            is_empty = false;
            match part {
                Part::Literal(text) => write!(f, "/{text}")?,
                Part::Number => f.write_str("/:n")?,
                Part::Id => f.write_str("/:id")?,
                Part::Rest => f.write_str("/…")?,
            }
        }
        if is_empty { f.write_str("/") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use proptest::prelude::*;

    fn folded(path: &str) -> alloc::string::String {
        Route::of(path).to_string()
    }

    fn hash(path: &str) -> u64 {
        Route::of(path).hash(Hasher::new(7)).finish()
    }

    #[test]
    fn takes_out_numbers_and_ids_and_leaves_words() {
        for (path, route) in [
            ("/", "/"),
            ("", "/"),
            ("/users/123/orders/9f3c61d2", "/users/:n/orders/:id"),
            ("/users//123/", "/users/:n"),
            ("/v1/items/550e8400-e29b-41d4-a716-446655440000", "/v1/items/:id"),
            ("/days/2026-11-22/report", "/days/:n/report"),
            ("/shop.Cart/AddItem", "/shop.Cart/AddItem"),
            ("/facade/deadbeefcafe/decade", "/facade/deadbeefcafe/decade"),
            ("/u/ann@example.org/x%20y", "/u/:id/:id"),
            ("/s/eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "/s/:id"),
            ("/api/v2/oauth2/token?id=5#top", "/api/v2/oauth2/token"),
            ("/a/b/c/d/e/f/g/h/i/j/k/l/m/n", "/a/b/c/d/e/f/g/h/i/j/k/l/…"),
        ] {
            assert_eq!(folded(path), route);
        }
    }

    proptest! {
        #[test]
        fn the_same_route_has_the_same_hash(path in ".{0,200}", id in 0..u64::MAX) {
            let once = folded(&path);
            prop_assert!(once.starts_with('/'));
            prop_assert_eq!(hash(&path), hash(&path));
            prop_assert_eq!(hash(&format!("/a/{id}/b")), hash("/a/1/b"));
            prop_assert_eq!(hash(&format!("/a/f{id:016x}1/b")), hash("/a/f0112233445566771/b"));
        }
    }
}
