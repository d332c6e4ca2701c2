//! Which items go when memory is short, and that memory is never exceeded.

use seawall_control::Instant;
use seawall_control::request::{Claims, Context};
use seawall_kv::store::{Config, Entry, PAGE_BYTES, Store, StoreError};
use seawall_kv::{Exptime, UnixTime};

const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);

/// With a value of this size, exactly eight items make a page.
static VALUE: [u8; PAGE_BYTES / 8 - 8] = [b'v'; PAGE_BYTES / 8 - 8];

/// A request that may wait for ever.
fn patient() -> Context {
    Context::new(Claims::default(), Instant::ORIGIN)
}

/// A store of `pages` pages, in all of which only items with [`VALUE`] and an 8-byte key fit well.
fn store(pages: u32) -> Store {
    // The classes are 131072 / 4^n, so that VALUE's class fills its pages.
    let config = Config {
        memory_limit_mib: pages,
        hash_power: 4,
        chunk_bytes_min: 2048,
        growth_factor: 4.0,
        ..Config::default()
    };
    Store::with_seed(&config, 7).unwrap()
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn put(store: &Store, now: UnixTime, number: usize, exptime: i64) {
    let key = key(number);
    let exptime = Exptime::from_wire(exptime);
    store.set(&patient(), now, &Entry { key: &key, value: &VALUE, flags: 0, exptime }).unwrap();
}

fn present(store: &Store, numbers: impl IntoIterator<Item = usize>) -> Vec<usize> {
    numbers
        .into_iter()
        .filter(|&number| store.get(&patient(), NOW, &key(number)).unwrap().is_some())
        .collect()
}

#[test]
fn the_oldest_unused_items_go_first() {
    let store = store(1);
    (0..8).for_each(|number| put(&store, NOW, number, 0));
    assert_eq!(store.stats().evictions, 0, "eight fit");
    present(&store, [0, 2, 5]);
    (8..13).for_each(|number| put(&store, NOW, number, 0));
    assert_eq!(present(&store, 0..13), [0, 2, 5, 8, 9, 10, 11, 12]);
    assert_eq!(store.stats().evictions, 5);
}

#[test]
fn a_second_chance_lasts_one_round() {
    let store = store(1);
    (0..8).for_each(|number| put(&store, NOW, number, 0));
    present(&store, [0]);
    // The first eight evictions find 0 used once, and then used no more.
    (8..16).for_each(|number| put(&store, NOW, number, 0));
    assert_eq!(present(&store, [0]), [] as [usize; 0]);
}

#[test]
fn a_store_in_which_all_is_used_still_takes_new_items() {
    let store = store(4);
    (0..32).for_each(|number| put(&store, NOW, number, 0));
    assert_eq!(present(&store, 0..32).len(), 32);
    put(&store, NOW, 32, 0);
    assert_eq!(present(&store, 0..33).len(), 32);
    assert_eq!(present(&store, [32]), [32], "the newest is never the victim");
}

#[test]
fn expired_items_make_room_without_an_eviction() {
    let store = store(1);
    (0..8).for_each(|number| put(&store, NOW, number, 10));
    present(&store, 0..8);
    let later = UnixTime::from_secs(NOW.as_secs() + 10);
    (8..16).for_each(|number| put(&store, later, number, 0));
    let stats = store.stats();
    assert_eq!((stats.evictions, stats.expired, stats.curr_items), (0, 8, 8));
}

#[test]
fn items_are_evicted_from_their_own_class_only() {
    let store = store(1);
    (0..8).for_each(|number| put(&store, NOW, number, 0));
    // The only page belongs to the class of the large items.
    let small = Entry { key: b"small", value: b"1", flags: 0, exptime: Exptime::NEVER };
    assert_eq!(store.set(&patient(), NOW, &small), Err(StoreError::OutOfMemory));
    assert_eq!(present(&store, 0..8).len(), 8);
}

#[test]
fn an_item_may_be_replaced_in_a_full_store_of_one() {
    let store = Store::with_seed(&Config { memory_limit_mib: 1, ..Config::default() }, 7).unwrap();
    for round in 0..5u8 {
        let value = vec![round; PAGE_BYTES - 8];
        let entry = Entry { key: b"the one", value: &value, flags: 0, exptime: Exptime::NEVER };
        store.set(&patient(), NOW, &entry).unwrap();
        assert_eq!(store.get(&patient(), NOW, b"the one").unwrap().unwrap().data, value);
    }
    assert_eq!(store.stats().curr_items, 1);
}

#[test]
fn the_memory_limit_is_never_exceeded() {
    let config = Config { memory_limit_mib: 12, hash_power: 8, ..Config::default() };
    let store = Store::with_seed(&config, 7).unwrap();
    let value = vec![b'v'; PAGE_BYTES];
    let (mut stored, mut refused) = (0, 0);
    for number in 0..20_000usize {
        // Sizes over five decimal orders, in no order.
        let len = (number * 7919) % 10usize.pow(2 + (number % 5) as u32);
        let key = key(number % 3000);
        let entry = Entry { key: &key, value: &value[..len], flags: 0, exptime: Exptime::NEVER };
        match store.set(&patient(), NOW, &entry) {
            Ok(()) => stored += 1,
            // More classes than pages.
            Err(StoreError::OutOfMemory) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        let stats = store.stats();
        assert!(stats.page_bytes <= 12 << 20 && stats.bytes <= stats.page_bytes, "{stats:?}");
        assert_eq!(stats.limit_maxbytes, 12 << 20);
    }
    assert!(stored > 5_000 && refused > 0, "{stored} stored, {refused} refused");
    assert!(store.stats().evictions > 0);
    let audit = store.audit();
    assert!(audit.chunks_match_items && audit.slabs_balance);
    assert_eq!(audit.items, store.stats().curr_items);
}
