//! What it costs a request to be counted: a plain counter, a histogram's bucket, and all that a
//! server counts of one request that waited once in the run queue.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use seawall_control::estimate::SharedHistogram;

/// Times from 1 µs to 1 s, so that the bucket cannot be guessed.
fn times() -> Vec<Duration> {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1_000 << ((state >> 32) % 20)
    };
    (0..1024).map(|_| Duration::from_nanos(next())).collect()
}

fn histogram(c: &mut Criterion) {
    let times = times();
    let mut next = times.iter().cycle();
    let mut time = move || *next.next().expect("it never ends");
    let mut group = c.benchmark_group("count");
    group.bench_function("nothing", |b| b.iter(|| black_box(time())));
    let counter = AtomicU64::new(0);
    group.bench_function("a counter", |b| {
        b.iter(|| {
            black_box(time());
            counter.fetch_add(1, Relaxed)
        });
    });
    let one = SharedHistogram::default();
    group.bench_function("a histogram", |b| b.iter(|| one.observe(black_box(time()))));
    let [socket, run_queue, request] = [(); 3].map(|()| SharedHistogram::default());
    group.bench_function("a request: socket, run queue, whole", |b| {
        b.iter(|| {
            let time = black_box(time());
            socket.observe(time);
            run_queue.observe(time);
            request.observe(time);
        });
    });
    group.bench_function("a snapshot", |b| b.iter(|| black_box(one.snapshot())));
    group.finish();
}

criterion_group!(benches, histogram);
criterion_main!(benches);
