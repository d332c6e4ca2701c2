//! What a request that is refused at a lock leaves behind: nothing.

use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use bytes::BytesMut;
use seawall_control::Instant;
use seawall_control::request::{Claims, Stage};

use super::*;
use crate::protocol::{self, Parser};

const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);

fn store(kind: LockKind) -> Store {
    Store::with_seed(&Config { hash_power: 8, locks: kind, ..Config::default() }, 1).unwrap()
}

fn entry<'a>(key: &'a [u8], value: &'a [u8]) -> Entry<'a> {
    Entry { key, value, flags: 0, exptime: Exptime::NEVER }
}

/// A request that cannot wait at all.
fn hurried() -> Context {
    let claims = Claims { budget: Some(Duration::ZERO), ..Claims::default() };
    Context::new(claims, Instant::ORIGIN)
}

/// A request that may wait for ever.
fn patient() -> Context {
    Context::new(Claims::default(), Instant::ORIGIN)
}

/// Runs `test` while another thread holds what `lock` locks.
fn while_held<G, R>(lock: impl FnOnce() -> G + Send, test: impl FnOnce() -> R) -> R {
    let (held, is_held) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let _guard = lock();
            held.send(()).unwrap();
            // Also when the test has panicked, and nobody will send.
            let _ = released.recv();
        });
        is_held.recv().unwrap();
        let result = test();
        drop(release);
        result
    })
}

fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

#[track_caller]
fn refused_at(result: Result<impl core::fmt::Debug, impl Into<StoreError>>, stage: Stage) {
    match result.map_err(Into::into) {
        Err(StoreError::Rejected(rejected)) => assert_eq!(rejected.stage, stage),
        other => panic!("not refused, but {other:?}"),
    }
}

/// All that can be counted: items, bytes, chunks, versions, hits and misses.
fn accounts(store: &Store) -> (Audit, Stats, Vec<ClassStats>) {
    let audit = store.audit();
    assert!(audit.chunks_match_items && audit.slabs_balance, "{audit:?}");
    assert_eq!((audit.items, audit.bytes), (store.stats().curr_items, store.stats().bytes));
    (audit, store.stats(), store.class_stats())
}

/// The kinds of locks that refuse who cannot wait.
fn refusing() -> impl Iterator<Item = LockKind> {
    LockKind::NAMED.into_iter().map(|(_, kind)| kind).filter(|kind| *kind != LockKind::Plain)
}

#[test]
fn writes_that_cannot_wait_for_the_slab_lock_change_nothing() {
    for kind in refusing() {
        let store = store(kind);
        store.set(&patient(), NOW, &entry(b"k", b"99")).unwrap();
        let before = accounts(&store);
        while_held(
            || store.slabs.lock_plain(),
            || {
                let (long, ctx) = ([b'x'; 200], hurried());
                refused_at(store.set(&ctx, NOW, &entry(b"k", b"new")), SLAB_LOCK);
                refused_at(store.set(&ctx, NOW, &entry(b"other", b"new")), SLAB_LOCK);
                refused_at(store.add(&ctx, NOW, &entry(b"other", b"new")), SLAB_LOCK);
                // Those that do not fit into the chunk which the item has.
                refused_at(store.append(&ctx, NOW, b"k", &long), SLAB_LOCK);
                refused_at(store.prepend(&ctx, NOW, b"k", &long), SLAB_LOCK);
                // Reads and deletions of what is not there do not need it.
                assert_eq!(store.get(&ctx, NOW, b"k").unwrap().unwrap().data, "99");
                assert_eq!(store.delete(&ctx, NOW, b"other"), Ok(false));
            },
        );
        let (audit, stats, classes) = accounts(&store);
        assert_eq!((audit, classes), (before.0, before.2));
        assert_eq!((stats.total_items, stats.cmd_set), (before.1.total_items, before.1.cmd_set));
        assert_eq!(store.get(&patient(), NOW, b"k").unwrap().unwrap().data, "99");
    }
}

#[test]
fn requests_that_cannot_wait_for_the_item_lock_change_nothing() {
    for kind in refusing() {
        let store = store(kind);
        store.set(&patient(), NOW, &entry(b"k", b"99")).unwrap();
        // What the refused ones take for a moment is taken from the first page of its class.
        store.set(&patient(), NOW, &entry(b"l", &[0; 200])).unwrap();
        store.delete(&patient(), NOW, b"l").unwrap();
        let before = accounts(&store);
        while_held(
            || store.items.lock_plain(store.spot(b"k").bucket),
            || {
                let (long, ctx) = ([b'x'; 200], hurried());
                refused_at(store.set(&ctx, NOW, &entry(b"k", b"new")), ITEM_LOCK);
                refused_at(store.set(&ctx, NOW, &entry(b"k", &long)), ITEM_LOCK);
                refused_at(store.replace(&ctx, NOW, &entry(b"k", b"new")), ITEM_LOCK);
                refused_at(store.cas(&ctx, NOW, 1, &entry(b"k", b"new")), ITEM_LOCK);
                refused_at(store.append(&ctx, NOW, b"k", b"x"), ITEM_LOCK);
                refused_at(store.get(&ctx, NOW, b"k"), ITEM_LOCK);
                refused_at(store.gat(&ctx, NOW, b"k", Exptime::from_wire(1)), ITEM_LOCK);
                refused_at(store.touch(&ctx, NOW, b"k", Exptime::from_wire(1)), ITEM_LOCK);
                refused_at(store.delete(&ctx, NOW, b"k"), ITEM_LOCK);
                let sum = store.incr(&ctx, NOW, b"k", 1);
                let Err(ArithmeticError::Store(error)) = sum else { panic!("{sum:?}") };
                refused_at(Err::<(), _>(error), ITEM_LOCK);
                // Other buckets are free.
                assert_eq!(store.get(&ctx, NOW, b"m"), Ok(None));
            },
        );
        store.get(&patient(), NOW, b"k").unwrap().unwrap();
        let (audit, stats, classes) = accounts(&store);
        assert_eq!((audit, classes), (before.0, before.2));
        let expected = Stats { cmd_get: 2, get_hits: 1, get_misses: 1, ..before.1 };
        assert_eq!(stats, expected);
    }
}

#[test]
fn who_cannot_wait_for_a_victims_lock_evicts_nothing() {
    let config = Config { memory_limit_mib: 1, hash_power: 0, ..Config::default() };
    let store = Store::with_seed(&config, 1).unwrap();
    let large = vec![1; 700_000];
    store.set(&patient(), NOW, &entry(b"old", &large)).unwrap();
    let before = accounts(&store);
    while_held(
        || store.items.lock_plain(0),
        || refused_at(store.set(&hurried(), NOW, &entry(b"new", &large)), ITEM_LOCK),
    );
    assert_eq!(accounts(&store), before);
    store.set(&hurried(), NOW, &entry(b"new", &large)).unwrap();
    assert_eq!(store.stats().evictions, 1);
    accounts(&store);
}

#[test]
fn giving_back_waits_and_is_never_refused() {
    for (_, kind) in LockKind::NAMED {
        let store = store(kind);
        let old = Entry { exptime: Exptime::from_wire(-1), ..entry(b"old", b"2") };
        store.set(&patient(), NOW, &entry(b"k", b"1")).unwrap();
        store.set(&patient(), NOW, &old).unwrap();
        thread::scope(|scope| {
            let (delete, sweep) = while_held(
                || store.slabs.lock_plain(),
                || {
                    let delete = scope.spawn(|| store.delete(&hurried(), NOW, b"k"));
                    let sweep = scope.spawn(|| store.sweep(NOW, usize::MAX));
                    // Both items are out of the table, and their chunks on the way home.
                    until(|| store.counters.snapshot().curr_items == 0);
                    assert!(!delete.is_finished() && !sweep.is_finished());
                    (delete, sweep)
                },
            );
            assert_eq!((delete.join().unwrap(), sweep.join().unwrap()), (Ok(true), 1));
        });
        assert_eq!(accounts(&store).0.chunks_used, 0);
    }
}

#[test]
fn plain_locks_refuse_nobody() {
    let store = store(LockKind::Plain);
    thread::scope(|scope| {
        let set = while_held(
            || store.slabs.lock_plain(),
            || {
                let set = scope.spawn(|| store.set(&hurried(), NOW, &entry(b"k", b"1")));
                thread::yield_now();
                assert!(!set.is_finished());
                set
            },
        );
        assert_eq!(set.join().unwrap(), Ok(()));
    });
    assert_eq!(accounts(&store).0.items, 1);
}

#[test]
fn requests_that_must_not_be_dropped_wait_at_every_kind_of_lock() {
    for (_, kind) in LockKind::NAMED {
        let store = store(kind);
        thread::scope(|scope| {
            let set = while_held(
                || store.slabs.lock_plain(),
                || {
                    let set = scope.spawn(|| {
                        let claims = Claims { droppable: false, ..*hurried().claims() };
                        let ctx = Context::new(claims, Instant::ORIGIN);
                        store.set(&ctx, NOW, &entry(b"k", b"1"))
                    });
                    thread::yield_now();
                    assert!(!set.is_finished());
                    set
                },
            );
            assert_eq!(set.join().unwrap(), Ok(()));
        });
    }
}

/// Two keys of different buckets, and the output of a command about both, while somebody has the
/// second one's lock.
fn ask_for_two(store: &Store, command: &str) -> (Result<protocol::Connection, Rejected>, BytesMut) {
    let mut input = BytesMut::from(command);
    let command = Parser::new(100).next(&mut input).unwrap().unwrap();
    let mut output = BytesMut::from("before ");
    let result = protocol::execute(store, &hurried(), NOW, &command, &mut output);
    (result, output)
}

#[test]
fn a_lookup_that_is_refused_halfway_says_nothing() {
    let store = store(LockKind::Larger);
    assert_ne!(store.spot(b"a").bucket, store.spot(b"b").bucket);
    for key in [&b"a"[..], b"b"] {
        store.set(&patient(), NOW, &entry(key, b"1")).unwrap();
    }
    let (result, output) = while_held(
        || store.items.lock_plain(store.spot(b"b").bucket),
        || ask_for_two(&store, "get a b\r\n"),
    );
    refused_at(result, ITEM_LOCK);
    assert_eq!(output, "before ");
}

#[test]
fn a_touch_of_several_keys_is_refused_before_it_has_touched_one() {
    for kind in refusing() {
        touch_two(&store(kind));
    }
}

fn touch_two(store: &Store) {
    for key in [&b"a"[..], b"b"] {
        store.set(&patient(), NOW, &entry(key, b"1")).unwrap();
    }
    let (first, second) = (store.spot(b"a").bucket, store.spot(b"b").bucket);
    let gat = "gat 100 a b\r\n";
    let refused = while_held(|| store.items.lock_plain(first), || ask_for_two(store, gat));
    refused_at(refused.0, ITEM_LOCK);
    assert_eq!((refused.1, store.stats().cmd_touch), ("before ".into(), 0));

    thread::scope(|scope| {
        let touched = while_held(
            || store.items.lock_plain(second),
            || {
                let touched = scope.spawn(|| ask_for_two(store, gat));
                until(|| store.counters.snapshot().touch_hits == 1);
                touched
            },
        );
        let (result, output) = touched.join().unwrap();
        assert_eq!(result, Ok(protocol::Connection::Keep));
        assert_eq!(output, "before VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n1\r\nEND\r\n");
    });
}

#[test]
fn a_request_is_charged_for_the_wait_to_give_back() {
    let store = store(LockKind::Larger);
    store.set(&patient(), NOW, &entry(b"k", b"1")).unwrap();
    let ctx = patient();
    thread::scope(|scope| {
        let deleting = while_held(
            || store.slabs.lock_plain(),
            || {
                let deleting = scope.spawn(|| store.delete(&ctx, NOW, b"k").unwrap());
                until(|| store.slabs.waiters() == 1);
                thread::sleep(Duration::from_millis(2));
                deleting
            },
        );
        assert!(deleting.join().unwrap());
    });
    assert!(ctx.charged() >= Duration::from_millis(1), "{:?}", ctx.charged());
}
