//! Predictions beside what a simulated scheduler then does, and beside what must always hold.

mod bounds;
mod machine;

use alloc::vec::Vec;
use core::time::Duration;
use std::println;

use self::machine::{Machine, cfs};
use super::{Features, Scheduler};
use crate::Rng;
use crate::predict::Precision;

/// How many predictions, of 400 each, are off by at most 0.2 ms, and by at most 4 ms.
fn within(mut machine: Machine) -> Vec<(f64, f64)> {
    let mut rng = Rng::new(11);
    let mut precisions = Features::NAMED.map(|(_, features)| (features, Precision::default()));
    machine.run(50_000);
    for _ in 0..400 {
        machine.run(300 + rng.below(5_000));
        let waiting = machine.waiting();
        if waiting.is_empty() {
            continue;
        }
        let target = waiting[rng.below(waiting.len() as u64) as usize];
        let real = Duration::from_secs_f64(machine.clone().wait(target) / 1e3);
        for (features, precision) in &mut precisions {
            let predicted = machine.shadow().wait(target as u64, *features);
            precision.observe(predicted.expect("it waits"), real);
        }
    }
    let shares = |(features, precision): (Features, Precision)| {
        let within = |us| precision.within(Duration::from_micros(us)).unwrap();
        println!("{features:?}: {} {} {:?}", within(200), within(4_000), precision.bias());
        (within(200), within(4_000))
    };
    precisions.map(shares).into()
}

/// The best that knows no sleepers, and the best.
fn last_two(shares: &[(f64, f64)]) -> [(f64, f64); 2] {
    [shares[2], shares[3]]
}

#[test]
fn spinners_are_predicted_exactly() {
    for scheduler in [Scheduler::Eevdf, cfs()] {
        let mut machine = Machine::new(scheduler, 1);
        (0..5).for_each(|_| machine.spinner(None, 1.0));
        machine.spinner(None, 3.0);
        let shares = within(machine);
        assert!(shares[2].0 > 0.97, "{scheduler:?}: {shares:?}");
        assert!(shares[0].0 < 0.5, "{scheduler:?}: the formula is coarse: {shares:?}");
    }
}

#[test]
fn groups_need_to_be_replayed() {
    for scheduler in [Scheduler::Eevdf, cfs()] {
        let mut machine = Machine::new(scheduler, 2);
        let users = [machine.group(None, 1.0), machine.group(None, 2.0)];
        let inner = machine.group(Some(users[1]), 1.0);
        (0..3).for_each(|_| machine.spinner(Some(users[0]), 1.0));
        (0..2).for_each(|_| machine.spinner(Some(users[1]), 1.0));
        (0..2).for_each(|_| machine.spinner(Some(inner), 1.0));
        let shares = within(machine);
        assert!(shares[2].0 > 0.95, "{scheduler:?}: {shares:?}");
        assert!(shares[0].1 < 0.6, "{scheduler:?}: {shares:?}");
        assert!(shares[1].1 > shares[0].1, "{shares:?}");
    }
}

/// CFS gives two threads on two CPUs slices of 6 ms, which last until the second tick.
#[test]
fn ticks_need_to_be_known_where_slices_are_longer() {
    let mut machine = Machine::new(cfs(), 4);
    (0..2).for_each(|_| machine.spinner(None, 1.0));
    let shares = within(machine);
    assert!(shares[2].0 > 0.97 && shares[1].0 < 0.7, "{shares:?}");
}

#[test]
fn sleepers_need_to_be_known() {
    for scheduler in [Scheduler::Eevdf, cfs()] {
        let mut machine = Machine::new(scheduler, 3);
        let group = machine.group(None, 1.0);
        (0..3).for_each(|_| machine.spinner(None, 1.0));
        machine.sleeper(None, 5.0, 1.0);
        machine.sleeper(None, 9.0, 0.5);
        machine.sleeper(Some(group), 7.0, 2.0);
        let shares = within(machine);
        let [without, with] = last_two(&shares);
        assert!(with.1 > 0.85, "{scheduler:?}: {shares:?}");
        assert!(with.0 > without.0 && with.1 > without.1, "{scheduler:?}: {shares:?}");
    }
}
