//! The data of the experiment: which keys there are, and what their values are.
//!
//! Svalinn's RocksDB has small values of 5 to 1,000 bytes and large ones of 800,000 to 1,200,000
//! (§5.1), all lengths alike. Each value is a function of its key's number, so that whoever reads
//! one can tell whether it is the right one.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use rocksdb::{DB, Options, WriteBatch, WriteOptions};
use seawall_control::Rng;
use thiserror::Error;

use crate::store::{StoreError, table_options};

/// Most keys of either kind: far more than any disk holds of the large ones.
const KEYS_MAX: u64 = 1 << 40;

/// Seeds of the values of either kind.
const SMALL_SEED: u64 = 0x5ea1;
const LARGE_SEED: u64 = 0x1a49e;

/// Bytes that are written at once.
const BATCH_BYTES: usize = 4 << 20;

/// How many keys have small values, and how many large ones. As text: `SMALL:LARGE`, such as
/// `100000:500`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Keys with small values. Default: 100,000, as in the experiment.
    pub small: u64,
    /// Keys with large values. Default: 500, which are 500 MB. The experiment has 5,000; what
    /// matters is that they are far more than the processor's caches hold.
    pub large: u64,
}

/// A text that is not [`Counts`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("write SMALL:LARGE, such as 100000:500; allowed: 1 to 2^40 each")]
pub struct CountsError;

impl Default for Counts {
    fn default() -> Self {
        Self { small: 100_000, large: 500 }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.small, self.large)
    }
}

impl FromStr for Counts {
    type Err = CountsError;

    fn from_str(text: &str) -> Result<Self, CountsError> {
        let count = |text: &str| {
            let count = text.parse().ok();
            count.filter(|count| (1..=KEYS_MAX).contains(count)).ok_or(CountsError)
        };
        let (small, large) = text.split_once(':').ok_or(CountsError)?;
        Ok(Self { small: count(small)?, large: count(large)? })
    }
}

/// The key of the small value with this number.
pub fn small_key(number: u64) -> Vec<u8> {
    format!("skey-{number:016}").into()
}

/// The key of the large value with this number.
pub fn large_key(number: u64) -> Vec<u8> {
    format!("lkey-{number:016}").into()
}

/// A small value: 5 to 1,000 bytes.
pub fn small_value(number: u64) -> Vec<u8> {
    value(SMALL_SEED, number, 5, 1_000)
}

/// A large value: 800,000 to 1,200,000 bytes.
pub fn large_value(number: u64) -> Vec<u8> {
    value(LARGE_SEED, number, 800_000, 1_200_000)
}

fn value(seed: u64, number: u64, least: u64, most: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed ^ number.rotate_left(20));
    let length = (least + rng.below(most - least + 1)) as usize;
    let mut value = Vec::with_capacity(length.next_multiple_of(8));
    while value.len() < length {
        value.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    value.truncate(length);
    value
}

/// Makes a store with all values in `folder`, which must not have one yet. `progress` is told how
/// many values are written.
///
/// Nothing is compressed, and the store is compacted at the end, so that a lookup finds its value
/// in one file.
///
/// # Errors
///
/// If the folder has a store already, or RocksDB cannot write there.
pub fn build(folder: &Path, counts: Counts, progress: impl Fn(u64)) -> Result<(), StoreError> {
    let problem = |error| StoreError::new(folder, error);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_error_if_exists(true);
    options.set_compression_type(rocksdb::DBCompressionType::None);
    options.set_block_based_table_factory(&table_options());
    let db = DB::open(&options, folder).map_err(problem)?;
    let mut without_log = WriteOptions::default();
    without_log.disable_wal(true);

    let mut written = 0;
    let mut write = |keys: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>| {
        let mut batch = WriteBatch::default();
        for (key, value) in keys {
            batch.put(key, value);
            written += 1;
            if batch.size_in_bytes() >= BATCH_BYTES {
                db.write_opt(std::mem::take(&mut batch), &without_log).map_err(problem)?;
                progress(written);
            }
        }
        db.write_opt(batch, &without_log).map_err(problem)?;
        progress(written);
        Ok(())
    };
    write(&mut (0..counts.large).map(|number| (large_key(number), large_value(number))))?;
    write(&mut (0..counts.small).map(|number| (small_key(number), small_value(number))))?;
    db.flush().map_err(problem)?;
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_long_as_in_the_paper_and_always_the_same() {
        let lengths = |value: fn(u64) -> Vec<u8>, count| -> Vec<usize> {
            (0..count).map(|number| value(number).len()).collect()
        };
        let small = lengths(small_value, 20_000);
        assert_eq!((small.iter().min(), small.iter().max()), (Some(&5), Some(&1_000)));
        let mean = small.iter().sum::<usize>() / small.len();
        assert!((490..=515).contains(&mean), "{mean}");
        let large = lengths(large_value, 20);
        assert!(large.iter().all(|length| (800_000..=1_200_000).contains(length)), "{large:?}");
        assert_eq!(small_value(7), small_value(7));
        assert_ne!(large_value(1)[..100], large_value(2)[..100]);
    }

    #[test]
    fn counts_read_back_and_nonsense_is_refused() {
        let counts = Counts { small: 3, large: 4 };
        assert_eq!(counts.to_string().parse(), Ok(counts));
        assert_eq!(Counts::default().to_string(), "100000:500");
        for text in ["", "3", "3:", ":4", "0:4", "3:0", "3:4:5", "-1:2", "a:b"] {
            let error = text.parse::<Counts>().unwrap_err();
            assert!(error.to_string().contains("SMALL:LARGE"), "{text}");
        }
    }
}
