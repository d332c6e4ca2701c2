//! Text that must not be seen in logs.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

/// A token. Its `Debug` form shows nothing of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The token itself.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// True when it equals `shown`; takes a time that does not tell where the first difference is.
    pub fn matches(&self, shown: &[u8]) -> bool {
        let expected = self.as_bytes();
        expected.len() == shown.len()
            && expected.iter().zip(shown).fold(0, |different, (a, b)| different | (a ^ b)) == 0
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn matches_only_itself_and_shows_nothing() {
        let secret = Secret::from("0123456789abcdef");
        assert!(secret.matches(b"0123456789abcdef"));
        assert!(!secret.matches(b"0123456789abcdeX") && !secret.matches(b"0123456789abcde"));
        assert_eq!(format!("{:?}", Some(secret)), "Some(***)");
    }
}
