//! A gate before a service, under the questions that matter: is all that the service can do done,
//! and is nobody late, whatever is scarce in there, and whether it can be seen or not.
//!
//! Figures are printed (`--nocapture`) and checked.

mod histories;
mod model;

use std::time::Duration;

use model::{Kind, Station, Times, World};
use seawall_control::controller::Init;
use seawall_control::gate::{self, Answer, End, Gate, Turn};
use seawall_control::request::{Claims, Class, Context};
use seawall_control::{Instant, Rng, limit};

/// Stations: a network that takes a fifth of a millisecond, cores, a lock, and sleep.
const NET: usize = 0;
const CPU: usize = 1;
const LOCK: usize = 2;
const SLEEP: usize = 3;

fn stations(cores: u32) -> Vec<Station> {
    vec![Station::ample(), Station::new(cores), Station::new(1), Station::ample()]
}

/// 2 ms of CPU each, or as long in a lock.
fn cpu(rate: f64) -> Kind {
    Kind::new(rate, &[(NET, 0.2), (CPU, 2.0)])
}

fn lock(rate: f64) -> Kind {
    Kind::new(rate, &[(NET, 0.2), (LOCK, 2.5)])
}

fn cold(rate: f64) -> Kind {
    Kind::new(rate, &[(NET, 0.2), (SLEEP, 2.5)])
}

#[test]
fn cpu_at_twice_its_capacity() {
    for (cores, times) in
        [(1, Times::Fixed), (1, Times::Exponential), (4, Times::Fixed), (4, Times::Exponential)]
    {
        let capacity = 500.0 * f64::from(cores);
        let mut world = World::new(1, stations(cores), vec![Kind { times, ..cpu(2.0 * capacity) }]);
        world.run(5.0).show("  cpu 2x, the first seconds");
        let report = world.run(20.0);
        report.show(&format!("cpu 2x, {cores} cores"));
        assert!(report.good_all() >= 0.9 * capacity);
        assert!(report.p99() <= 40.0);
    }
}

#[test]
fn a_lock_at_twice_its_capacity() {
    for times in [Times::Fixed, Times::Exponential] {
        let mut world = World::new(2, stations(4), vec![Kind { times, ..lock(800.0) }]);
        world.run(5.0).show("  lock 2x, the first seconds");
        let report = world.run(20.0);
        report.show("lock 2x");
        assert!(report.good_all() >= 0.9 * 400.0);
        assert!(report.p99() <= 40.0);
    }
}

/// Half needs a lock that lets 400 in a second, and half needs nothing that is scarce.
fn mix(what: &str, hot: &Kind, cold: &Kind) -> model::Report {
    let mut report = None;
    for times in [Times::Fixed, Times::Exponential] {
        let kinds = [hot, cold].map(|kind| Kind { times, ..kind.clone() });
        let mut world = World::new(3, stations(4), kinds.into());
        world.run(10.0).show(&format!("  {what}, the first seconds"));
        let of = world.run(20.0);
        of.show(what);
        println!("  {:?}", world.limits());
        assert_eq!(of.names.len(), 2, "{:?}", of.names);
        assert!(of.good_all() >= 0.93 * 1200.0, "{}", of.good_all());
        report = Some(of);
    }
    report.unwrap()
}

#[test]
fn a_mix_told_apart_by_path() {
    let hot = Kind { path: |rng| format!("/orders/{}", rng.below(1 << 40)), ..lock(800.0) };
    let cold = Kind { path: |rng| format!("/items/{}", rng.below(1 << 40)), ..cold(800.0) };
    mix("mix by path", &hot, &cold);
}

#[test]
fn a_mix_told_apart_by_a_header() {
    let hot = Kind { header: |_| "acme".into(), ..lock(800.0) };
    let other = |rng: &mut Rng| format!("tenant-{}", rng.below(10));
    let report = mix("mix by header", &hot, &Kind { header: other, ..cold(800.0) });
    assert!(report.names.contains(&"x-tenant=acme".to_owned()));
}

#[test]
fn a_mix_told_apart_by_size() {
    let hot = Kind { size: |rng| 100_000 + rng.below(50_000), ..lock(800.0) };
    let cold = Kind { size: |rng| rng.below(50_000), ..cold(800.0) };
    let report = mix("mix by size", &hot, &cold);
    assert!(report.names.contains(&"body > 64 KiB".to_owned()));
}

#[test]
fn a_mix_that_nothing_tells_apart_is_not_divided() {
    let ids = |rng: &mut Rng| format!("tenant-{}", rng.below(1_000_000));
    let few = |rng: &mut Rng| format!("/route-{}", (b'a' + rng.below(8) as u8) as char);
    for times in [Times::Fixed, Times::Exponential] {
        let kind = |kind: Kind| Kind { path: few, header: ids, times, ..kind };
        let mut world = World::new(4, stations(4), vec![kind(lock(800.0)), kind(cold(800.0))]);
        let report = world.run(60.0);
        report.show("mix, data-dependent");
        assert_eq!(report.names, ["all else"]);
        // The fast ones share the fate of the slow ones, and nobody's work is in vain.
        assert!(report.given_up() < 0.02, "{}", report.given_up());
        assert!(report.good(0) >= 0.85 * 400.0, "{}", report.good(0));
    }
}

/// Turns come slowly while those inside wait for the lock, and else at once.
#[test]
fn somebody_waits_while_more_comes_than_can_be_served() {
    for times in [Times::Fixed, Times::Exponential] {
        let hot = Kind { times, ..Kind::new(600.0, &[(NET, 0.1), (LOCK, 5.0)]) };
        let cold = Kind { times, ..Kind::new(1_400.0, &[(NET, 0.2)]) };
        let mut world = World::new(10, stations(4), vec![hot, cold]);
        world.run(10.0);
        for fifth in 0..3_000 {
            let report = world.run(0.2);
            let mut waits = report.kinds.iter().flat_map(|kind| &kind.waits);
            assert!(report.refused() == 0 || waits.any(|wait| *wait > 0.0), "{fifth}");
        }
    }
}

/// After a stall the last turn came late. That says nothing of the next ones.
#[test]
fn a_stall_does_not_keep_everybody_from_the_queue() {
    let limit = limit::Config { fixed: 1, ..limit::Config::named("fixed") };
    let config = gate::Config { limit, ..Default::default() };
    let mut gate = Gate::<()>::new(&config, Init::new(Instant::ORIGIN, 12)).unwrap();
    let mut now = Instant::ORIGIN;
    let arrive = |gate: &mut Gate<()>, now, droppable| {
        let budget = Some(Duration::from_millis(20));
        let claims = Claims { droppable, budget, ..Claims::default() };
        gate.on_arrival(now, Class(0), &Context::new(claims, now), || ())
    };
    let Ok(Answer::Go(first)) = arrive(&mut gate, now, true) else { panic!("it is empty") };
    let Ok(Answer::Wait(second)) = arrive(&mut gate, now, false) else { panic!("it may wait") };
    now = now + Duration::from_secs(10);
    gate.on_end(now, first, End::Served);
    assert!(matches!(gate.poll(now), Some(Turn::Go { .. })));
    gate.on_end(now, second, End::Served);
    for _ in 0..1_000 {
        let Ok(Answer::Go(id)) = arrive(&mut gate, now, true) else { panic!("it is empty") };
        now = now + Duration::from_millis(1);
        gate.on_end(now, id, End::Served);
    }
    assert!(matches!(arrive(&mut gate, now, true), Ok(Answer::Go(_))));
    assert!(matches!(arrive(&mut gate, now, true), Ok(Answer::Wait(_))));
}

/// It let in many when nothing was scarce, and now so many wait inside that clients give up.
#[test]
fn a_limit_that_is_far_too_high_comes_down_again() {
    for times in [Times::Fixed, Times::Exponential] {
        let kind = |kind: Kind| Kind { times, ..kind };
        let mut world = World::new(5, stations(4), vec![kind(lock(0.001)), kind(cold(40_000.0))]);
        let before = world.run(10.0);
        before.show("  nothing is scarce");
        assert!(before.limit > 90, "{}", before.limit);
        world.kinds = vec![kind(lock(800.0)), kind(cold(800.0))];
        world.run(20.0).show("  then half needs a lock");
        let report = world.run(20.0);
        report.show("half needs a lock");
        assert!(report.given_up() < 0.02, "{}", report.given_up());
        assert!(report.good(0) >= 0.85 * 400.0, "{}", report.good(0));
    }
}

#[test]
fn a_million_ids_hide_nothing_and_win_nothing() {
    let ids = |rng: &mut Rng| format!("tenant-{}", rng.below(1_000_000));
    let hot = Kind { path: |_| "/hot".into(), header: ids, ..lock(800.0) };
    let cold = Kind { path: |_| "/cold".into(), header: ids, ..cold(800.0) };
    let report = mix("mix by path among ids", &hot, &cold);
    assert!(report.names.contains(&"/hot".to_owned()));
}

#[test]
fn half_the_load_is_not_refused() {
    for (what, kind, cores) in [
        ("cpu", cpu(250.0), 1),
        ("cpu, 4 cores", cpu(1_000.0), 4),
        ("lock", lock(200.0), 4),
        ("sleep", cold(5_000.0), 4),
    ] {
        for times in [Times::Fixed, Times::Exponential] {
            let kinds = vec![Kind { times, ..kind.clone() }];
            let report = World::new(5, stations(cores), kinds).run(60.0);
            report.show(&format!("0.5x {what}"));
            assert_eq!(report.refused(), 0);
        }
    }
}

#[test]
fn errors_starve_nobody() {
    let kind = Kind { fails: 0.01, times: Times::Exponential, ..cpu(1_000.0) };
    let mut world = World::new(6, stations(1), vec![kind]);
    world.run(5.0);
    let report = world.run(20.0);
    report.show("1 % errors, cpu 2x");
    assert!(report.good_all() >= 450.0);
    world.kinds[0].fails = 1.0;
    world.run(20.0);
    world.kinds[0].fails = 0.0;
    world.run(5.0);
    let report = world.run(20.0);
    report.show("after all failed");
    assert!(report.good_all() >= 450.0);
}

#[test]
fn follows_a_bottleneck_that_shifts() {
    let mut world = World::new(7, stations(1), vec![cpu(4_000.0)]);
    world.run(20.0).show("  one core");
    for (cores, what) in [(4, "four cores"), (1, "one core again"), (8, "eight cores")] {
        world.stations[CPU].servers = cores;
        world.run(10.0).show(&format!("  {what}, the first seconds"));
        let report = world.run(20.0);
        report.show(what);
        assert!(report.good_all() >= 0.9 * 500.0 * f64::from(cores).min(8.0), "{what}");
        assert!(report.p99() <= 40.0);
    }
}

#[test]
fn a_spike_of_all_latencies_takes_no_throughput() {
    // What the service waits for takes ten times as long for a while: as many more must be inside.
    let mut world =
        World::new(8, stations(4), vec![Kind { times: Times::Exponential, ..cold(4_000.0) }]);
    world.run(20.0).show("  before");
    world.kinds[0].visits[1].1 = 25.0;
    world.run(5.0).show("  spike, the first seconds");
    let report = world.run(20.0);
    report.show("spike");
    assert!(report.good_all() >= 0.9 * 4_000.0);
    world.kinds[0].visits[1].1 = 2.5;
    let report = world.run(20.0);
    report.show("after it");
    assert!(report.good_all() >= 0.98 * 4_000.0);
}

#[test]
fn a_long_overload_does_not_make_the_limit_drift() {
    for times in [Times::Fixed, Times::Exponential] {
        let mut world = World::new(9, stations(2), vec![Kind { times, ..cpu(2_000.0) }]);
        world.run(20.0);
        let mut mean_of_minutes = |minutes: u32| {
            let limits = (0..minutes * 60).map(|_| f64::from(world.run(1.0).limit));
            limits.sum::<f64>() / f64::from(minutes * 60)
        };
        let (first, last) = (mean_of_minutes(5), mean_of_minutes(5));
        let report = world.run(20.0);
        report.show("cpu 2x, after ten minutes");
        println!("  mean limit {first:.1} in the first five, {last:.1} in the last");
        assert!(report.good_all() >= 900.0);
        assert!(first <= 4.0 && last <= first + 0.5);
    }
}
