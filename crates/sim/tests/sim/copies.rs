//! Copies of what is slow: the first reply counts, and the other copy costs no more than it must.

use std::time::Duration;

use seawall_sim::world::Report;
use seawall_sim::{Scenario, World};

/// Three replicas, one of them slow by a factor of twenty, under a low load.
fn scenario(client: &str) -> Scenario {
    let text = format!(
        "
        workload = {{ clients = 30, load = '30k', service = 'const:50us' }}
        server = {{ speeds = [1.0, 1.0, 0.05], cores = 4 }}
        run = {{ warm_up = '20ms', time = '200ms' }}
        slo = '20ms'
        admission = {{ algorithm = 'none', client = {{ {client} }} }}
        "
    );
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn run(client: &str) -> Report {
    World::new(&scenario(client), 5).unwrap().run().unwrap()
}

fn p99(report: &Report) -> f64 {
    report.recorder.summary().total.p99_us.unwrap()
}

const RANDOM: &str = "replicas.choose = 'random', retry = { attempts = 2, budget = 1.0, hedge =";

#[test]
fn a_copy_after_a_while_bounds_the_tail() {
    let never = run(&format!("{RANDOM} 'never' }}"));
    let after = run(&format!("{RANDOM} {{ after = '200us' }} }}"));
    assert!(p99(&never) > 1_000.0, "a third meets the slow replica: {}", p99(&never));
    assert!(p99(&after) < 400.0, "200 µs, and a service: {}", p99(&after));
    let retries = after.retries;
    let share = retries.hedges as f64 / retries.calls as f64;
    assert!((share - 1.0 / 3.0).abs() < 0.03, "{share}");
    let (offered, total) = (30_000.0 * 0.2, after.recorder.summary().total);
    assert!((total.offered_count as f64 / offered - 1.0).abs() < 0.05, "each call counts once");
    assert_eq!(total.unanswered + total.failed + total.cancelled, 0);
}

#[test]
fn a_copy_that_has_not_run_yet_never_does() {
    let never = run(&format!("{RANDOM} 'never' }}")).counts.busy_ns as f64;
    // Each slow step is at work already when its copy is sent, and runs to its end.
    let late = run(&format!("{RANDOM} {{ after = '200us' }} }}")).counts.busy_ns as f64;
    assert!(late > 1.01 * never, "{late} of {never}");
    let mut queued = scenario(&format!("{RANDOM} {{ after = '200us' }} }}"));
    queued.server.cores = 1;
    queued.workload.load = "12k".parse().unwrap();
    let report = World::new(&queued, 5).unwrap().run().unwrap();
    let served: f64 = report.recorder.summary().total.throughput;
    // The slow replica could serve 1,000 per second, and gets 4,000: most are given up in its
    // queue.
    assert!(served > 11_000.0 && p99(&report) < 600.0, "{served}, {}", p99(&report));
}

#[test]
fn who_compares_replicas_leaves_the_slow_one() {
    for choose in ["c3", "snitch"] {
        let mut scenario = scenario(&format!("replicas.choose = '{choose}'"));
        // A snitch looks at the replicas anew ten times a second.
        scenario.run.warm_up = Duration::from_millis(500);
        let report = World::new(&scenario, 5).unwrap().run().unwrap();
        let p90 = report.recorder.summary().total.p90_us.unwrap();
        assert!(p90 < 200.0, "{choose}: {p90}");
    }
}

#[test]
fn what_is_refused_everywhere_waits_where_that_takes_the_least() {
    // One core gets a burst of 40 clients' requests, 20 µs each, that may wait for 100 µs.
    let text = |last_resort: bool| {
        format!(
            "
            workload = {{ clients = 40, load = '150k', service = 'const:20us', budget = '100us' }}
            server = {{ cores = 1, speeds = [1.0, 1.0] }}
            run = {{ warm_up = '1ms', time = '50ms' }}
            slo = '50ms'
            [admission]
            algorithm = 'none'
            client.retry = {{ attempts = 3, budget = 16.0, burst = 100000, \
             last_resort = {last_resort} }}"
        )
    };
    let run = |last_resort| {
        let scenario: Scenario = toml::from_str(&text(last_resort)).unwrap();
        assert_eq!(scenario.workload.budget, Some(Duration::from_micros(100)));
        World::new(&scenario, 5).unwrap().run().unwrap()
    };
    let (without, with) = (run(false), run(true));
    let refused = |report: &Report| report.recorder.summary().total.server_drop_rate;
    assert!(refused(&without) > 0.2 && without.retries.last_resorts == 0);
    assert!(refused(&with) < 0.01 && with.retries.last_resorts > 100, "{:?}", with.retries);
}

#[test]
fn equal_seeds_make_equal_runs() {
    let run = || run(&format!("{RANDOM} {{ percentile = 0.9 }} }}"));
    let (one, other) = (run(), run());
    assert_eq!((one.events, one.retries), (other.events, other.retries));
    assert!(one.retries.hedges > 100);
}
