//! What can be set about searching.

use seawall_control::config::ConfigError;
use seawall_control::predict::lock::LockKind;
use serde::{Deserialize, Serialize};

/// Kinds of locks, and how much the readers may keep. All segments share what is said here, each
/// according to its size.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineConfig {
    /// What a request does when a lock is taken. Default: `larger`; any of [`LockKind`].
    pub locks: LockKind,
    /// Memory of decoded posting lists, KiB; 8 bytes for each document of a list. A list that is
    /// larger than all of it is kept until the next. Default: 16384. Range: 0 to 2^30.
    ///
    /// Lists that do not fit are decoded again, under the segment's lock.
    pub postings_kib: u64,
    /// Memory of texts that were shown, KiB. Default: 4096. Range: 0 to 2^30.
    ///
    /// Texts that do not fit are decompressed again, under the segment's lock.
    pub texts_kib: u64,
    /// Terms whose statistics are kept. Default: 65536. Range: 1 to 2^30.
    pub terms: usize,
}

/// What one segment's reader may keep, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) postings: usize,
    pub(super) texts: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        let locks = LockKind::default();
        Self { locks, postings_kib: 16 << 10, texts_kib: 4 << 10, terms: 1 << 16 }
    }
}

impl EngineConfig {
    /// Checks every field against its range.
    ///
    /// # Errors
    ///
    /// Names the first field that lies outside of its range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("postings_kib", self.postings_kib, 0..=1 << 30)?;
        ConfigError::check_range("texts_kib", self.texts_kib, 0..=1 << 30)?;
        ConfigError::check_range("terms", self.terms, 1..=1 << 30)
    }

    /// The part of a segment that has `share` of all documents.
    pub(super) fn scaled(&self, share: f64) -> Room {
        let bytes = |kib: u64| (kib as f64 * 1024.0 * share) as usize;
        Room { postings: bytes(self.postings_kib), texts: bytes(self.texts_kib) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_by_name() {
        EngineConfig::default().validate().unwrap();
        for (field, text) in [
            ("postings_kib", "postings_kib = 2000000000"),
            ("texts_kib", "texts_kib = 2000000000"),
            ("terms", "terms = 0"),
        ] {
            let config: EngineConfig = toml::from_str(text).unwrap();
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
        assert!(toml::from_str::<EngineConfig>("lock = 'plain'").is_err());
        let plain: EngineConfig = toml::from_str("locks = 'plain'").unwrap();
        assert_eq!(plain.locks, LockKind::Plain);
    }
}
