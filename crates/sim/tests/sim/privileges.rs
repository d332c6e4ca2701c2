//! Requests that must not be dropped, under overload: they pass first wherever they wait, and no
//! more of them are let in than may be.

use seawall_sim::{Plan, Run};

/// Two of a hundred requests must not be dropped; all of them need the same `step`. Twice as many
/// come as can be served.
fn overloaded(server: &str, step: &str, privileged: f64, most: u32) -> Run {
    let text = format!(
        "[scenario]
        slo = '20ms'
        run = {{ warm_up = '500ms', time = '2s' }}
        admission = {{ algorithm = 'none', credit = {{ privileged_max = {most} }} }}
        [scenario.server]
        {server}
        [scenario.workload]
        clients = 50
        load = '2x'
        [[scenario.workload.class]]
        name = 'privileged'
        share = {privileged}
        droppable = false
        steps = [{step}]
        [[scenario.workload.class]]
        name = 'ordinary'
        share = {}
        steps = [{step}]",
        1.0 - privileged,
    );
    let plan = Plan::read(&text, &[], |_| Err("nothing is included".into())).unwrap();
    plan.run(|_, _| {}).unwrap().remove(0)
}

/// Servers with one bottleneck each, and the step that meets it.
const BOTTLENECKS: [(&str, &str, &str); 5] = [
    ("run queue", "cores = 1\nbudget = { fixed = '15ms' }", "{ cpu = 'const:1ms' }"),
    (
        "lock",
        "cores = 2\ncapacity = 1000.0\nlocks = 'larger'\nbudget = { fixed = '15ms' }",
        "{ cpu = 'const:20us', wait = 'const:980us', lock = 'hot' }",
    ),
    (
        "lock that is tried",
        "cores = 2\ncapacity = 1000.0\nlocks = 'try'",
        "{ cpu = 'const:20us', wait = 'const:980us', lock = 'hot' }",
    ),
    (
        "memory semaphore",
        "cores = 4\ncapacity = 1000.0\nbudget = { fixed = '15ms' }
         memory = { semaphore = 'wait', semaphore_capacity = 1 }",
        "{ cpu = 'const:1ms', memory = '1GB' }",
    ),
    (
        "memory semaphore that is tried",
        "cores = 4\ncapacity = 1000.0
         memory = { semaphore = 'try', semaphore_capacity = 1 }",
        "{ cpu = 'const:1ms', memory = '1GB' }",
    ),
];

#[test]
fn who_must_not_be_dropped_is_served_first_at_every_stage() {
    for (stage, server, step) in BOTTLENECKS {
        let run = overloaded(server, step, 0.02, 64);
        let [privileged, ordinary] = [0, 1].map(|class| &run.classes[class].figures);
        assert_eq!(privileged.server_drop_rate, 0.0, "{stage}");
        assert_eq!(privileged.goodput, privileged.offered, "{stage}: all of them are in time");
        assert!(ordinary.server_drop_rate > 0.3, "{stage}: {}", ordinary.server_drop_rate);
        assert_eq!(run.counts.refused_at_entry, 0, "{stage}");
        // The slowest of them is served before the half of those that can wait, as counted.
        let (first, then) = (privileged.p99_us.unwrap(), ordinary.p50_us.unwrap());
        assert!(first < 15_000.0, "{stage}: {first} µs");
        let tried = stage.ends_with("tried");
        assert!(tried || first < then, "{stage}: {first} µs, the others {then} µs");
    }
}

#[test]
fn the_privilege_is_bounded_at_entry() {
    for (stage, server, step) in BOTTLENECKS {
        // Eight of ten claim it: far more than can be served.
        let run = overloaded(server, step, 0.8, 4);
        let privileged = &run.classes[0].figures;
        assert!(run.counts.refused_at_entry > 0, "{stage}");
        assert!(privileged.server_drop_rate > 0.2, "{stage}: {}", privileged.server_drop_rate);
        // Those who are let in wait for four others at most, and for one who was passed over.
        assert!(privileged.p99_us.unwrap() < 15_000.0, "{stage}: {:?}", privileged.p99_us);
    }
}
