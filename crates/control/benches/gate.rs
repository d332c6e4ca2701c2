//! What a request costs a proxy's decisions: its class, its way through a full gate, and what is
//! learned from it.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use seawall_control::classes::{self, Classes, Request, Route};
use seawall_control::controller::Init;
use seawall_control::gate::{Answer, Config, End, Gate, Id, Turn};
use seawall_control::request::{Claims, Class, Context};
use seawall_control::{Instant, Rng};

/// Requests whose texts are made before the measurement.
const TEXTS: usize = 4096;

/// Time from one arrival to the next.
const GAP: Duration = Duration::from_micros(10);

/// A stream of requests: paths with ids, and one of 100000 tenants.
struct Texts {
    paths: Vec<String>,
    tenants: Vec<String>,
}

impl Texts {
    fn new() -> Self {
        let rng = &mut Rng::new(3);
        let roots = ["orders", "items", "users", "carts"];
        let path = |rng: &mut Rng| {
            let root = roots[rng.below(4) as usize];
            format!("/api/v1/{root}/{}/lines/{:016x}", rng.below(1 << 30), rng.next_u64())
        };
        let tenant = |rng: &mut Rng| format!("tenant-{}", rng.below(100_000));
        Self {
            paths: (0..TEXTS).map(|_| path(rng)).collect(),
            tenants: (0..TEXTS).map(|_| tenant(rng)).collect(),
        }
    }

    fn with<R>(&self, number: usize, with: impl FnOnce(&Request<'_>) -> R) -> R {
        let number = number % TEXTS;
        let headers = [Some(self.tenants[number].as_str()), None, Some("application/json")];
        let path = &self.paths[number];
        with(&Request { method: "GET", path, size: Some(number as u64), headers: &headers })
    }
}

fn learning(criterion: &mut Criterion) {
    let texts = Texts::new();
    let mut group = criterion.benchmark_group("classes");
    group.bench_function("fold a path", |bencher| {
        let mut number = 0;
        bencher.iter(|| {
            number = (number + 1) % TEXTS;
            let mut text = Count(0);
            let route = Route::of(&texts.paths[number]);
            _ = std::fmt::write(&mut text, format_args!("{route}"));
            black_box(text.0)
        });
    });
    group.bench_function("a request and its end", |bencher| {
        let config = classes::Config::default();
        let mut classes =
            Classes::new(&config, Instant::ORIGIN, 5).expect("the defaults are valid");
        let mut number = 0;
        bencher.iter(|| {
            number += 1;
            let now = Instant::ORIGIN + GAP * number as u32;
            let (class, key) = texts.with(number, |request| classes.on_request(now, request));
            classes.on_served(now, &key, Duration::from_micros(900 + number as u64 % 256));
            black_box(class)
        });
    });
    group.finish();
}

/// A gate in front of which twice as many stand as may enter, from two classes.
struct Full {
    gate: Gate<usize>,
    inside: std::collections::VecDeque<Id>,
    now: Instant,
    number: usize,
}

impl Full {
    fn new() -> Self {
        let init = Init::new(Instant::ORIGIN, 1);
        let gate = Gate::new(&Config::default(), init).expect("the defaults are valid");
        let mut full = Self { gate, inside: [].into(), now: Instant::ORIGIN, number: 0 };
        (0..64).for_each(|_| full.arrive());
        full
    }

    fn arrive(&mut self) {
        self.now = self.now + GAP;
        self.number += 1;
        let budget = Some(Duration::from_secs(10));
        let context = Context::new(Claims { budget, ..Claims::default() }, self.now);
        let class = Class((self.number % 2) as u8);
        let answer = self.gate.on_arrival(self.now, class, &context, || self.number);
        if let Ok(Answer::Go(id)) = answer {
            self.inside.push_back(id);
        }
    }

    fn end(&mut self) {
        let Some(id) = self.inside.pop_front() else { return };
        self.gate.on_end(self.now, id, End::Served);
        while let Some(turn) = self.gate.poll(self.now) {
            if let Turn::Go { id, item, .. } = turn {
                black_box(item);
                self.inside.push_back(id);
            }
        }
    }
}

fn gate(criterion: &mut Criterion) {
    criterion.bench_function("gate/a request that waits", |bencher| {
        let mut full = Full::new();
        bencher.iter(|| {
            full.arrive();
            full.end();
        });
    });
    criterion.bench_function("gate/a request that is refused", |bencher| {
        let mut full = Full::new();
        (0..10_000).for_each(|_| {
            full.arrive();
            full.end();
        });
        let budget = Some(Duration::from_nanos(1));
        bencher.iter(|| {
            let context = Context::new(Claims { budget, ..Claims::default() }, full.now);
            let answer = full.gate.on_arrival(full.now, Class(0), &context, || 0);
            black_box(answer.is_err())
        });
    });
}

/// A place to write to that only counts.
struct Count(usize);

impl std::fmt::Write for Count {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

criterion_group!(benches, learning, gate);
criterion_main!(benches);
