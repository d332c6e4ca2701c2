//! The store's semantics: one thread, and time as an argument.

use seawall_control::Instant;
use seawall_control::request::Claims;

use super::*;

const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);

/// A request that may wait for ever.
fn patient() -> Context {
    Context::new(Claims::default(), Instant::ORIGIN)
}

fn later(secs: u64) -> UnixTime {
    UnixTime::from_secs(NOW.as_secs() + secs)
}

fn store() -> Store {
    Store::with_seed(&Config { hash_power: 8, ..Config::default() }, 1).unwrap()
}

fn entry<'a>(key: &'a [u8], value: &'a [u8]) -> Entry<'a> {
    Entry { key, value, flags: 0, exptime: Exptime::NEVER }
}

fn expiring<'a>(key: &'a [u8], value: &'a [u8], exptime: i64) -> Entry<'a> {
    Entry { exptime: Exptime::from_wire(exptime), ..entry(key, value) }
}

#[track_caller]
fn expect(store: &Store, now: UnixTime, key: &[u8], value: Option<&[u8]>) {
    let found = store.get(&patient(), now, key).unwrap().map(|found| found.data);
    assert_eq!(found.as_deref(), value, "{}", key.escape_ascii());
}

/// The accounting must be exact whenever nobody is using the store.
#[track_caller]
fn check_accounts(store: &Store) {
    let (audit, stats) = (store.audit(), store.stats());
    assert!(audit.chunks_match_items && audit.slabs_balance, "{audit:?}");
    assert_eq!((audit.items, audit.bytes), (stats.curr_items, stats.bytes));
    assert!(stats.page_bytes <= stats.limit_maxbytes);
}

#[test]
fn a_store_can_be_shared() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&store());
}

#[test]
fn conditional_stores_ask_for_what_is_there() {
    let store = store();
    assert_eq!(store.replace(&patient(), NOW, &entry(b"k", b"1")), Ok(false));
    assert_eq!(store.append(&patient(), NOW, b"k", b"1"), Ok(false));
    assert_eq!(store.add(&patient(), NOW, &entry(b"k", b"1")), Ok(true));
    assert_eq!(store.add(&patient(), NOW, &entry(b"k", b"2")), Ok(false));
    expect(&store, NOW, b"k", Some(b"1"));
    assert_eq!(store.replace(&patient(), NOW, &entry(b"k", b"3")), Ok(true));
    assert_eq!(store.append(&patient(), NOW, b"k", b">"), Ok(true));
    assert_eq!(store.prepend(&patient(), NOW, b"k", b"<"), Ok(true));
    expect(&store, NOW, b"k", Some(b"<3>"));
    assert!(store.delete(&patient(), NOW, b"k").unwrap());
    assert!(!store.delete(&patient(), NOW, b"k").unwrap());
    expect(&store, NOW, b"k", None);
    check_accounts(&store);
}

#[test]
fn cas_stores_only_over_the_version_that_was_read() {
    let store = store();
    assert_eq!(store.cas(&patient(), NOW, 1, &entry(b"k", b"x")), Ok(StoreOutcome::NotFound));
    store.set(&patient(), NOW, &entry(b"k", b"1")).unwrap();
    let version = store.get(&patient(), NOW, b"k").unwrap().unwrap().cas;
    store.touch(&patient(), NOW, b"k", Exptime::from_wire(100)).unwrap();
    assert_eq!(store.cas(&patient(), NOW, version, &entry(b"k", b"2")), Ok(StoreOutcome::Stored));
    assert_eq!(store.cas(&patient(), NOW, version, &entry(b"k", b"3")), Ok(StoreOutcome::Exists));
    expect(&store, NOW, b"k", Some(b"2"));
    for change in [
        &(|| store.append(&patient(), NOW, b"k", b"0").is_ok()) as &dyn Fn() -> bool,
        &|| store.incr(&patient(), NOW, b"k", 1).is_ok(),
        &|| store.set(&patient(), NOW, &entry(b"k", b"2")).is_ok(),
    ] {
        let before = store.get(&patient(), NOW, b"k").unwrap().unwrap().cas;
        assert!(change());
        assert!(
            store.get(&patient(), NOW, b"k").unwrap().unwrap().cas > before,
            "every change is a new version"
        );
    }
    let stats = store.stats();
    assert_eq!((stats.cas_hits, stats.cas_misses, stats.cas_badval), (1, 1, 1));
}

#[test]
fn edits_keep_flags_and_expiry_and_move_to_larger_chunks() {
    let store = store();
    store.set(&patient(), NOW, &Entry { flags: 9, ..expiring(b"k", &[b'a'; 90], 50) }).unwrap();
    for round in 0..400 {
        let part = [b'0' + (round % 10) as u8; 40];
        assert_eq!(store.append(&patient(), NOW, b"k", &part), Ok(true));
        assert_eq!(store.prepend(&patient(), NOW, b"k", &part), Ok(true));
        check_accounts(&store);
    }
    let found = store.get(&patient(), later(49), b"k").unwrap().unwrap();
    assert_eq!((found.data.len(), found.flags), (90 + 400 * 80, 9));
    assert!(found.data.starts_with(&[b'9'; 40]) && found.data.ends_with(&[b'9'; 40]));
    expect(&store, later(50), b"k", None);
    check_accounts(&store);
}

#[test]
fn arithmetic_wraps_upwards_and_stops_downwards() {
    let store = store();
    assert_eq!(store.incr(&patient(), NOW, b"n", 1), Ok(None));
    store.set(&patient(), NOW, &entry(b"n", b"99")).unwrap();
    assert_eq!(store.incr(&patient(), NOW, b"n", 1), Ok(Some(100)));
    assert_eq!(store.decr(&patient(), NOW, b"n", 91), Ok(Some(9)));
    expect(&store, NOW, b"n", Some(b"9"));
    assert_eq!(store.decr(&patient(), NOW, b"n", 10), Ok(Some(0)));
    assert_eq!(store.incr(&patient(), NOW, b"n", u64::MAX), Ok(Some(u64::MAX)));
    assert_eq!(store.incr(&patient(), NOW, b"n", 2), Ok(Some(1)));
    store.set(&patient(), NOW, &entry(b"n", b"one")).unwrap();
    assert_eq!(store.incr(&patient(), NOW, b"n", 1), Err(ArithmeticError::NotNumeric));
    expect(&store, NOW, b"n", Some(b"one"));
    let stats = store.stats();
    assert_eq!((stats.incr_hits, stats.incr_misses, stats.decr_hits), (3, 1, 2));
    check_accounts(&store);
}

#[test]
fn a_number_may_outgrow_its_chunk() {
    let store = store();
    let key = [b'k'; 86];
    store.set(&patient(), NOW, &entry(&key, b"9999999999")).unwrap();
    assert_eq!(store.class_stats()[0].chunks_used, 1);
    assert_eq!(store.incr(&patient(), NOW, &key, 1), Ok(Some(10_000_000_000)));
    let used: Vec<_> = store.class_stats().iter().map(|class| class.chunks_used).collect();
    assert_eq!(used, [0, 1]);
    check_accounts(&store);
}

#[test]
fn expired_items_are_gone_and_their_memory_returns_on_access() {
    let store = store();
    store.set(&patient(), NOW, &expiring(b"soon", b"1", 10)).unwrap();
    store.set(&patient(), NOW, &expiring(b"date", b"2", 1_700_000_020)).unwrap();
    store.set(&patient(), NOW, &expiring(b"past", b"3", -1)).unwrap();
    expect(&store, NOW, b"past", None);
    expect(&store, later(9), b"soon", Some(b"1"));
    expect(&store, later(10), b"soon", None);
    assert!(!store.touch(&patient(), later(20), b"date", Exptime::NEVER).unwrap(), "too late");
    let stats = store.stats();
    assert_eq!((stats.curr_items, stats.expired), (0, 3));
    check_accounts(&store);
}

#[test]
fn an_expired_item_is_as_good_as_none() {
    let store = store();
    for key in [&b"a"[..], b"b", b"c", b"d", b"e"] {
        store.set(&patient(), NOW, &expiring(key, b"1", 10)).unwrap();
    }
    let now = later(10);
    assert_eq!(store.add(&patient(), now, &entry(b"a", b"2")), Ok(true));
    assert_eq!(store.replace(&patient(), now, &entry(b"b", b"2")), Ok(false));
    assert_eq!(store.append(&patient(), now, b"c", b"2"), Ok(false));
    assert_eq!(store.incr(&patient(), now, b"d", 1), Ok(None));
    assert!(!store.delete(&patient(), now, b"e").unwrap());
    assert_eq!(store.stats().curr_items, 1);
    check_accounts(&store);
}

#[test]
fn touching_moves_the_deadline() {
    let store = store();
    store.set(&patient(), NOW, &expiring(b"k", b"1", 10)).unwrap();
    assert!(store.touch(&patient(), later(5), b"k", Exptime::from_wire(10)).unwrap());
    expect(&store, later(14), b"k", Some(b"1"));
    assert_eq!(store.gat(&patient(), later(14), b"k", Exptime::NEVER).unwrap().unwrap().data, "1");
    expect(&store, later(1_000_000), b"k", Some(b"1"));
    assert_eq!(store.gat(&patient(), NOW, b"none", Exptime::NEVER).unwrap(), None);
    let stats = store.stats();
    assert_eq!((stats.touch_hits, stats.touch_misses, stats.cmd_touch), (2, 1, 3));
}

#[test]
fn sweeping_goes_round_the_table() {
    let store = store();
    let keys: Vec<_> = (0..1000).map(|number| format!("key{number}")).collect();
    for (number, key) in keys.iter().enumerate() {
        let exptime = if number % 4 == 0 { 0 } else { 10 };
        store.set(&patient(), NOW, &expiring(key.as_bytes(), b"value", exptime)).unwrap();
    }
    assert_eq!(store.sweep(later(9), usize::MAX), 0);
    let removed: usize = (0..16).map(|_| store.sweep(later(10), 16)).sum();
    assert_eq!(removed, 750, "16 times 16 of 256 buckets");
    assert_eq!(store.stats().curr_items, 250);
    check_accounts(&store);
}

#[test]
fn flushing_spares_what_is_stored_afterwards() {
    let store = store();
    store.set(&patient(), NOW, &entry(b"old", b"1")).unwrap();
    store.flush_all(NOW, NOW);
    store.set(&patient(), NOW, &entry(b"new", b"2")).unwrap();
    expect(&store, NOW, b"old", None);
    expect(&store, NOW, b"new", Some(b"2"));
    assert_eq!((store.stats().flushed, store.stats().cmd_flush), (1, 1));
    check_accounts(&store);
}

#[test]
fn a_delayed_flush_takes_what_was_stored_until_then() {
    let store = store();
    store.set(&patient(), NOW, &entry(b"before", b"1")).unwrap();
    store.flush_all(NOW, later(10));
    store.set(&patient(), later(5), &entry(b"between", b"2")).unwrap();
    expect(&store, later(9), b"before", Some(b"1"));
    expect(&store, later(9), b"between", Some(b"2"));
    store.set(&patient(), later(10), &entry(b"after", b"3")).unwrap();
    expect(&store, later(10), b"before", None);
    expect(&store, later(10), b"between", None);
    expect(&store, later(10), b"after", Some(b"3"));
    assert_eq!(store.sweep(later(10), usize::MAX), 0);
}

#[test]
fn a_later_flush_replaces_a_pending_one_but_not_a_due_one() {
    let store = store();
    store.set(&patient(), NOW, &entry(b"k", b"1")).unwrap();
    store.flush_all(NOW, later(10));
    store.flush_all(later(5), later(20));
    expect(&store, later(15), b"k", Some(b"1"));
    store.flush_all(later(20), later(30));
    expect(&store, later(20), b"k", None);
}

#[test]
fn a_failed_set_takes_the_old_value_with_it() {
    let store = store();
    let large = vec![0; PAGE_BYTES];
    for mode in [StoreMode::Add, StoreMode::Replace, StoreMode::Cas(1), StoreMode::Append] {
        store.set(&patient(), NOW, &entry(b"k", b"1")).unwrap();
        let refused = store.store(&patient(), NOW, mode, &entry(b"k", &large)).unwrap_err();
        assert!(matches!(refused, StoreError::TooLarge { bytes_max: PAGE_BYTES, .. }));
        expect(&store, NOW, b"k", Some(b"1"));
    }
    assert!(store.set(&patient(), NOW, &entry(b"k", &large)).is_err());
    expect(&store, NOW, b"k", None);
    store.set(&patient(), NOW, &entry(b"k", &large[1..])).unwrap();
    assert_eq!(store.get(&patient(), NOW, b"k").unwrap().unwrap().data, large[1..]);
    check_accounts(&store);
}

#[test]
fn items_may_be_larger_than_a_page() {
    // All large values are of one size class: pages are not given to another.
    let config = Config {
        memory_limit_mib: 16,
        item_bytes_max: 1_300_000,
        growth_factor: 4.0,
        hash_power: 4,
        ..Config::default()
    };
    let store = Store::with_seed(&config, 3).unwrap();
    // 12 pages of the largest item's size.
    for round in 0..40_u8 {
        let value = vec![round; 800_000 + 10_000 * usize::from(round)];
        store.set(&patient(), NOW, &entry(&[round], &value)).unwrap();
        assert_eq!(store.value_len(&patient(), NOW, &[round]).unwrap(), Some(value.len()));
        assert!(store.get(&patient(), NOW, &[round]).unwrap().unwrap().data == value);
        store.set(&patient(), NOW, &entry(&[round, 1], b"small")).unwrap();
        check_accounts(&store);
    }
    assert_eq!(store.value_len(&patient(), NOW, b"none").unwrap(), None);
    let stats = store.stats();
    assert_eq!(stats.page_bytes, 12 * 1_300_000);
    assert!(stats.page_bytes <= 16 << 20 && stats.evictions > 0, "{stats:?}");
    let (key, value) = ([b'k'; 10], vec![0; 1_300_000]);
    let refused = store.set(&patient(), NOW, &entry(&key, &value)).unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { bytes_max: 1_300_000, .. }), "{refused}");
}

#[test]
fn keys_have_one_to_250_bytes() {
    let store = store();
    for len in [0, 251, 300] {
        let key = vec![b'k'; len];
        assert_eq!(
            store.set(&patient(), NOW, &entry(&key, b"v")),
            Err(StoreError::KeyLength { len })
        );
        expect(&store, NOW, &key, None);
    }
    store.set(&patient(), NOW, &entry(&[0xff; 250], b"")).unwrap();
    expect(&store, NOW, &[0xff; 250], Some(b""));
}

#[test]
fn without_eviction_a_full_store_refuses() {
    let config = Config { memory_limit_mib: 1, evict: false, ..Config::default() };
    let store = Store::with_seed(&config, 1).unwrap();
    let value = vec![0; 300_000];
    let stored =
        (0..10u8).filter(|&key| store.add(&patient(), NOW, &entry(&[key], &value)).is_ok()).count();
    assert!((2..=3).contains(&stored), "{stored} items of 300 kB in one page");
    let refused = store.add(&patient(), NOW, &entry(b"one more", &value));
    assert_eq!(refused, Err(StoreError::OutOfMemory));
    assert_eq!(store.stats().evictions, 0);
    check_accounts(&store);
}

#[test]
fn the_same_seed_gives_the_same_places() {
    let (one, two) = (store(), store());
    for key in 0..100u32 {
        let (one, two) = (one.spot(&key.to_le_bytes()), two.spot(&key.to_le_bytes()));
        assert_eq!((one.bucket, one.tag), (two.bucket, two.tag));
    }
}
