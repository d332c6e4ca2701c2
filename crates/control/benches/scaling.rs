//! What one decision costs: each policy, on nodes of 10, 100 and 1000 containers.
//!
//! A tenth of the containers is slow, a tenth waits for connections, a tenth gets hints, and the
//! rest is at ease; units come and go. A snapshot is made outside of what is timed.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use seawall_control::scaling::{
    Change, Config, Container, ContainerId, Counters, Expected, NAMES, Node, Outcome, Report,
    Scaler, Snapshot,
};
use seawall_control::{Instant, Rng};

const CONTAINERS: [u64; 3] = [10, 100, 1_000];

/// Decisions before the measured ones, so that profiles and matrices are full.
const WARM_UP: u32 = 2_000;

/// A node, and its scaler.
struct World {
    scaler: Scaler,
    snapshot: Snapshot,
    now: Instant,
    step: u32,
    rng: Rng,
}

impl World {
    fn new(name: &str, containers: u64) -> Self {
        let config = Config::named(name).expect("a name");
        let container = |id| Container {
            id: ContainerId(id),
            units: 3,
            floor: 2,
            limit: 12,
            level: 0,
            hint: 0,
            depth: (id % 5) as u16,
            cpu_time: Some(Duration::ZERO),
            expected: Expected { exec: Some(Duration::from_millis(1)), time_from_start: None },
            report: Report::Counters(Counters::default()),
        };
        let node = Node { units: containers as u32 * 4, ..Node::default() };
        let containers = (0..containers).map(container).collect();
        let mut world = Self {
            scaler: config.build(7).expect("the defaults are valid"),
            snapshot: Snapshot { node, containers },
            now: Instant::ORIGIN,
            step: 0,
            rng: Rng::new(11),
        };
        for _ in 0..WARM_UP {
            world.advance();
            let outcome = world.scaler.on_snapshot(world.now, &world.snapshot);
            world.carry_out(&outcome);
        }
        world
    }

    /// 10 ms in which each container serves some 20 requests.
    fn advance(&mut self) {
        self.step += 1;
        self.now = self.now + Duration::from_millis(10);
        // Troubles move on after a second.
        let turn = u64::from(self.step / 100);
        for container in &mut self.snapshot.containers {
            let role = (container.id.0 + turn) % 10;
            let requests = 10 + self.rng.below(20);
            let exec = 200_000 + self.rng.below(200_000);
            let (own, wait) = match role {
                0 => (exec * 8, 0),
                1 => (exec, exec * 20),
                _ => (exec, exec / 10),
            };
            let Report::Counters(counters) = &mut container.report else { unreachable!() };
            counters.requests += requests;
            counters.in_flight = 50;
            counters.exec_ns += requests * (own + wait);
            counters.pool_wait_ns += requests * wait;
            counters.started += requests;
            counters.time_from_start_ns += requests * own;
            counters.hinted += if role == 2 { requests } else { 0 };
            let used = Duration::from_millis(5) * container.units;
            container.cpu_time = container.cpu_time.map(|time| time + used);
        }
    }

    fn carry_out(&mut self, outcome: &Outcome) {
        for decision in &outcome.decisions {
            let container = &mut self.snapshot.containers[decision.container.0 as usize];
            match decision.change {
                Change::Units { to, .. } => container.units = to,
                Change::Level { to, .. } => container.level = to,
                Change::Hint { to, .. } => container.hint = to,
            }
        }
    }
}

fn decide(criterion: &mut Criterion) {
    for name in NAMES {
        let mut group = criterion.benchmark_group(format!("scaling/{name}"));
        for containers in CONTAINERS {
            let mut world = World::new(name, containers);
            group.throughput(Throughput::Elements(containers));
            group.bench_function(BenchmarkId::from_parameter(containers), |bencher| {
                bencher.iter_custom(|iterations| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..iterations {
                        world.advance();
                        let began = std::time::Instant::now();
                        let outcome =
                            world.scaler.on_snapshot(world.now, black_box(&world.snapshot));
                        spent += began.elapsed();
                        world.carry_out(black_box(&outcome));
                    }
                    spent
                });
            });
        }
        group.finish();
    }
}

/// Taking up what was learned of a thousand containers, and writing it down.
fn remember(criterion: &mut Criterion) {
    let world = World::new("escalator", 1_000);
    criterion.bench_function("scaling/memory/1000", |bencher| {
        bencher.iter(|| black_box(world.scaler.memory()));
    });
    let memory = world.scaler.memory();
    criterion.bench_function("scaling/recall/1000", |bencher| {
        let new = || Config::named("escalator").and_then(|it| it.build(7)).expect("valid");
        bencher.iter_batched(
            || (new(), memory.clone()),
            |(mut scaler, memory)| {
                assert_eq!(scaler.recall(memory), 0);
                scaler.on_snapshot(world.now, &world.snapshot)
            },
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, decide, remember);
criterion_main!(benches);
