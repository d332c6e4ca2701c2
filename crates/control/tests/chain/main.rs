//! A surge comes to a chain of services whose connections are few: who gets more (SurgeGuard
//! §III-B, figure 5)?

mod model;

use model::{Plan, Run, run};
use seawall_control::scaling::Config;

const SEEDS: u64 = 4;

fn config(text: &str) -> Config {
    toml::from_str(text).expect("a configuration")
}

/// One run for each seed.
fn runs(plan: &Plan, text: &str) -> Vec<Run> {
    (1..=SEEDS).map(|seed| run(&Plan { seed, ..plan.clone() }, &config(text))).collect()
}

fn mean(runs: &[Run], value: impl Fn(&Run) -> f64) -> f64 {
    runs.iter().map(value).sum::<f64>() / runs.len() as f64
}

fn violation(runs: &[Run]) -> f64 {
    mean(runs, |run| run.violation_ms)
}

const PARTIES: &str = "policy = 'parties'";
const ORIGINAL: &str = "policy = 'parties'\n[parties]\nvariant = 'original'";
const CALADAN: &str = "policy = 'caladan'";
const ESCALATOR: &str = "policy = 'escalator'";

/// Two services.
fn pair() -> Plan {
    Plan { slots: vec![6, 3], spare: 6, ..Plan::default() }
}

fn unbounded() -> Plan {
    Plan { pools: vec![10_000], ..Plan::default() }
}

/// What was measured with five processes over TCP: in the surge, the first service's requests take
/// 66 times as long as it executes, and the second looks healthy. With as many connections as
/// requests, the first does not wait, and the second is slow.
#[test]
fn a_pool_hides_who_is_slow() {
    let bounded = runs(&Plan::default(), "policy = 'static'");
    for Run { exec_ms, .. } in &bounded {
        let (exec, own) = exec_ms[0];
        assert!(exec / own > 40.0 && own < 8.0, "{exec_ms:?}");
        assert!(exec_ms[1].0 < 10.8, "{exec_ms:?}");
    }
    let unbounded = runs(&unbounded(), "policy = 'static'");
    for Run { exec_ms, .. } in &unbounded {
        assert!((exec_ms[0].0 - exec_ms[0].1).abs() < 0.1, "{exec_ms:?}");
    }
    assert!(mean(&unbounded, |run| run.exec_ms[1].1) > 50.0);
}

#[test]
fn by_latency_or_queueing_alone_the_container_that_waits_gets_everything() {
    for text in [PARTIES, ORIGINAL, CALADAN] {
        for Run { slots_max, candidates, .. } in runs(&Plan::default(), text) {
            assert!(slots_max[0] >= 13, "{text}: {slots_max:?}");
            assert!(slots_max[1..].iter().all(|slots| *slots <= 4), "{text}: {slots_max:?}");
            assert_eq!(candidates[0], 0, "{text}: {candidates:?}");
        }
    }
}

#[test]
fn escalator_gives_to_those_behind_the_pool() {
    for Run { slots_max, decisions, .. } in runs(&Plan::default(), ESCALATOR) {
        assert!(slots_max[0] <= 7, "{slots_max:?}");
        assert!(slots_max[1..4].iter().all(|slots| *slots >= 5), "{slots_max:?}");
        let why = |reason: &str| decisions.iter().any(|decision| decision.contains(reason));
        assert!(why("0 hint 0 -> 3 (waits for connections"), "{decisions:?}");
        assert!(why("scored 1: hinted") && why("at ease"), "{decisions:?}");
    }
}

#[test]
fn escalator_violates_less_than_all_others_behind_pools() {
    for plan in [Plan::default(), pair()] {
        let escalator = violation(&runs(&plan, ESCALATOR));
        for other in [PARTIES, ORIGINAL, CALADAN, "policy = 'static'", "policy = 'vpa'"] {
            let other_violation = violation(&runs(&plan, other));
            assert!(
                escalator < 0.5 * other_violation,
                "{} services: {escalator:.1} ms; {other}: {other_violation:.1} ms",
                plan.slots.len()
            );
        }
    }
}

#[test]
fn a_hint_that_reaches_the_end_of_the_chain_serves_it_better() {
    let three = violation(&runs(&Plan::default(), ESCALATOR));
    let four = violation(&runs(&Plan::default(), "[escalator]\nhint_start = 4"));
    assert!(four < 0.8 * three, "{four:.1} ms after {three:.1} ms");
}

/// The last of five services is the bottleneck, one hop farther than a hint of three reaches from
/// the first. With pools of one size only the first fills: behind it there are no more requests
/// than it has connections. If these are many, the bottleneck's own queue makes it slow. If they
/// are few, it looks healthy; and where each pool is sized for what lies behind it, the hints of
/// the first still take units for others.
#[test]
fn a_hint_shorter_than_the_chain_serves_its_end_worse_behind_small_pools_alone() {
    let run = |pools: &[usize], hops: u16| {
        let slots = vec![6, 6, 6, 6, 3];
        let plan = Plan { slots, pools: pools.to_vec(), ..Plan::default() };
        runs(&plan, &format!("[escalator]\nhint_start = {hops}"))
    };
    for large in [48, 512] {
        for hops in [3, 4] {
            let runs = run(&[large], hops);
            assert!(violation(&runs) < 1.0, "{large}, {hops} hops: {:.1}", violation(&runs));
        }
    }
    for small in [&[12][..], &[16], &[24, 18, 12, 6]] {
        let (three, four) = (run(small, 3), run(small, 4));
        let last = |run: &Run| f64::from(run.slots_max[4]);
        assert!(mean(&three, last) > 4.0 && mean(&four, last) >= 5.0, "{small:?}");
        let (three, four) = (violation(&three), violation(&four));
        assert!(four < 0.5 * three, "{small:?}: {four:.1} after {three:.1}");
    }
}

/// The surge begins after 3000 ms. It comes so slowly that this is only some ms earlier; what stops
/// all of a sudden is seen a whole wait earlier.
#[test]
fn waits_that_are_told_while_they_last_are_seen_earlier() {
    let first = |tells_waits| {
        let runs = runs(&Plan { tells_waits, pools: vec![24], ..Plan::default() }, ESCALATOR);
        mean(&runs, |run| {
            let hints = run.decisions.iter().filter(|it| it.contains(" 0 hint 0 -> 3"));
            let mut at = hints.map(|it| it.split_once(' ').unwrap().0.parse::<f64>().unwrap());
            at.find(|at| *at >= 3_000.0).expect("a hint")
        })
    };
    let (told, untold) = (first(true), first(false));
    assert!(told < untold, "after {told} ms; else after {untold} ms");
}

#[test]
fn without_pools_all_who_look_at_latency_find_the_slow_ones() {
    let plan = unbounded();
    let none = violation(&runs(&plan, "policy = 'static'"));
    let parties = violation(&runs(&plan, PARTIES));
    let escalator = violation(&runs(&plan, ESCALATOR));
    assert!(escalator < parties && parties < 0.3 * none, "{escalator} {parties} {none}");
    // Nothing waits for connections: to CaladanAlgo nothing happens.
    let caladan = runs(&plan, CALADAN);
    assert!(caladan.iter().all(|run| run.decisions.is_empty()));
    // And the new metrics are the old ones.
    let without = violation(&runs(&plan, "[escalator]\nmetrics = false"));
    assert!((without - escalator).abs() < 1e-9, "{without} {escalator}");
}

#[test]
fn without_the_new_metrics_escalator_feeds_the_wrong_one_too() {
    let runs = runs(&Plan::default(), "[escalator]\nmetrics = false");
    assert!(mean(&runs, |run| f64::from(run.slots_max[0])) > 11.0);
}

#[test]
fn the_released_scores_miss_the_hidden_cause() {
    let released = runs(&Plan::default(), "[escalator]\nvariant = 'released'");
    let paper = violation(&runs(&Plan::default(), ESCALATOR));
    assert!(paper < 0.6 * violation(&released));
}

#[test]
fn what_was_given_in_the_surge_is_given_back() {
    let plan = Plan { end_ms: 12_000, ..unbounded() };
    for Run { slots_mean, slots_end, .. } in runs(&plan, ESCALATOR) {
        assert!(slots_end.iter().sum::<u32>() <= 22 && slots_mean < 22.0, "{slots_end:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_decisions() {
    for text in [PARTIES, ORIGINAL, CALADAN, ESCALATOR] {
        let once = run(&Plan::default(), &config(text)).decisions;
        assert!(!once.is_empty());
        assert_eq!(once, run(&Plan::default(), &config(text)).decisions);
    }
}
