//! Locks that are the bottleneck, while cores are not.

use seawall_sim::{Plan, Run};

/// Half of 1,600 requests per second need a lock for 2.5 ms each, half do not: 400 and 800 of them
/// can be served.
fn mixed(admission: &str, locks: &str) -> Run {
    let text = format!(
        "[scenario]
        slo = '100ms'
        run = {{ warm_up = '1s', time = '3s' }}
        admission.algorithm = '{admission}'
        [scenario.server]
        cores = 1
        capacity = 1200.0
        budget = 'auto'
        locks = {locks}
        [scenario.workload]
        clients = 50
        load = '1600'
        [[scenario.workload.class]]
        name = 'hot'
        share = 1.0
        steps = [{{ cpu = 'const:50us', wait = 'const:2450us', lock = 'hot' }}]
        [[scenario.workload.class]]
        name = 'cold'
        share = 1.0
        steps = [{{ cpu = 'const:50us', wait = 'const:2450us' }}]"
    );
    let plan = Plan::read(&text, &[], |_| Err("nothing is included".into())).unwrap();
    plan.run(|_, _| {}).unwrap().remove(0)
}

#[test]
fn locks_that_refuse_serve_what_can_be_served() {
    for estimate in ["oldest-waiter", "queued-work", "larger"] {
        let run = mixed("none", &format!("{{ refuse = '{estimate}' }}"));
        let [hot, cold] = [0, 1].map(|class| &run.classes[class].figures);
        assert!(hot.goodput > 0.9 * 400.0, "{estimate}: {}", hot.goodput);
        assert!(cold.goodput > 0.99 * cold.offered, "{estimate}: {}", cold.goodput);
        assert!(run.figures.p99_us.unwrap() <= run.slo_us, "{estimate}");
        // Only the hot ones are refused, and at the lock.
        assert_eq!(run.counts.refused_at_entry, 0, "{estimate}");
        assert_eq!(cold.server_drop_rate, 0.0, "{estimate}");
    }
}

#[test]
fn plain_locks_collapse_and_locks_that_are_only_tried_waste() {
    let plain = mixed("none", "'plain'");
    assert_eq!(plain.classes[0].figures.goodput, 0.0);
    // Whoever finds it taken goes: it is free until the next one comes.
    let tried = mixed("none", "'try'");
    let hot = &tried.classes[0].figures;
    assert!((200.0..360.0).contains(&hot.goodput), "{}", hot.goodput);
    assert!(hot.p99_us.unwrap() < 10_000.0);
}
