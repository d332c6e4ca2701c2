//! Several threads on one small store: the locks, the evictions, and the books afterwards.
//!
//! Test builds check at each acquisition that no thread holds two locks.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::request::{Claims, Context};
use seawall_kv::store::{ArithmeticError, Config, Entry, LockKind, Store, StoreError};
use seawall_kv::{Exptime, UnixTime};

const THREADS: u64 = 4;
const OPS_PER_THREAD: u64 = 40_000;
const NOW: u64 = 1_700_000_000;

/// A small generator: the operations of each thread are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// A request that may wait for ever.
fn patient() -> Context {
    Context::new(Claims::default(), Instant::ORIGIN)
}

fn check_accounts(store: &Store) {
    let (audit, stats) = (store.audit(), store.stats());
    assert!(audit.chunks_match_items && audit.slabs_balance, "{audit:?}");
    assert_eq!((audit.items, audit.bytes), (stats.curr_items, stats.bytes));
    assert_eq!(audit.chunks_used, stats.curr_items);
    assert!(stats.page_bytes <= stats.limit_maxbytes);
}

/// A value that tells its key and length, so that a reader can see torn or misplaced bytes.
fn value(key: u64, len: usize) -> Vec<u8> {
    key.to_le_bytes().iter().copied().cycle().take(len).collect()
}

/// Fails only for want of memory, or because the request cannot wait for a lock.
fn one_operation(
    store: &Store,
    ctx: &Context,
    random: &mut Random,
    progress: u64,
) -> Result<(), StoreError> {
    // Time moves on, and threads disagree a little about it.
    let now = UnixTime::from_secs(NOW + progress / 1000 + random.below(2));
    let number = random.below(8000);
    let key = format!("key{number}").into_bytes();
    let len = match random.below(10) {
        0..6 => random.below(64),
        6..9 => 64 + random.below(900),
        _ => 1000 + random.below(12_000),
    };
    let contents = value(number, len as usize);
    let exptime = Exptime::from_wire([0, 0, 0, 0, 0, 2, 20, -1][random.below(8) as usize]);
    let entry = Entry { key: &key, value: &contents, flags: number as u32, exptime };
    match random.below(20) {
        0..6 => {
            if let Some(found) = store.get(ctx, now, &key)? {
                assert_eq!(found.flags, number as u32);
                assert_eq!(found.data, value(number, found.data.len()), "{number}");
            }
            Ok(())
        }
        6..11 => store.set(ctx, now, &entry),
        11 => store.add(ctx, now, &entry).map(|_| ()),
        12 => store.replace(ctx, now, &entry).map(|_| ()),
        13 => {
            let cas = store.get(ctx, now, &key)?.map_or(1, |found| found.cas);
            store.cas(ctx, now, cas, &entry).map(|_| ())
        }
        14 => count(store, ctx, now, number),
        15..17 => log(store, ctx, now, number),
        17 => {
            store.delete(ctx, now, &key)?;
            Ok(())
        }
        18 => {
            store.gat(ctx, now, &key, exptime)?;
            store.touch(ctx, now, &key, exptime)?;
            Ok(())
        }
        _ => {
            store.sweep(now, 4);
            if random.below(2000) == 0 {
                store.flush_all(now, UnixTime::from_secs(NOW + progress / 1000 + random.below(3)));
            }
            Ok(())
        }
    }
}

/// One of a few numbers that all threads increment.
fn count(store: &Store, ctx: &Context, now: UnixTime, number: u64) -> Result<(), StoreError> {
    let key = format!("counter{}", number % 4).into_bytes();
    let zero = Entry { key: &key, value: b"0", flags: 0, exptime: Exptime::NEVER };
    match store.incr(ctx, now, &key, number) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => store.add(ctx, now, &zero).map(|_| ()),
        Err(ArithmeticError::Store(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

/// One of a few values that all threads lengthen, until it is as long as an item may be.
fn log(store: &Store, ctx: &Context, now: UnixTime, number: u64) -> Result<(), StoreError> {
    let key = format!("log{}", number % 4).into_bytes();
    let empty = Entry { key: &key, value: b"", flags: 0, exptime: Exptime::NEVER };
    let line = [b'.'; 150];
    let extended = match number % 2 {
        0 => store.append(ctx, now, &key, &line),
        _ => store.prepend(ctx, now, &key, &line),
    };
    match extended {
        Ok(true) => Ok(()),
        Ok(false) => store.add(ctx, now, &empty).map(|_| ()),
        Err(StoreError::TooLarge { .. }) => {
            store.delete(ctx, now, &key)?;
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Little memory, and few buckets.
fn crowded() -> Config {
    Config {
        memory_limit_mib: 7,
        hash_power: 8,
        growth_factor: 4.0,
        item_bytes_max: 32 << 10,
        ..Config::default()
    }
}

/// Everything that is left can be taken out again, and all chunks return.
fn empty(store: &Store) {
    store.flush_all(UnixTime::from_secs(NOW + 100), UnixTime::from_secs(NOW + 100));
    store.sweep(UnixTime::from_secs(NOW + 100), usize::MAX);
    check_accounts(store);
    assert_eq!((store.stats().curr_items, store.stats().bytes), (0, 0));
    assert!(store.class_stats().iter().all(|class| class.chunks_used == 0));
}

#[test]
fn the_books_balance_after_mixed_operations_under_memory_pressure() {
    let config = crowded();
    let store = Store::with_seed(&config, 5).unwrap();
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let mut random = Random(seed);
                let ctx = patient();
                for progress in 0..OPS_PER_THREAD {
                    let outcome = one_operation(store, &ctx, &mut random, progress);
                    let expected = matches!(outcome, Ok(()) | Err(StoreError::OutOfMemory));
                    assert!(expected, "{outcome:?}");
                }
            });
        }
    });
    check_accounts(&store);
    let stats = store.stats();
    assert!(stats.evictions > 0 && stats.expired > 0 && stats.get_hits > 0, "{stats:?}");
    assert_eq!(stats.get_hits + stats.get_misses, stats.cmd_get);

    empty(&store);
}

/// A request that may wait for a little while, or not at all, or for ever.
fn in_a_hurry(random: &mut Random) -> Context {
    let micros = [0, 1, 5, 50][random.below(4) as usize];
    let budget = (random.below(8) > 0).then_some(Duration::from_micros(micros));
    Context::new(Claims { budget, ..Claims::default() }, Instant::ORIGIN)
}

#[test]
fn the_books_balance_after_refusals_at_every_kind_of_lock() {
    for (name, locks) in LockKind::NAMED {
        let store = Store::with_seed(&Config { locks, hash_power: 2, ..crowded() }, 5).unwrap();
        let (begin, refusals) = (Barrier::new(THREADS as usize), AtomicU64::new(0));
        thread::scope(|scope| {
            for seed in 0..THREADS {
                let (store, begin, refusals) = (&store, &begin, &refusals);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    begin.wait();
                    for progress in 0..OPS_PER_THREAD / 4 {
                        let ctx = in_a_hurry(&mut random);
                        match one_operation(store, &ctx, &mut random, progress) {
                            Ok(()) | Err(StoreError::OutOfMemory) => {}
                            Err(StoreError::Rejected(_)) => {
                                refusals.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
        });
        check_accounts(&store);
        let refusals = refusals.into_inner();
        assert_eq!(refusals == 0, locks == LockKind::Plain, "{name}: {refusals} refusals");
        empty(&store);
    }
}

#[test]
fn no_increment_is_lost() {
    let store = Store::with_seed(&Config { hash_power: 2, ..Config::default() }, 5).unwrap();
    let now = UnixTime::from_secs(NOW);
    let zero = Entry { key: b"counter", value: b"0", flags: 0, exptime: Exptime::NEVER };
    store.set(&patient(), now, &zero).unwrap();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..OPS_PER_THREAD {
                    store.incr(&patient(), now, b"counter", 1).unwrap();
                }
            });
        }
    });
    let total = (THREADS * OPS_PER_THREAD).to_string();
    assert_eq!(store.get(&patient(), now, b"counter").unwrap().unwrap().data, total);
    check_accounts(&store);
}

#[test]
fn each_version_is_overwritten_by_one_cas_only() {
    let store = Store::with_seed(&Config { hash_power: 2, ..Config::default() }, 5).unwrap();
    let now = UnixTime::from_secs(NOW);
    let entry = Entry { key: b"k", value: b"v", flags: 0, exptime: Exptime::NEVER };
    store.set(&patient(), now, &entry).unwrap();
    let lost = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..OPS_PER_THREAD / 4 {
                    let version = store.get(&patient(), now, b"k").unwrap().unwrap().cas;
                    let outcome = store.cas(&patient(), now, version, &entry).unwrap();
                    let missed = outcome != seawall_kv::store::StoreOutcome::Stored;
                    lost.fetch_add(u64::from(missed), Ordering::Relaxed);
                }
            });
        }
    });
    let stats = store.stats();
    assert_eq!(stats.cas_badval, lost.into_inner());
    assert_eq!(stats.cas_hits + stats.cas_badval, THREADS * (OPS_PER_THREAD / 4));
    assert_eq!(stats.total_items, 1 + stats.cas_hits);
    check_accounts(&store);
}

#[test]
fn threads_that_share_one_chunk_never_lose_it() {
    // One page and one chunk in it: whoever holds it makes the others fail, and nothing else.
    let config = Config { memory_limit_mib: 1, hash_power: 0, ..Config::default() };
    let store = Store::with_seed(&config, 5).unwrap();
    let now = UnixTime::from_secs(NOW);
    let contents = vec![1; 700_000];
    thread::scope(|scope| {
        for key in 0..THREADS as u8 {
            let (store, contents) = (&store, &contents);
            scope.spawn(move || {
                for _ in 0..200 {
                    let (key, exptime) = (&[key], Exptime::NEVER);
                    let entry = Entry { key, value: contents, flags: 0, exptime };
                    let outcome = store.set(&patient(), now, &entry);
                    assert!(matches!(outcome, Ok(()) | Err(StoreError::OutOfMemory)));
                }
            });
        }
    });
    check_accounts(&store);
    let last = Entry { key: b"last", value: &contents, flags: 0, exptime: Exptime::NEVER };
    assert_eq!(store.set(&patient(), now, &last), Ok(()));
    assert_eq!(store.stats().curr_items, 1);
}
