//! What counting costs a request.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use seawall_abi::page::{Description, Publisher, Reader, Sample};

fn page(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let description = Description::of_this_process("bench", 0).expect("/proc is mounted");
    let publisher = Publisher::create(folder.path(), &description).expect("a page");
    let reader = Reader::open(publisher.path()).expect("a page");
    let first = Sample { exec_ns: 1_000_000, ..Sample::default() };
    let hinted = Sample {
        pool_wait_ns: 500_000,
        time_from_start_ns: Some(2_000_000),
        upstream_exec_ns: 900_000,
        is_hinted: true,
        ..first
    };
    let mut group = c.benchmark_group("page");
    for (name, sample) in [("request", first), ("request with everything", hinted)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let shard = publisher.shard(black_box(3));
                shard.on_arrival();
                shard.on_completion(black_box(&sample));
            });
        });
    }
    group.bench_function("orders", |b| b.iter(|| publisher.orders()));
    group.bench_function("read counters", |b| b.iter(|| reader.counters()));
    group.finish();
}

criterion_group!(benches, page);
criterion_main!(benches);
