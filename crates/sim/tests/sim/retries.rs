//! Clients of several replicas send on what one of them refuses, within their budget.

use seawall_sim::world::Report;
use seawall_sim::{Scenario, World};

/// Two replicas, of which the first gets all requests first, at 1.6 times what one can do.
fn scenario(retry: &str) -> Scenario {
    let text = format!(
        "
        workload = {{ clients = 100, load = '1360k' }}
        server = {{ speeds = [1.0, 1.0], target_delay = '200us', budget = 'auto' }}
        run = {{ warm_up = '20ms', time = '50ms' }}
        slo = '400us'
        admission = {{ algorithm = 'aimd', client = {{ replicas = {{ {FIRST} }}, \
                      retry = {retry} }} }}
        "
    );
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The clients of Protego's figure 8.
const FIRST: &str = "choose = 'first', guided = false";

fn run(retry: &str) -> Report {
    World::new(&scenario(retry), 5).unwrap().run().unwrap()
}

fn goodput(report: &Report) -> f64 {
    report.recorder.summary().total.goodput
}

#[test]
fn the_second_replica_serves_what_the_first_refuses() {
    let alone = run("{ attempts = 1 }");
    let retried = run("{ budget = 1.0, burst = 1000 }");
    assert_eq!((alone.retries.retries, alone.retries.calls > 0), (0, true));
    assert!(goodput(&alone) < 900e3, "one replica's worth: {}", goodput(&alone));
    assert!(goodput(&retried) > 1_300e3, "nearly all: {}", goodput(&retried));
    assert!(retried.retries.retries > 10_000 && retried.retries.forbidden == 0);
}

#[test]
fn the_budget_bounds_what_is_sent_again() {
    let report = run("{ budget = 0.1, burst = 0 }");
    let (calls, retries) = (report.retries.calls as f64, report.retries.retries as f64);
    assert!(retries <= 0.1 * calls && retries > 0.07 * calls, "{retries} of {calls}");
    assert!(report.retries.forbidden > 0);
}

#[test]
fn who_has_no_credit_goes_elsewhere() {
    let mut scenario = scenario("{ budget = 0.0, burst = 0 }");
    scenario.admission.algorithm = "breakwater".into();
    let report = World::new(&scenario, 5).unwrap().run().unwrap();
    assert!(report.retries.moves > 10_000, "{:?}", report.retries);
    assert_eq!(report.retries.retries, 0);
    assert!(goodput(&report) > 1_000e3, "more than one replica can do: {}", goodput(&report));
}

#[test]
fn equal_seeds_make_equal_runs() {
    let (one, other) = (run("{ budget = 0.5 }"), run("{ budget = 0.5 }"));
    assert_eq!((one.events, one.retries), (other.events, other.retries));
}
