//! The store's configuration and the limits it is checked against.

use seawall_control::predict::lock::LockKind;
use serde::{Deserialize, Serialize};

/// Slab memory is taken in pages of this many bytes, as in memcached, or of the largest item's if
/// that is more.
pub const PAGE_BYTES: usize = 1 << 20;

/// The largest item that [`Config::item_bytes_max`] may allow, in bytes.
pub const ITEM_BYTES_MAX: usize = 8 << 20;

/// Longest key, in bytes, as in memcached.
pub const KEY_BYTES_MAX: usize = 250;

/// Chunk sizes are multiples of this, so that rounding never makes two size classes equal.
pub(super) const CHUNK_ALIGN: usize = 8;

/// How a [`Store`](super::Store) is laid out. All of it is fixed once the store is built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Memory for keys and values. Unit: MiB, which is also pages unless items may be larger.
    /// Default: 64. Range: 1 to 131072, and at least one item.
    ///
    /// This is the first thing to set for a real server. The hash table and about 100 bytes of
    /// bookkeeping per item come on top of it.
    pub memory_limit_mib: u32,

    /// Base-2 logarithm of the number of buckets, and so of item locks. Default: 16 (65 536
    /// buckets, 5 MiB). Range: 0 to 26.
    ///
    /// A bucket takes 80 bytes, of which its lock is 56, and some hundred more once somebody had
    /// to wait for it.
    ///
    /// The table does not grow. Raise this for many small items (buckets should not be fewer than
    /// a tenth of the items); lower it in an experiment that wants contention on item locks.
    pub hash_power: u8,

    /// Size of the smallest chunk. Unit: bytes of key and value together. Default: 96. Range: 48
    /// to 4096; rounded up to a multiple of 8.
    ///
    /// Lower it when most items are smaller than half of it.
    pub chunk_bytes_min: u32,

    /// Ratio between the sizes of neighbouring slab classes. Default: 1.25. Range: 1.05 to 4.
    ///
    /// A smaller factor wastes less memory inside chunks, a larger one leaves fewer classes
    /// between which pages can be stranded.
    pub growth_factor: f64,

    /// Largest item, key and value together, which is also the largest chunk. Unit: bytes.
    /// Default: 1 MiB (one page). Range: 1024 to 8 MiB.
    ///
    /// Lower it to refuse large values early; raise it to store larger ones (memcached's `-I`),
    /// which makes pages as large as the largest item. The native protocol carries requests of up
    /// to the server's `limits.body_bytes`.
    pub item_bytes_max: u32,

    /// Whether a full store makes room by evicting the least recently used item of the same slab
    /// class. Default: true.
    ///
    /// With `false` it refuses new items instead (memcached's `-M`).
    pub evict: bool,

    /// What a request does that comes to an item lock, or to the slab lock, which somebody has.
    /// Default: `larger`: it is refused if the predicted wait is longer than it may wait. Choices:
    /// those of [`LockKind`].
    ///
    /// Change it to compare: `plain` is an ordinary mutex, and `try` refuses whoever finds it
    /// taken.
    pub locks: LockKind,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory_limit_mib: 64,
            hash_power: 16,
            chunk_bytes_min: 96,
            growth_factor: 1.25,
            item_bytes_max: PAGE_BYTES as u32,
            evict: true,
            locks: LockKind::default(),
        }
    }
}

impl Config {
    /// Checks every field against its range.
    ///
    /// # Errors
    ///
    /// Names the first field that lies outside of its range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        // 128 GiB of the smallest chunks still number their slots in 32 bits.
        within("memory_limit_mib", f64::from(self.memory_limit_mib), 1.0, 131_072.0)?;
        // The bucket index and the tag are disjoint halves of one 64-bit hash.
        within("hash_power", f64::from(self.hash_power), 0.0, 26.0)?;
        within("chunk_bytes_min", f64::from(self.chunk_bytes_min), 48.0, 4096.0)?;
        within("growth_factor", self.growth_factor, 1.05, 4.0)?;
        within("item_bytes_max", f64::from(self.item_bytes_max), 1024.0, ITEM_BYTES_MAX as f64)?;
        let one_page = self.page_bytes().div_ceil(1 << 20);
        within("memory_limit_mib", f64::from(self.memory_limit_mib), one_page as f64, 131_072.0)?;
        if self.chunk_bytes_min > self.item_bytes_max {
            return Err(ConfigError::ChunkAboveItem {
                chunk_bytes_min: self.chunk_bytes_min,
                item_bytes_max: self.item_bytes_max,
            });
        }
        Ok(())
    }

    /// Bytes of a page.
    pub(super) fn page_bytes(&self) -> usize {
        PAGE_BYTES.max(self.item_bytes_max as usize)
    }

    /// How many pages there may be.
    pub(super) fn pages_max(&self) -> u32 {
        ((u64::from(self.memory_limit_mib) << 20) / self.page_bytes() as u64) as u32
    }
}

fn within(field: &'static str, value: f64, min: f64, max: f64) -> Result<(), ConfigError> {
    // Written so that NaN is refused too.
    if value >= min && value <= max {
        return Ok(());
    }
    Err(ConfigError::OutOfRange { field, value, min, max })
}

/// Why a [`Config`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A field lies outside of its range.
    #[error("`{field}` is {value}, but must lie between {min} and {max}")]
    OutOfRange {
        /// The field's name.
        field: &'static str,
        /// What it was set to.
        value: f64,
        /// The smallest value allowed.
        min: f64,
        /// The largest value allowed.
        max: f64,
    },
    /// The smallest chunk is larger than the largest item.
    #[error(
        "`chunk_bytes_min` is {chunk_bytes_min}, but must not exceed `item_bytes_max`, \
         which is {item_bytes_max}"
    )]
    ChunkAboveItem {
        /// What `chunk_bytes_min` was set to.
        chunk_bytes_min: u32,
        /// What `item_bytes_max` was set to.
        item_bytes_max: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_survive_serialization() {
        let config = Config::default();
        assert_eq!(config.validate(), Ok(()));
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
        assert_eq!(toml::from_str::<Config>("").unwrap(), config);
    }

    #[test]
    fn unknown_fields_are_refused() {
        let error = toml::from_str::<Config>("memory_limit_mb = 3").unwrap_err();
        assert!(error.to_string().contains("memory_limit_mb"), "{error}");
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let refused = [
            ("memory_limit_mib", Config { memory_limit_mib: 0, ..Config::default() }),
            ("hash_power", Config { hash_power: 27, ..Config::default() }),
            ("chunk_bytes_min", Config { chunk_bytes_min: 8, ..Config::default() }),
            ("growth_factor", Config { growth_factor: 1.0, ..Config::default() }),
            ("growth_factor", Config { growth_factor: f64::NAN, ..Config::default() }),
            ("item_bytes_max", Config { item_bytes_max: 9 << 20, ..Config::default() }),
            (
                "memory_limit_mib",
                Config { memory_limit_mib: 1, item_bytes_max: 2 << 20, ..Config::default() },
            ),
        ];
        for (field, config) in refused {
            let error = config.validate().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{field}` is ")), "{error}");
        }
        let config = Config { chunk_bytes_min: 4096, item_bytes_max: 1024, ..Config::default() };
        assert!(matches!(config.validate(), Err(ConfigError::ChunkAboveItem { .. })));
    }
}
