//! Locks that are the bottleneck, while cores are not.

use seawall_sim::plan::Measured;
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
        budget = {{ fixed = '90ms' }}
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
    for estimate in ["queued-work", "larger"] {
        let run = mixed("none", &format!("'{estimate}'"));
        let [hot, cold] = [0, 1].map(|class| &run.classes[class].figures);
        assert!(hot.goodput > 0.9 * 400.0, "{estimate}: {}", hot.goodput);
        assert!(cold.goodput > 0.99 * cold.offered, "{estimate}: {}", cold.goodput);
        assert!(run.figures.p99_us.unwrap() <= run.slo_us, "{estimate}");
        // Only the hot ones are refused, and at the lock.
        assert_eq!(run.counts.refused_at_entry, 0, "{estimate}");
        assert_eq!(cold.server_drop_rate, 0.0, "{estimate}");
    }
}

/// Twice as many come as are served, so that a queue whose oldest waits for 90 ms holds work for
/// 180 ms.
#[test]
fn the_oldest_waiter_is_told_of_an_overload_too_late() {
    let run = mixed("none", "'oldest-waiter'");
    let [hot, cold] = [0, 1].map(|class| &run.classes[class].figures);
    assert!((0.4 * 400.0..0.8 * 400.0).contains(&hot.goodput), "{}", hot.goodput);
    assert!((1.5..2.5).contains(&(hot.p99_us.unwrap() / run.slo_us)), "{:?}", hot.p99_us);
    assert_eq!(cold.server_drop_rate, 0.0);
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

/// A SET of a store: memory is reserved behind a lock, and what it replaces is given back behind
/// the same.
fn store(plain: bool) -> Run {
    let text = format!(
        "[scenario]
        slo = '200us'
        run = {{ warm_up = '20ms', time = '100ms' }}
        admission.algorithm = 'none'
        [scenario.server]
        cores = 4
        capacity = 100000.0
        budget = {{ fixed = '100us' }}
        locks = 'oldest-waiter'
        [scenario.workload]
        clients = 100
        load = '1.5x'
        [[scenario.workload.class]]
        name = 'set'
        share = 1.0
        steps = [
            {{ cpu = 'const:5us', lock = 'slabs' }},
            {{ cpu = 'const:1us' }},
            {{ cpu = 'const:5us', lock = 'slabs', plain = {plain} }},
        ]
        [[claim]]
        id = 'L1'
        text = 'the class is told by its name'
        metric = 'class.set.goodput'
        paper = 1.0
        band = 'abs'"
    );
    let plan = Plan::read(&text, &[], |_| Err("nothing is included".into())).unwrap();
    let run = plan.run(|_, _| {}).unwrap().remove(0);
    assert_eq!(run.metric("class.set.goodput"), Some(run.figures.goodput));
    run
}

#[test]
fn who_cannot_turn_back_is_not_refused() {
    // Most of who has reserved something is refused when it gives back, and all the work was in
    // vain.
    let (careless, careful) = (store(false), store(true));
    assert!(careful.figures.throughput > 1.5 * careless.figures.throughput);
    // Whoever is refused is so before any work, and the lock is busy for the others only.
    assert!(careful.figures.throughput > 95_000.0);
    assert!(careful.figures.reject_p99_us < Some(20.0) && careful.counts.refused_later > 0);
}

#[test]
fn metrics_of_a_class_that_is_not_there_are_refused_by_name() {
    let text = "[[figure]]\nx = 'clients'\ny = 'class.hot.p99_us'
        [[sweep]]\nkey = 'workload.clients'\nvalues = [10]";
    let error = Plan::read(text, &[], |_| Err("nothing is included".into())).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("class.hot.p99_us is unknown"), "{message}");
    assert!(message.contains("(classes: all)"), "{message}");
}
