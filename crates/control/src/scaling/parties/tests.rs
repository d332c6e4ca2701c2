use std::string::ToString;
use std::vec::Vec;

use super::{Config, Variant};
use crate::scaling::Node;
use crate::scaling::fixture::World;

const ENOUGH: u64 = 20;

fn config(change: impl FnOnce(&mut Config)) -> crate::scaling::Config {
    let mut config = crate::scaling::Config::named("parties").unwrap();
    change(&mut config.parties);
    config
}

/// The bounded pool: the first service waits for the second, which looks healthy.
#[test]
fn feeds_the_container_that_waits_and_not_the_cause() {
    for variant in [Variant::Surgeguard, Variant::Original] {
        let mut world = World::new(&config(|config| config.variant = variant), 24, &[6, 3]);
        for container in &mut world.snapshot.containers {
            container.floor = container.units;
            container.expected.exec = Some(std::time::Duration::from_micros(108));
        }
        for _ in 0..20 {
            world.serve(0, ENOUGH, 3_586, 3_532);
            world.serve(1, ENOUGH, 54, 0);
            world.step();
        }
        assert!(world.units()[0] >= 9, "{variant:?}: {:?}", world.units());
        assert_eq!(world.units()[1], 3, "{variant:?}");
    }
}

#[test]
fn artifact_serves_the_slowest_first_and_takes_before_it_gives() {
    let mut world = World::new(&config(|_| {}), 9, &[3, 3, 3]);
    world.serve(0, ENOUGH, 1_200, 0);
    world.serve(1, ENOUGH, 1_300, 0);
    world.serve(2, ENOUGH, 100, 0);
    let outcome = world.step();
    let reasons: Vec<_> = outcome.decisions.iter().map(|it| it.reason.to_string()).collect();
    assert_eq!(reasons, ["at ease: 0.10 of what is expected", "slow: 1.30 of what is expected"]);
    assert_eq!(world.units(), [3, 4, 2]);
    let unmet: Vec<_> = outcome.candidates.iter().map(|it| (it.container.0, it.is_unmet)).collect();
    assert_eq!(unmet, [(1, false), (0, true)]);
}

#[test]
fn artifact_throws_a_coin_between_units_and_the_highest_frequency() {
    let mut world = World::new(&config(|_| {}), 100, &[3]);
    world.snapshot.node = Node { levels: 16, level_base: 2, ..world.snapshot.node };
    world.snapshot.containers[0].level = 2;
    for _ in 0..10 {
        world.serve(0, ENOUGH, 2_000, 0);
        world.step();
    }
    let container = &world.snapshot.containers[0];
    assert_eq!((container.level, container.units), (15, 12), "once frequency, nine times a unit");
    for _ in 0..100 {
        world.serve(0, ENOUGH, 10, 0);
        world.step();
    }
    let container = &world.snapshot.containers[0];
    assert_eq!((container.level, container.units), (2, 1));
}

/// All intervals' units of container 0, while it is served with this execution time.
fn watch(world: &mut World, steps: usize, exec: impl Fn(u32) -> u64) -> Vec<u32> {
    let mut units = Vec::new();
    for _ in 0..steps {
        let exec_us = exec(world.units()[0]);
        world.serve(0, 1_000, exec_us, 0);
        world.counters(0).in_flight = 10_000;
        world.step();
        units.push(world.units()[0]);
    }
    units
}

#[test]
fn original_acts_once_and_watches() {
    let config = config(|config| config.variant = Variant::Original);
    let mut world = World::new(&config, 100, &[3]);
    let units = watch(&mut world, 12, |_| 2_000);
    // One unit, and the next with the fifth interval of watching: one in 500 ms.
    assert_eq!(units, [4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 6, 6]);
}

#[test]
fn original_waits_when_it_has_taken_back_what_did_not_help() {
    let config = config(|config| config.variant = Variant::Original);
    let mut world = World::new(&config, 100, &[5]);
    // Slow from the first unit that it gives up on, whatever it gets.
    let is_slow = std::cell::Cell::new(false);
    let units = watch(&mut world, 60, |units| {
        is_slow.set(is_slow.get() || units < 5);
        if is_slow.get() { 4_000 } else { 500 }
    });
    let first = units.iter().position(|units| *units == 4).expect("it gives a unit up");
    let reverted = first + 5;
    assert_eq!(units[reverted - 1..reverted + 11], [4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 6]);
}

#[test]
fn original_takes_back_what_was_missed_and_rests() {
    let config = config(|config| config.variant = Variant::Original);
    let mut world = World::new(&config, 100, &[5]);
    // With fewer than five units it is slow; averages need a moment to show that.
    let units = watch(&mut world, 60, |units| if units < 5 { 4_000 } else { 500 });
    let first = units.iter().position(|units| *units == 4).expect("it gives a unit up");
    assert_eq!(units[first..first + 6], [4, 4, 4, 4, 4, 5]);
    assert!(units[first + 5..].iter().all(|units| *units >= 5), "{units:?}");
}

#[test]
fn original_takes_from_the_richest_when_nothing_is_free() {
    let config = config(|config| config.variant = Variant::Original);
    let mut world = World::new(&config, 9, &[3, 3, 3]);
    for _ in 0..2 {
        world.serve(0, 1_000, 2_000, 0);
        world.serve(1, 1_000, 800, 0);
        world.serve(2, 1_000, 500, 0);
        world.counters(0).in_flight = 10_000;
        world.step();
    }
    assert_eq!(world.units(), [4, 3, 2]);
}

#[test]
fn original_takes_nothing_that_it_cannot_give() {
    let config = config(|config| config.variant = Variant::Original);
    // The first has less than its floor, and its limit is not far.
    let mut world = World::new(&config, 9, &[1, 5, 3]);
    (world.snapshot.containers[0].floor, world.snapshot.containers[0].limit) = (4, 4);
    let mut units = Vec::new();
    for _ in 0..18 {
        world.serve(0, 1_000, 2_000, 0);
        world.serve(1, 1_000, 500, 0);
        world.serve(2, 1_000, 950, 0);
        world.counters(0).in_flight = 10_000;
        world.step();
        units.push(world.units());
        let all: u32 = world.units().iter().sum();
        assert_eq!(all, 9, "what one loses another gets: {units:?}");
    }
    assert_eq!(world.units()[0], 4, "{units:?}");
}
