//! What is read is what was written, byte for byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use rocksdb::{DB, Options};
use seawall_control::Instant;
use seawall_control::request::{Claims, Context};
use seawall_rocks::data::{self, Counts};
use seawall_rocks::native::{self, DecodeError, Found, KEY_BYTES_MAX};
use seawall_rocks::store::{GetError, Store, StoreConfig, StoreError};
use seawall_sync::MemoryPolicy;
use tempfile::TempDir;

const COUNTS: Counts = Counts { small: 300, large: 6 };

fn built() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    data::build(folder.path(), COUNTS, |_| {}).unwrap();
    folder
}

async fn get(store: &Store, key: &[u8]) -> Option<Found> {
    let ctx = Context::new(Claims::default(), Instant::ORIGIN);
    native::decode_reply(store.get(&ctx, key).await.unwrap()).unwrap()
}

#[tokio::test]
async fn every_value_is_read_byte_for_byte() {
    let folder = built();
    for verify_checksums in [false, true] {
        let config = StoreConfig { verify_checksums, ..StoreConfig::default() };
        let store = Store::open(folder.path(), &config).unwrap();
        for number in 0..COUNTS.small {
            let found = get(&store, &data::small_key(number)).await.unwrap();
            assert_eq!(found.value, data::small_value(number));
        }
        for number in 0..COUNTS.large {
            let (found, expected) =
                (get(&store, &data::large_key(number)).await.unwrap(), data::large_value(number));
            assert_eq!(found.length as usize, expected.len());
            assert!(found.value == expected, "large value {number}"); // too long to be printed
        }
        assert_eq!(get(&store, &data::small_key(COUNTS.small)).await, None);
        assert_eq!(get(&store, &data::large_key(COUNTS.large)).await, None);
    }
}

#[tokio::test]
async fn values_that_are_left_away_have_a_length() {
    let folder = built();
    let config = StoreConfig { send_values: false, ..StoreConfig::default() };
    let store = Store::open(folder.path(), &config).unwrap();
    let found = get(&store, &data::large_key(2)).await.unwrap();
    assert_eq!((found.length as usize, found.value.len()), (data::large_value(2).len(), 0));
    // Small ones are sent in any case.
    let small = get(&store, &data::small_key(2)).await.unwrap();
    assert_eq!(small.value, data::small_value(2));
    // And who only wants to know it need not copy anything.
    assert_eq!(store.value_len(&data::large_key(2)).unwrap(), Some(data::large_value(2).len()));
    assert_eq!(store.value_len(b"nothing").unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_are_right_or_refused_at_the_semaphore() {
    let folder = built();
    for semaphore in [MemoryPolicy::None, MemoryPolicy::Try, MemoryPolicy::Wait] {
        let config = StoreConfig { semaphore, ..StoreConfig::default() };
        let store = Arc::new(Store::open(folder.path(), &config).unwrap());
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let store = store.clone();
                tokio::spawn(async move {
                    let mut refused = 0;
                    for round in 0..30 {
                        let number = (task + round) % COUNTS.large;
                        let ctx = Context::new(Claims::default(), Instant::ORIGIN);
                        match store.get(&ctx, &data::large_key(number)).await {
                            Ok(reply) => {
                                let found = native::decode_reply(reply).unwrap().unwrap();
                                assert!(found.value == data::large_value(number));
                            }
                            Err(GetError::Rejected(_)) => refused += 1,
                            Err(other) => panic!("{other}"),
                        }
                    }
                    refused
                })
            })
            .collect();
        let mut refused = 0;
        for task in tasks {
            refused += task.await.unwrap();
        }
        // Without a budget everybody may wait.
        assert!(semaphore == MemoryPolicy::Try || refused == 0, "{semaphore:?}: {refused}");
    }
}

#[tokio::test]
async fn what_is_no_key_is_refused() {
    let folder = built();
    let store = Store::open(folder.path(), &StoreConfig::default()).unwrap();
    let ctx = Context::new(Claims::default(), Instant::ORIGIN);
    for key in [&[][..], &[b'k'; KEY_BYTES_MAX + 1]] {
        let error = store.get(&ctx, key).await.unwrap_err();
        assert!(matches!(error, GetError::Key(DecodeError::KeyLength(_))), "{error}");
    }
}

#[test]
fn what_is_wrong_with_a_folder_is_told() {
    let empty = tempfile::tempdir().unwrap();
    let error = Store::open(empty.path(), &StoreConfig::default()).unwrap_err();
    assert!(matches!(error, StoreError::Missing(_)));
    assert!(error.to_string().contains("seawall-rocks build"), "{error}");

    let folder = built();
    let error = data::build(folder.path(), COUNTS, |_| {}).unwrap_err().to_string();
    assert!(error.contains(folder.path().to_str().unwrap()) && error.contains("exists"), "{error}");

    std::fs::write(folder.path().join("CURRENT"), "nonsense").unwrap();
    let error = Store::open(folder.path(), &StoreConfig::default()).unwrap_err();
    assert!(matches!(error, StoreError::Rocks { .. }), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_rocksdb_has_is_what_is_read(
        values in btree_map(vec(any::<u8>(), 1..40), vec(any::<u8>(), 0..3_000), 1..40),
        large_bytes in 1..3_000_u32,
        absent in vec(any::<u8>(), 41..50),
    ) {
        let values: BTreeMap<Vec<u8>, Vec<u8>> = values;
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let db = DB::open(&options, folder.path()).unwrap();
        for (key, value) in &values {
            db.put(key, value).unwrap();
        }
        drop(db);
        let config =
            StoreConfig { large_bytes, semaphore: MemoryPolicy::Wait, ..StoreConfig::default() };
        let store = Store::open(folder.path(), &config).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for (key, value) in &values {
                let found = get(&store, key).await.unwrap();
                assert_eq!((found.length as usize, &found.value[..]), (value.len(), &value[..]));
            }
            assert_eq!(get(&store, &absent).await, None);
        });
    }
}
