//! Worked examples, most of them from a chain of services with bounded pools.

use std::string::ToString;
use std::time::Duration;
use std::vec::Vec;

use super::released::score;
use super::{Config, HintForm, Variant};
use crate::scaling::fixture::World;
use crate::scaling::{Change, ContainerId, Reason};

/// Requests enough for a block.
const ENOUGH: u64 = 20;

fn config(change: impl FnOnce(&mut Config)) -> crate::scaling::Config {
    let mut config = crate::scaling::Config::named("escalator").unwrap();
    change(&mut config.escalator);
    config
}

/// A bounded pool in a surge: five services with these execution times in ms, and the first waits
/// for connections to the second for most of its time. Measured with five processes over TCP.
fn surge(world: &mut World) {
    world.serve(0, ENOUGH, 358_600 / 100, (358_600 - 5_400) / 100);
    for at in 1..5 {
        world.serve(at, ENOUGH, 54, 0);
    }
}

#[test]
fn who_waits_for_connections_is_no_candidate_but_those_behind_it_are() {
    let config = config(|_| {});
    let mut world = World::new(&config, 24, &[6, 3, 3, 3, 3]);
    for container in &mut world.snapshot.containers {
        container.floor = container.units;
        container.expected.exec = Some(Duration::from_micros(108)); // twice 54 us
    }
    surge(&mut world);
    let outcome = world.step();
    let [hint] = &outcome.decisions[..] else { panic!("{outcome:?}") };
    assert_eq!(hint.container, ContainerId(0));
    assert_eq!(hint.change, Change::Hint { from: 0, to: 3 });
    assert!(matches!(hint.reason, Reason::QueueBuildup(ratio) if (66.0..67.0).contains(&ratio)));
    assert_eq!(outcome.candidates, [], "nobody is slow by itself");

    // The hint arrives behind it, at as many services as it has hops.
    surge(&mut world);
    for at in 1..=3 {
        world.counters(at).hinted += ENOUGH;
    }
    let outcome = world.step();
    let names: Vec<u64> = outcome.candidates.iter().map(|it| it.container.0).collect();
    assert_eq!(names, [1, 2, 3]);
    assert_eq!(world.units(), [6, 4, 4, 4, 3], "one unit each");
    assert_eq!(outcome.decisions[0].reason.to_string(), "scored 1: hinted");

    // The queue is gone, and so is the hint.
    for _ in 0..16 {
        world.serve(0, ENOUGH, 54, 0);
        world.step();
    }
    assert_eq!(world.snapshot.containers[0].hint, 0);
}

#[test]
fn without_its_metrics_it_feeds_the_one_that_waits() {
    let config = config(|config| config.metrics = false);
    let mut world = World::new(&config, 24, &[6, 3, 3, 3, 3]);
    for container in &mut world.snapshot.containers {
        container.floor = container.units;
        container.expected.exec = Some(Duration::from_micros(108));
    }
    surge(&mut world);
    let outcome = world.step();
    assert_eq!(world.units(), [7, 3, 3, 3, 3]);
    assert_eq!(outcome.candidates.len(), 1);
}

#[test]
fn the_highest_score_is_first_and_then_who_gains_most() {
    let config = config(|config| (config.settle, config.matrix_samples) = (0.0, 1));
    let mut world = World::new(&config, 8, &[2, 2, 2]);
    world.snapshot.containers[2].floor = 2;
    // Two containers learn what a third unit brings: 30 % to the first, nothing to the second.
    for container in &mut world.snapshot.containers {
        container.expected.exec = Some(Duration::from_micros(700));
        container.limit = 3;
    }
    world.snapshot.node.units = 0;
    for (units, first, second) in [(2, 1_000, 1_000), (3, 700, 1_000), (2, 1_000, 1_000)] {
        world.snapshot.containers[0].units = units;
        world.snapshot.containers[1].units = units;
        // The first of these blocks began before the change.
        for _ in 0..2 {
            world.serve(0, ENOUGH, first, 0);
            world.serve(1, ENOUGH, second, 0);
            world.step();
        }
    }
    world.snapshot.node.units = 7;
    // All are slow; the third by two conditions.
    for at in 0..3 {
        world.serve(at, ENOUGH, 9_000, 0);
    }
    world.counters(2).hinted += 1;
    let outcome = world.step();
    let names: Vec<u64> = outcome.candidates.iter().map(|it| it.container.0).collect();
    assert_eq!(names[0], 2);
    assert_eq!(outcome.candidates[0].score, 2);
    assert_eq!(outcome.candidates[0].sensitivity, None);
    assert_eq!(names[1..], [0, 1], "{:?}", outcome.candidates);
    assert!(outcome.candidates[1].sensitivity > outcome.candidates[2].sensitivity);
    // There was one unit.
    let unmet: Vec<bool> = outcome.candidates.iter().map(|it| it.is_unmet).collect();
    assert_eq!(unmet, [false, true, true]);
    assert_eq!(world.units(), [2, 2, 3]);
}

#[test]
fn a_unit_that_brings_nothing_is_revoked() {
    let config = config(|config| config.matrix_samples = 1);
    let mut world = World::new(&config, 8, &[2]);
    world.serve(0, ENOUGH, 3_000, 0);
    world.step();
    assert_eq!(world.units(), [3], "it is slow");
    // It stays as slow. It gets nothing more while the change may not have shown: 2 ms and 20 ms.
    let mut reasons = Vec::new();
    for _ in 0..90 {
        world.serve(0, ENOUGH, 3_000, 0);
        reasons.extend(world.step().decisions.into_iter().map(|it| it.reason.to_string()));
    }
    assert!(reasons.iter().any(|reason| reason.starts_with("insensitive")), "{reasons:?}");

    let config = self::config(|config| (config.matrix_samples, config.sensitivity) = (1, false));
    let mut world = World::new(&config, 8, &[2]);
    for _ in 0..60 {
        world.serve(0, ENOUGH, 3_000, 0);
        world.step();
    }
    assert_eq!(world.units(), [8], "without the matrix it keeps them");
}

#[test]
fn no_container_gets_more_before_the_last_change_can_show() {
    let config = config(|config| config.sensitivity = false);
    let mut world = World::new(&config, 100, &[2]);
    world.snapshot.containers[0].expected.exec = Some(Duration::from_millis(20));
    for _ in 0..14 {
        world.serve(0, ENOUGH, 100_000, 0);
        world.counters(0).in_flight = 100;
        world.step();
    }
    // The change shows in the next snapshot; after 2 x 20 ms and the window of 20 ms, and so in
    // each seventh snapshot.
    assert_eq!(world.units(), [4]);
}

#[test]
fn who_is_at_ease_or_idle_gives_back_what_it_has_above_its_floor() {
    let config = config(|_| {});
    let mut world = World::new(&config, 8, &[3, 3]);
    let mut lowered = Vec::new();
    for step in 0..140 {
        world.serve(0, ENOUGH, 100, 0);
        for decision in world.step().decisions {
            lowered.push((step, decision.container.0, decision.reason.to_string()));
        }
    }
    assert_eq!(world.units(), [1, 1]);
    let of = |id| lowered.iter().filter(move |it| it.1 == id).collect::<Vec<_>>();
    assert!(of(0).iter().all(|it| it.2 == "at ease: 0.10 of what is expected"), "{lowered:?}");
    assert!(of(0)[1].0 - of(0)[0].0 >= 10, "one in 100 ms");
    assert!(of(1).iter().all(|it| it.2 == "idle" && it.0 >= 98), "{lowered:?}");
}

#[test]
fn who_sheds_is_a_candidate_although_it_is_fast() {
    for (shed, units) in [(true, [3]), (false, [2])] {
        let config = config(|config| config.shed = shed);
        let mut world = World::new(&config, 8, &[2]);
        world.snapshot.containers[0].floor = 2;
        world.serve(0, ENOUGH, 100, 0);
        world.counters(0).shed += 1;
        world.step();
        assert_eq!(world.units(), units);
    }
}

/// Execution is flat because requests are refused before they would be late: the third unit seems
/// to bring nothing.
#[test]
fn who_sheds_keeps_what_it_has_and_is_raised() {
    for (shed, most) in [(true, 6), (false, 3)] {
        let config = config(|config| {
            (config.matrix_samples, config.shed) = (1, shed);
            config.lower_every = Duration::from_secs(60);
        });
        let mut world = World::new(&config, 6, &[2]);
        world.snapshot.containers[0].floor = 2;
        let mut reasons = Vec::new();
        for step in 0..120 {
            // Slow for a moment, so that the third unit is tried also where shedding is no cause.
            world.serve(0, ENOUGH, if step == 0 { 3_000 } else { 1_000 }, 0);
            world.counters(0).shed += 5;
            let outcome = world.step();
            reasons.extend(outcome.decisions.iter().map(|it| it.reason.to_string()));
            if shed {
                let is_full = world.units() == [6];
                let [candidate] = &outcome.candidates[..] else { panic!("{outcome:?}") };
                assert!(!candidate.is_unmet || is_full, "{reasons:?}");
                assert!(candidate.can_grow || is_full, "{reasons:?}");
            }
        }
        assert_eq!(world.units()[0].max(most), most, "{reasons:?}");
        let is_revoked = reasons.iter().any(|reason| reason.starts_with("insensitive"));
        assert_eq!(is_revoked, !shed, "{reasons:?}");
        assert_eq!(world.units() == [6], shed, "{reasons:?}");
    }
}

#[test]
fn what_was_just_revoked_is_not_asked_back_and_no_want() {
    let config = config(|config| config.matrix_samples = 1);
    let mut world = World::new(&config, 3, &[2]);
    world.snapshot.containers[0].floor = 2;
    // Slow with two units as with three, of which the last is revoked.
    let outcome = loop {
        world.serve(0, ENOUGH, 3_000, 0);
        let outcome = world.step();
        if outcome.decisions.iter().any(|it| matches!(it.reason, Reason::Insensitive(_))) {
            break outcome;
        }
    };
    let [candidate] = &outcome.candidates[..] else { panic!("{outcome:?}") };
    assert!(!candidate.is_unmet && !candidate.can_grow, "{outcome:?}");
}

#[test]
fn the_residual_form_needs_no_sender() {
    let config = config(|config| config.hint = HintForm::Residual);
    let mut world = World::new(&config, 8, &[1, 2]);
    world.snapshot.containers[1].floor = 2;
    let serve = |world: &mut World, late_us: u64| {
        world.serve(0, ENOUGH, 3_000, 2_900);
        world.serve(1, ENOUGH, 100, 0);
        let counters = world.counters(1);
        counters.started += ENOUGH;
        counters.time_from_start_ns += ENOUGH * (100 + late_us) * 1_000;
        counters.upstream_exec_ns += ENOUGH * 100 * 1_000;
        world.step()
    };
    // Low load, until it is known: four windows of one second.
    for _ in 0..420 {
        let outcome = serve(&mut world, 50);
        assert_eq!(outcome.candidates, []);
    }
    // Requests come late, and its predecessor's execution does not say why.
    (0..3).for_each(|_| drop(serve(&mut world, 5_000)));
    assert_eq!(world.units(), [1, 3]);
    assert_eq!(world.snapshot.containers[0].hint, 0, "nothing is sent");
}

#[test]
fn released_scores_are_those_of_the_table() {
    let (fast, fair, slow) = (Some(0.9), Some(1.0), Some(1.1));
    let table =
        [(Some(0.9), [0, 0, 1]), (Some(1.0), [0, 1, 2]), (None, [0, 1, 2]), (Some(1.1), [0, 2, 3])];
    for (late, scores) in table {
        assert_eq!([fast, fair, slow].map(|exec| score(late, exec)), scores, "{late:?}");
    }
}

#[test]
fn released_does_not_feed_those_behind_a_pool() {
    let config = config(|config| config.variant = Variant::Released);
    assert_eq!(config.escalator.interval(), Duration::from_millis(100));
    let mut world = World::new(&config, 24, &[6, 3, 3, 3, 3]);
    for container in &mut world.snapshot.containers {
        container.floor = container.units;
        container.expected.exec = Some(Duration::from_micros(108));
    }
    for _ in 0..20 {
        surge(&mut world);
        world.step();
    }
    assert_eq!(world.units(), [6, 3, 3, 3, 3]);
}

#[test]
fn a_publisher_that_stops_is_left_alone() {
    let config = config(|_| {});
    let mut world = World::new(&config, 8, &[3]);
    world.serve(0, ENOUGH, 100, 0);
    world.step();
    world.snapshot.containers[0].report = crate::scaling::Report::None;
    (0..200).for_each(|_| assert_eq!(world.step().decisions, []));
}
