//! What it costs to lock and unlock when nobody else does.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use seawall_bench_sync::cases;

/// How long each of criterion's samples measures.
const SAMPLE: Duration = Duration::from_millis(5);

fn alone(criterion: &mut Criterion) {
    for case in cases::alone() {
        let mut group = criterion.benchmark_group(&case.name);
        for (contestant, turn) in &case.contestants {
            group.bench_function(*contestant, |bencher| {
                // A turn lasts a while, and says what one operation takes.
                bencher.iter_custom(|operations| {
                    Duration::from_secs_f64(turn(SAMPLE).nanos * operations as f64 / 1e9)
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500));
    targets = alone
}
criterion_main!(benches);
