//! What a get and a set cost, alone and with a second thread.
//!
//! The items are those of a small cache: 16-byte keys, 100-byte values, a thousand times more
//! items than fit in a processor's first cache.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use criterion::{Criterion, criterion_group, criterion_main};
use seawall_control::request::{Claims, Context};
use seawall_kv::protocol::{Parser, execute};
use seawall_kv::store::{Config, Entry, Store};
use seawall_kv::{Exptime, UnixTime};

const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);
const ITEMS: u64 = 200_000;
const VALUE: [u8; 100] = [b'v'; 100];

type Operation = fn(&Store, &Context, u64);

/// A request that may wait for ever.
fn patient() -> Context {
    Context::new(Claims::default(), seawall_control::Instant::ORIGIN)
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    // A permutation of the items, so that neighbours in time are none in memory.
    let scattered = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % ITEMS;
    key[8..].copy_from_slice(&scattered.to_le_bytes());
    key
}

fn set(store: &Store, ctx: &Context, number: u64) {
    let entry = Entry { key: &key(number), value: &VALUE, flags: 0, exptime: Exptime::NEVER };
    store.set(ctx, NOW, &entry).expect("room, or something to evict");
}

fn get(store: &Store, ctx: &Context, number: u64) {
    black_box(store.get(ctx, NOW, &key(number)).unwrap());
}

/// Filled with all items.
fn filled(memory_limit_mib: u32) -> Store {
    let store = Store::new(&Config { memory_limit_mib, ..Config::default() }).expect("valid");
    let ctx = patient();
    (0..4 * ITEMS).for_each(|number| set(&store, &ctx, number));
    store
}

/// The time in which `threads` threads do `rounds` operations *each*.
fn timed(store: &Store, threads: u64, rounds: u64, operation: Operation) -> Duration {
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 1..threads {
            let first = thread * ITEMS / threads;
            scope.spawn(move || {
                let ctx = patient();
                (first..first + rounds).for_each(|n| operation(store, &ctx, n));
            });
        }
        let ctx = patient();
        (0..rounds).for_each(|number| operation(store, &ctx, number));
    });
    start.elapsed()
}

fn operations(criterion: &mut Criterion) {
    // Enough for all items, and enough for a fifth of them.
    for (room, store) in [("roomy", filled(64)), ("full", filled(6))] {
        for threads in [1, 2] {
            for (name, operation) in [("get", get as Operation), ("set", set)] {
                let mut group = criterion.benchmark_group(format!("{name}/{room}"));
                let mut timed = |rounds| timed(&store, threads, rounds, operation);
                group.bench_function(format!("{threads} threads"), |bencher| {
                    bencher.iter_custom(&mut timed);
                });
                group.finish();
            }
        }
    }
}

fn text_protocol(criterion: &mut Criterion) {
    let store = filled(64);
    let ctx = patient();
    let mut group = criterion.benchmark_group("text");
    let requests = [
        ("get", "get key-00000000000\r\n".to_owned()),
        ("set", format!("set key-00000000000 0 0 100\r\n{}\r\n", "v".repeat(100))),
    ];
    for (name, request) in requests {
        let mut parser = Parser::new(store.item_bytes_max());
        let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                input.extend_from_slice(request.as_bytes());
                let command = parser.next(&mut input).expect("whole").expect("well-formed");
                output.clear();
                execute(&store, &ctx, NOW, &command, &mut output)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, operations, text_protocol);
criterion_main!(benches);
