//! Graphs of services: the same in every process, and what plans may say of them.

use std::process::Command;

use seawall_sim::plan::Params;
use seawall_sim::{Plan, Scenario, graph};

/// Says to the test below that it is to print a trace's digest.
const CHILD: &str = "SEAWALL_TRACE_DIGEST";

const SCENARIO: &str = "
    workload = { load = '0.75x', arrivals = 'surges:1.75:200ms:80ms' }
    run = { warm_up = '50ms', time = '250ms' }
    [graph]
    table = 'read-user-timeline'
    work = 10.0
    pools = 0.1
    profile_jobs = 200
    responder = {}
";

fn digest() -> u64 {
    let scenario: Scenario = toml::from_str(SCENARIO).unwrap();
    let mut trace = Vec::new();
    let world = graph::World::new(&scenario, 5).unwrap().traced(&mut trace);
    world.run(Params::default(), 5).unwrap();
    assert!(trace.len() > 100_000);
    // FNV-1a: the same in every process, unlike the standard library's hash of a map.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    trace.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[test]
fn equal_seeds_make_equal_traces_in_two_processes() {
    if std::env::var_os(CHILD).is_some() {
        println!("digest {}", digest());
        return;
    }
    let name = "graphs::equal_seeds_make_equal_traces_in_two_processes";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8(child.stdout).unwrap();
    assert!(text.contains(&format!("digest {}\n", digest())), "{text}");
}

#[test]
fn plans_have_metrics_of_services_and_timelines() {
    let text = "
        columns = ['cores', 'surge_share.ping-0']
        [scenario]
        workload = { load = '0.75x', arrivals = 'surges:2:100ms:40ms' }
        run = { warm_up = '10ms', time = '100ms', bin = '10ms' }
        graph = { table = 'chain', work = 10.0, profile_jobs = 200 }
        [[variant]]
        name = 'static'
        scenario.scaling.policy = 'static'
        [[variant]]
        name = 'escalator'
        [[figure]]
        x = 'time'
        y = 'units.ping-0'
        [[claim]]
        id = 'C'
        text = 'less violation volume'
        metric = 'violation_volume'
        at.variant = 'escalator'
        over.variant = 'static'
        measure = 'gain'
        paper = -10.0
        lower = true
        band = 'half'";
    let plan = |text: &str| Plan::read(text, &[], |_| Err(String::new()));
    let parsed = plan(text).unwrap();
    let runs = parsed.run(|_, _| {}).unwrap();
    let drawn = parsed.figures()[0].draw(&runs);
    assert_eq!(drawn.lines.len(), 2);
    // An allocation that nobody moves is what it was; each bin of the whole run has one.
    assert!(drawn.lines[0].1.iter().all(|spot| spot.y == 7.0));
    assert_eq!(drawn.lines[0].1.len(), 11);
    let outcome = runs[0].graph.as_ref().unwrap();
    let shares: f64 = outcome.services.iter().filter_map(|served| served.surge_share).sum();
    assert!((shares - 1.0).abs() < 1e-9 && outcome.cores == 34.0, "{outcome:?}");
    let refused = |from: &str, to: &str| plan(&text.replace(from, to)).unwrap_err().to_string();
    let error = refused("surge_share.ping-0", "surge_share.ping-9");
    assert!(error.contains("services: ping-0, ping-1"), "{error}");
    let error = refused("units.ping-0", "busy.ping-0");
    assert!(error.contains("units.NAME, level.NAME"), "{error}");
}
