//! A store that is open for reading.

use std::fmt;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rocksdb::{BlockBasedOptions, DB, Options, ReadOptions};
use seawall_control::config::ConfigError;
use seawall_control::request::{Context, Rejected};
use seawall_measure::memory::Declared;
use seawall_sync::{MemoryPolicy, MemorySemaphore};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::buffers::Buffers;
use crate::native;

/// Bytes of a page of memory, or less.
const PAGE: usize = 4_096;

/// A file that every store has.
const MARK: &str = "CURRENT";

/// How values are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// What a request does that is about to copy a large value. Default: `none`; any of
    /// [`MemoryPolicy`].
    pub semaphore: MemoryPolicy,
    /// From how many bytes on a value is large. Default: 65536. Range: 1 to 2^30.
    ///
    /// What is smaller stays in the caches of the core that copies it.
    pub large_bytes: u32,
    /// Whether replies have the values that were found. Default: true.
    ///
    /// With `false` each value is copied into its reply all the same, and left away when it is
    /// sent: so the network between client and server is no bottleneck, as in Svalinn's
    /// experiment, whose replies have 24 bytes.
    pub send_values: bool,
    /// Whether a value is compared with its checksum at each read. Default: false.
    ///
    /// With `true` a lookup reads the whole value once more, outside of the semaphore.
    pub verify_checksums: bool,
    /// Whether everything is read once before the store is open. Default: true.
    ///
    /// So requests find what they look for in memory, and none waits for a disk. With `false` a
    /// store is open at once, and may be larger than memory.
    pub warm: bool,
}

/// A store whose files are mapped into memory.
pub struct Store {
    db: DB,
    read: ReadOptions,
    buffers: Buffers,
    config: StoreConfig,
}

/// Why a store cannot be opened, built or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is none.
    #[error("there is no store in {0}; `seawall-rocks build` makes one")]
    Missing(PathBuf),
    /// RocksDB says why.
    #[error("the store in {folder}: {source}")]
    Rocks {
        /// Where it is.
        folder: PathBuf,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
}

/// Why a lookup has no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GetError {
    /// The value is large, and there was no room to copy it.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The key is none.
    #[error(transparent)]
    Key(#[from] native::DecodeError),
    /// RocksDB cannot read it.
    #[error("it cannot be read: {0}")]
    Rocks(#[from] rocksdb::Error),
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            semaphore: MemoryPolicy::default(),
            large_bytes: 64 << 10,
            send_values: true,
            verify_checksums: false,
            warm: true,
        }
    }
}

impl StoreConfig {
    /// Checks every field against its range.
    ///
    /// # Errors
    ///
    /// Names the first field that lies outside of its range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("large_bytes", self.large_bytes, 1..=1 << 30)
    }
}

impl StoreError {
    pub(crate) fn new(folder: &Path, source: rocksdb::Error) -> Self {
        Self::Rocks { folder: folder.into(), source }
    }
}

impl Store {
    /// Opens the store in `folder`.
    ///
    /// # Errors
    ///
    /// If there is none, or RocksDB cannot read it.
    pub fn open(folder: &Path, config: &StoreConfig) -> Result<Self, StoreError> {
        if !folder.join(MARK).exists() {
            return Err(StoreError::Missing(folder.into()));
        }
        let mut options = Options::default();
        options.set_allow_mmap_reads(true);
        // Else the system maps each page when it is first read, and none of its neighbours.
        options.set_advise_random_on_open(false);
        options.set_block_based_table_factory(&table_options());
        let db = DB::open_for_read_only(&options, folder, false)
            .map_err(|error| StoreError::new(folder, error))?;
        let mut read = ReadOptions::default();
        read.set_verify_checksums(config.verify_checksums);
        let store = Self { db, read, buffers: Buffers::default(), config: config.clone() };
        if config.warm {
            store.touch().map_err(|error| StoreError::new(folder, error))?;
        }
        Ok(store)
    }

    /// Looks up `key`, and makes the [reply](native::decode_reply).
    ///
    /// # Errors
    ///
    /// If the key is none, RocksDB cannot read it, or there is no room to copy a large value.
    pub async fn get(&self, ctx: &Context, key: &[u8]) -> Result<Bytes, GetError> {
        native::check_key(key)?;
        // Where the value lies; it is not copied.
        let Some(value) = self.db.get_pinned_opt(key, &self.read)? else {
            return Ok(native::missing());
        };
        if value.len() < self.config.large_bytes as usize {
            let mut reply = Vec::new();
            native::encode_found(&value, &mut reply);
            return Ok(reply.into());
        }
        let _permit = MemorySemaphore::shared().enter(self.config.semaphore, ctx).await?;
        Declared::shared().add(2 * value.len() as u64); // read, and written
        let reply = self.buffers.make(|reply| native::encode_found(&value, reply));
        Ok(if self.config.send_values { reply } else { reply.slice(..native::HEAD) })
    }

    /// How many bytes the value of `key` has, which is not copied.
    ///
    /// # Errors
    ///
    /// If the key is none, or RocksDB cannot read it.
    pub fn value_len(&self, key: &[u8]) -> Result<Option<usize>, GetError> {
        native::check_key(key)?;
        Ok(self.db.get_pinned_opt(key, &self.read)?.map(|value| value.len()))
    }

    /// Reads something of each page of all values.
    fn touch(&self) -> Result<(), rocksdb::Error> {
        let mut read = ReadOptions::default();
        read.set_verify_checksums(false);
        let mut entries = self.db.raw_iterator_opt(read);
        entries.seek_to_first();
        while let Some(value) = entries.value() {
            value.iter().step_by(PAGE).for_each(|byte| _ = black_box(*byte));
            entries.next();
        }
        entries.status()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, .. } = self;
        f.debug_struct("Store").field("config", config).finish_non_exhaustive()
    }
}

/// How tables are written and read. There is no cache of blocks: the files are in memory as they
/// are.
pub(crate) fn table_options() -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.disable_cache();
    table.set_bloom_filter(10.0, false);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_by_name() {
        StoreConfig::default().validate().unwrap();
        let config: StoreConfig = toml::from_str("large_bytes = 0").unwrap();
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains("large_bytes"), "{error}");
        assert!(toml::from_str::<StoreConfig>("semaphores = 'try'").is_err());
        let bounded: StoreConfig = toml::from_str("semaphore = 'try'").unwrap();
        assert_eq!(bounded.semaphore, MemoryPolicy::Try);
    }
}
