//! What holds for every shadow.

use core::time::Duration;

use proptest::prelude::*;

use crate::predict::cpu::{Cfs, Entity, Features, Habit, Kind, Scheduler, Shadow, State, WAIT_MAX};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn schedulers() -> impl Strategy<Value = Scheduler> {
    prop_oneof![Just(Scheduler::Eevdf), (1_u32..65).prop_map(|n| Scheduler::Cfs(Cfs::new(n)))]
}

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        8 => (0_u64..20_000_000).prop_map(Duration::from_nanos),
        1 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
    ]
}

/// Anything that types allow, and that a torn copy of a kernel's queue may be.
fn entities() -> impl Strategy<Value = Entity> {
    let habit = (durations(), durations(), durations());
    let habit = habit.prop_map(|(idle, burst, elapsed)| Habit { idle, burst, elapsed });
    let kind = prop_oneof![
        1 => Just(Kind::Group),
        3 => (0_u64..20, proptest::option::of(habit)).prop_map(|(id, it)| Kind::Task(id, it)),
    ];
    let state = prop::sample::select(
        [State::Running, State::Waiting, State::Leaving, State::Asleep].as_slice(),
    );
    let times = prop_oneof![9 => -50_000_000_i64..50_000_000, 1 => any::<i64>()];
    let times = [times.clone(), times.clone(), times.clone(), times];
    let weight = prop_oneof![Just(0), 1_u64..(1 << 26), any::<u64>()];
    (kind, proptest::option::of(0_usize..14), state, weight, times, durations(), durations())
        .prop_map(|(kind, parent, state, weight, times, slice, ran)| {
            let [vruntime, deadline, protected, lag] = times;
            Entity { kind, parent, state, weight, vruntime, deadline, slice, protected, lag, ran }
        })
}

/// Threads that wait beside one that runs, all alike but for what they have run.
fn flat(scheduler: Scheduler, vruntimes: &[i64]) -> Shadow {
    let mut shadow = Shadow::new(scheduler, MS(4), MS(2));
    for (id, &vruntime) in vruntimes.iter().enumerate() {
        let state = if id == 0 { State::Running } else { State::Waiting };
        let mut entity = Entity::task(id as u64, state);
        (entity.vruntime, entity.deadline) = (vruntime, vruntime + 700_000);
        shadow.entities.push(entity);
    }
    shadow
}

proptest! {
    #[test]
    fn a_prediction_is_finite_whatever_the_shadow(
        scheduler in schedulers(),
        tick in durations(),
        next_tick in durations(),
        entities in prop::collection::vec(entities(), 0..14),
    ) {
        let mut shadow = Shadow::new(scheduler, tick, next_tick);
        shadow.entities = entities;
        for entity in &shadow.entities {
            let Some(id) = entity.id() else { continue };
            for (_, features) in Features::NAMED {
                if let Some(wait) = shadow.wait(id, features) {
                    prop_assert!(wait <= WAIT_MAX, "{features:?}: {wait:?}");
                }
            }
        }
    }

    /// One more who has run less than the one asked about makes it wait longer, never shorter.
    /// Where CFS gives all shorter slices for it, the end of a slice may come sooner at a tick.
    #[test]
    fn more_who_wait_ahead_never_shorten_the_wait(
        scheduler in schedulers(),
        mut vruntimes in prop::collection::vec(0_i64..9_000_000, 2..10),
    ) {
        vruntimes.push(9_000_000);
        let target = vruntimes.len() as u64 - 1;
        let mut more = flat(scheduler, &vruntimes);
        let fewer = more.clone();
        let mut one = Entity::task(99, State::Waiting);
        (one.vruntime, one.deadline) = (vruntimes[1], vruntimes[1] + 700_000);
        more.entities.push(one);
        let is_cfs = scheduler != Scheduler::Eevdf;
        for (_, features) in Features::NAMED {
            if is_cfs && features >= Features::Adjusted {
                continue;
            }
            let waits = [&fewer, &more].map(|shadow| shadow.wait(target, features).unwrap());
            prop_assert!(waits[0] <= waits[1], "{features:?}: {waits:?}");
        }
    }
}

/// 4, 4 and 7 ms ahead of the one at 12: gaps of 0, 3 and 5 ms are 1, 1 and 2 turns.
#[test]
fn the_formula_counts_whole_turns() {
    let ms = [0, 4, 4, 7, 12, 30].map(|ms| ms * 1_000_000);
    let shadow = flat(Scheduler::Eevdf, &ms);
    assert_eq!(shadow.wait(4, Features::Linear), Some(MS(16)));
    assert_eq!(shadow.wait(1, Features::Linear), Some(MS(0)));
    assert_eq!(shadow.wait(0, Features::Linear), Some(MS(0)), "it runs");
    assert_eq!(shadow.wait(77, Features::Linear), None);
}

/// CFS with three threads on two CPUs gives each 4 ms, just a tick. What switching takes is not
/// accounted, so a slice that begins at a tick does not seem over at the next (§IV-B).
#[test]
fn a_slice_of_just_one_tick_lasts_two() {
    let scheduler = Scheduler::Cfs(Cfs::new(2));
    let mut shadow = flat(scheduler, &[1_000_000, 900_000, 950_000]);
    shadow.next_tick = MS(4);
    shadow.entities[0].ran = Duration::ZERO;
    // At 4 ms the one that runs is ahead by more than a slice. At 8 ms, 3.99 are accounted.
    assert_eq!(shadow.wait(1, Features::Adjusted), Some(MS(4)));
    assert_eq!(shadow.wait(2, Features::Adjusted), Some(MS(12)));
    assert_eq!(shadow.wait(2, Features::Hierarchical), Some(MS(8)));
}

#[test]
fn a_thread_that_wakes_in_front_is_waited_for() {
    let mut shadow = flat(Scheduler::Eevdf, &[1_000_000, 900_000]);
    let habit = |elapsed| Habit { idle: MS(5), burst: MS(1), elapsed };
    let mut sleeper = Entity::task(9, State::Asleep);
    (sleeper.kind, sleeper.lag) = (Kind::Task(9, Some(habit(MS(4)))), 3_000_000);
    shadow.entities.push(sleeper);
    shadow.entities[0].protected = 1_500_000;
    assert_eq!(shadow.wait(1, Features::Adjusted), Some(MS(2)));
    // It wakes after 1 ms, runs for 1, and the other's turn is next.
    assert_eq!(shadow.wait(1, Features::Dependent), Some(MS(2)));
    shadow.next_tick = Duration::from_micros(1_500);
    assert_eq!(shadow.wait(1, Features::Adjusted), Some(Duration::from_micros(1_500)));
    assert_eq!(shadow.wait(1, Features::Dependent), Some(MS(2)), "the burst goes on at the tick");
    assert_eq!(shadow.wait(9, Features::Dependent), None, "it sleeps");
}

#[test]
fn the_first_of_several_is_waited_for() {
    let shadow = flat(Scheduler::Eevdf, &[5_000_000, 4_000_000, 1_000_000, 3_000_000]);
    for (_, features) in Features::NAMED {
        let each = [1, 2, 3].map(|id| shadow.wait(id, features).unwrap());
        let first = each.into_iter().min();
        assert_eq!(shadow.wait_any(&[1, 2, 3], features), first, "{features:?}: {each:?}");
        assert_eq!(shadow.wait_any(&[1, 0], features), Some(MS(0)), "one runs");
        assert_eq!(shadow.wait_any(&[1, 77], features), Some(each[0]), "one is not there");
        assert_eq!(shadow.wait_any(&[77], features), None);
        assert_eq!(shadow.wait_any(&[], features), None);
    }
}

#[test]
fn who_never_gets_the_cpu_waits_as_long_as_predictions_last() {
    let mut shadow = flat(Scheduler::Eevdf, &[0, 0]);
    shadow.entities[1].parent = Some(2);
    let mut asleep = Entity::group(State::Asleep);
    asleep.vruntime = 1; // out of its quota
    shadow.entities.push(asleep);
    assert_eq!(shadow.wait(1, Features::Adjusted), Some(WAIT_MAX));
}
