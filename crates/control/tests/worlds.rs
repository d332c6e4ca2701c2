//! Every algorithm in the same situations: one server, its clients, and a manual clock.

use std::sync::Arc;
use std::time::Duration;

use seawall_control::controller::{Algorithm, Init};
use seawall_control::harness::{Link, Tally, World};
use seawall_control::request::{Identity, Priority, Tenant};
use seawall_control::{Instant, admission};

const SERVICE: Duration = Duration::from_micros(100);
/// Of an exponential distribution.
const SERVICE_P99: Duration = Duration::from_micros(460);
const RTT: Duration = Duration::from_micros(40);
/// Requests per second that one core can serve.
const CAPACITY: f64 = 10_000.0;

/// An algorithm by its name, or by its name and what differs from the defaults.
fn algorithm(name: &str) -> Arc<dyn Algorithm> {
    let config = match name.split_once(' ') {
        None => admission::Config::named(name),
        Some((name, set)) => toml::from_str(&format!("algorithm = '{name}'\n{set}")).unwrap(),
    };
    config.build().unwrap()
}

fn world(name: &str, clients: usize, seed: u64) -> World {
    let slo = (SERVICE + RTT) * 10;
    let init = Init { slo, rtt: RTT, ..Init::new(Instant::ORIGIN, seed) };
    let algorithm = algorithm(name);
    let bounds_waits = algorithm.bounds_waits();
    let mut world = World::new(algorithm, init, SERVICE);
    (0..clients).for_each(|_| _ = world.connect(Identity::default()));
    if bounds_waits {
        world.set_budget(slo - RTT - SERVICE_P99);
    }
    world
}

/// Long enough for SEDA's clients, which begin at a few requests per second.
const WARM_UP_MS: u64 = 2_000;

/// Steady state at `load` times the capacity.
fn steady(name: &str, clients: usize, load: f64) -> Tally {
    let mut world = world(name, clients, 11);
    world.offer(load * CAPACITY, Duration::from_millis(WARM_UP_MS));
    world.forget();
    world.offer(load * CAPACITY, Duration::from_secs(1));
    world.tally
}

#[test]
fn below_capacity_everything_is_served() {
    for name in admission::NAMES {
        let tally = steady(name, 100, 0.5);
        let served = tally.good as f64 / tally.offered as f64;
        assert!(served > 0.985, "{name}: {served}");
    }
}

#[test]
fn without_control_an_overloaded_server_serves_nothing_in_time() {
    let tally = steady("none", 100, 2.0);
    assert!(tally.served as f64 > 0.95 * CAPACITY && tally.good == 0, "{:?}", tally.good);
}

#[test]
fn with_control_an_overloaded_server_stays_useful() {
    let protego = ["protego", "protego protego.variant = 'released'"].map(|name| (name, 0.8));
    let svalinn = ["svalinn", "svalinn svalinn.variant = 'released'"].map(|name| (name, 0.8));
    let others = [("aimd", 0.95), ("breakwater", 0.95)].into_iter();
    for (name, least) in others.chain(protego).chain(svalinn) {
        for clients in [1, 10, 100] {
            let tally = steady(name, clients, 2.0);
            let goodput = tally.good as f64 / CAPACITY;
            assert!(goodput > least, "{name}, {clients} clients: goodput {goodput} of capacity");
            assert!(tally.p99() < (SERVICE + RTT) * 10, "{name}: p99 {:?}", tally.p99());
        }
    }
}

/// Goodput at twice the capacity, as a part of it.
fn goodput(name: &str, clients: usize) -> f64 {
    steady(name, clients, 2.0).good as f64 / CAPACITY
}

#[test]
fn baselines_stay_useful_where_they_are_meant_for() {
    let threshold = "codel codel.variant = 'threshold'";
    let released = "dagor dagor.variant = 'released'";
    for (name, least) in [("codel", 0.9), (threshold, 0.9), ("dagor", 0.65), (released, 0.65)] {
        for clients in [1, 10, 100] {
            let goodput = goodput(name, clients);
            assert!(goodput > least, "{name}, {clients} clients: {goodput}");
        }
    }
    let seda = "seda seda.increase = 400.0"; // few clients, so each must move in large steps
    for (name, least) in [("window", 0.9), (seda, 0.5)] {
        for clients in [1, 10] {
            let goodput = goodput(name, clients);
            assert!(goodput > least, "{name}, {clients} clients: {goodput}");
        }
    }
}

#[test]
fn the_limits_of_others_stay_useful_where_they_are_meant_for() {
    // Their numbers are for services of milliseconds and tens of cores. This one has a core, so
    // that twenty in flight are too many already, and two seconds to learn, where windows of one
    // bring a limit down by one, and an average takes eleven.
    let gradient2 = "gradient2 gradient2 = { limit_min = 2, limit_initial = 8 }";
    let go_zero = "bbr bbr = { cpu_interval = '5ms', resolution = '100us' }";
    let windows = "vegas vegas = { windowed = true, limit_initial = 8 }";
    let floor = "envoy envoy = { min_concurrency_limit = 2 }";
    for (name, least) in [
        ("vegas", 0.9),
        (windows, 0.9),
        (gradient2, 0.9),
        ("envoy", 0.9),
        (floor, 0.9),
        (go_zero, 0.9),
        ("sre", 0.9),
    ] {
        for clients in [1, 10, 100] {
            let goodput = goodput(name, clients);
            assert!(goodput > least, "{name}, {clients} clients: {goodput}");
        }
    }
}

#[test]
fn aegis_has_to_have_seen_the_server_without_a_queue() {
    let aegis = "bbr bbr = { variant = 'aegis', cpu_interval = '5ms', resolution = '100us' }";
    // Overloaded from the start, the least latency that it knows is that of a long queue.
    assert_eq!(steady(aegis, 10, 2.0).good, 0);
    let mut world = world(aegis, 10, 11);
    world.offer(0.5 * CAPACITY, Duration::from_secs(1));
    world.offer(2.0 * CAPACITY, Duration::from_secs(2));
    world.forget();
    world.offer(2.0 * CAPACITY, Duration::from_secs(1));
    let goodput = world.tally.good as f64 / CAPACITY;
    assert!(goodput > 0.8, "{goodput}");
}

#[test]
fn a_crowd_of_windows_is_too_much_for_any_server() {
    // Each is at least one request (Breakwater, figure 1 b).
    let tally = steady("window", 1_000, 2.0);
    assert!(tally.good == 0 && tally.refused == 0, "{} {}", tally.good, tally.refused);
}

#[test]
fn seda_refuses_at_the_server_only_if_it_is_told_to() {
    assert_eq!(steady("seda", 100, 2.0).refused, 0);
    let mut world = world("seda seda.server_drop_delay = '500us'", 1_000, 11);
    world.offer(2.0 * CAPACITY, Duration::from_secs(1));
    assert!(world.tally.refused > 0);
    assert!(world.tally.p99() < SERVICE_P99 * 2 + RTT + (SERVICE + RTT) * 2, "and so bounds waits");
}

#[test]
fn dagor_serves_the_important_first() {
    // Two thirds of the capacity are asked for at each priority.
    let mut world = world("dagor", 100, 11);
    let mut submit = |requests: usize| {
        for i in 0..requests {
            world.run_until(world.now() + Duration::from_micros(50));
            world.submit_as(i * 7 % 100, Priority([10, 128, 200][i % 3]));
        }
        core::mem::take(&mut world.tally)
    };
    submit(10_000);
    let bands = submit(30_000).good_by_band;
    let [first, second, last] = [10, 128, 200].map(|p| bands[Priority(p).band()]);
    assert!(first > 9_000 && second > 2_000 && second < 6_000 && last < 1_000, "{bands:?}");
}

#[test]
fn credits_keep_refusals_at_the_server_rare() {
    let credits = steady("breakwater", 1_000, 2.0);
    let limit = steady("aimd", 1_000, 2.0);
    assert!(credits.refused * 5 < limit.refused, "{} vs {}", credits.refused, limit.refused);
    // Its clients hold most of the excess back, where it costs nothing.
    assert!(credits.dropped > limit.offered * 2 / 5, "{}", credits.dropped);
    // That they do is told by requests, and seldom by messages of its own.
    assert!(credits.reports < credits.offered / 2, "{}", credits.reports);
}

#[test]
fn goodput_returns_at_once_when_the_overload_ends() {
    let mut world = world("breakwater", 100, 5);
    world.offer(3.0 * CAPACITY, Duration::from_millis(500));
    world.forget();
    world.offer(0.5 * CAPACITY, Duration::from_millis(100));
    assert!(world.tally.good as f64 > 0.97 * world.tally.offered as f64, "{:?}", world.tally.good);
}

#[test]
fn a_client_that_comes_back_after_a_long_silence_is_served() {
    // SEDA's clients come back slowly: their rates change only with replies.
    for name in admission::NAMES.into_iter().filter(|name| *name != "seda") {
        let mut world = world(name, 20, 5);
        world.offer(2.0 * CAPACITY, Duration::from_millis(300));
        world.run_until(world.now() + Duration::from_secs(3_600));
        world.forget();
        // Long enough that chance does not decide about the last hundredth.
        world.offer(0.5 * CAPACITY, Duration::from_millis(500));
        assert!(
            world.tally.good as f64 > 0.97 * world.tally.offered as f64,
            "{name}: {} of {}",
            world.tally.good,
            world.tally.offered
        );
    }
}

#[test]
fn credits_survive_crashes_and_lost_and_late_messages() {
    let mut world = world("breakwater", 200, 7);
    let jitter = Duration::from_millis(2);
    world.set_link(Link { latency: RTT / 2, loss: 0.05, jitter });
    for round in 0..40 {
        world.offer(1.5 * CAPACITY, Duration::from_millis(25));
        for i in 0..4 {
            world.cut((round * 5 + i) % 200);
            world.connect(Identity::default());
        }
    }
    assert!(world.tally.good > 0, "nobody was served");
    let metrics = world.server.metrics();
    let value = |name: &str| metrics.value(name).unwrap();
    let bound = value("credit_pool") + value("sessions_registered");
    assert!(value("credits_issued") <= bound * 1.2, "{metrics:?}");
}

#[test]
fn a_heavy_tenant_does_not_crowd_out_a_light_one() {
    let mut world = world("breakwater", 0, 3);
    let tenant = |tenant| Identity { tenant: Tenant(tenant), ..Identity::default() };
    (0..90).for_each(|_| _ = world.connect(tenant(1)));
    (0..10).for_each(|_| _ = world.connect(tenant(2)));
    world.set_budget((SERVICE + RTT) * 10 - RTT - SERVICE_P99);
    world.offer(2.0 * CAPACITY, Duration::from_secs(1));
    assert!(world.tally.good as f64 > 0.9 * CAPACITY, "{}", world.tally.good);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for name in admission::NAMES {
        let run = |seed| {
            let mut world = world(name, 50, seed);
            world.offer(1.5 * CAPACITY, Duration::from_millis(300));
            format!("{:?} {:?}", world.tally, world.server.metrics())
        };
        assert_eq!(run(9), run(9), "{name}");
        assert_ne!(run(9), run(10), "{name}");
    }
}
