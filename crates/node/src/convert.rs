//! From the kernel's numbers to a shadow.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use seawall_control::predict::cpu::{Cfs, Entity, Habit, NICE_0, Scheduler, Shadow, State};

use crate::programs::run_queue::types::{entity, snapshot};
use crate::tick;

/// What a program says of one that is in no queue.
const ASLEEP: u32 = 3;

/// The shadow of a copied run queue, where a tick lasts `period` and the machine has `cpus` CPUs.
pub(crate) fn shadow(copy: &snapshot, period: Duration, cpus: u32) -> Shadow {
    let scheduler = if copy.eevdf == 0 { Scheduler::Cfs(Cfs::new(cpus)) } else { Scheduler::Eevdf };
    let next_tick = tick::until_next(copy.now, copy.tick, period);
    let mut shadow = Shadow::new(scheduler, period, next_tick);

    let count = usize::try_from(copy.count).unwrap_or(usize::MAX).min(copy.entities.len());
    let copied = &copy.entities[..count];
    // The groups of one that sleeps are copied with it, and again if others in them are ready. So
    // is one that sleeps but did not leave the queue yet. What the queue says holds.
    let (asleep, queued): (Vec<&entity>, Vec<_>) = copied.iter().partition(|it| it.state == ASLEEP);
    let mut seen = HashSet::new();
    let unique: Vec<_> =
        queued.into_iter().chain(asleep).filter(|it| seen.insert(it.address)).collect();
    let groups: HashMap<u64, usize> = unique
        .iter()
        .enumerate()
        .filter(|(_, it)| it.own != 0)
        .map(|(index, it)| (it.own, index))
        .collect();
    let running = unique.iter().find(|it| is_running(it) && it.own == 0);
    let ran = copy.now.saturating_sub(copy.switched);
    let unaccounted = running.map_or(0, |it| ran.saturating_sub(it.accounted));
    shadow.entities = unique
        .iter()
        .map(|it| {
            let parent = groups.get(&it.queue).copied();
            entity_of(it, parent, unaccounted)
        })
        .collect();
    shadow
}

/// One thread or group. What runs has run a little longer than the kernel has accounted yet.
fn entity_of(it: &entity, parent: Option<usize>, unaccounted: u64) -> Entity {
    let state = match it.state {
        0 => State::Running,
        1 => State::Waiting,
        2 => State::Leaving,
        _ => State::Asleep,
    };
    let mut entity =
        if it.own == 0 { Entity::task(u64::from(it.tid), state) } else { Entity::group(state) };
    let unaccounted = if is_running(it) { unaccounted } else { 0 };
    let nanos = Duration::from_nanos;
    let weight = it.weight.max(2);
    let passed = u128::from(unaccounted) * u128::from(NICE_0) / u128::from(weight);
    entity.parent = parent;
    entity.weight = weight;
    entity.vruntime = it.vruntime.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX));
    entity.deadline = it.deadline;
    entity.protected = it.protect;
    entity.lag = it.lag;
    entity.slice = nanos(it.slice);
    entity.ran = nanos(it.accounted.saturating_add(unaccounted));
    if it.own == 0 && it.idle > 0 && it.burst > 0 {
        let elapsed = nanos(it.elapsed.saturating_add(unaccounted));
        entity = entity.with_habit(Habit { idle: nanos(it.idle), burst: nanos(it.burst), elapsed });
    }
    entity
}

fn is_running(it: &entity) -> bool {
    it.state == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    use seawall_control::predict::cpu::Features;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// One that waits at the top.
    fn thread(tid: u32) -> entity {
        entity {
            address: u64::from(tid),
            queue: 100,
            weight: NICE_0,
            slice: 1_400_000,
            deadline: 1_400_000,
            tid,
            state: 1,
            ..entity::default()
        }
    }

    /// A run queue 11 ms after something, whose ticks come at multiples of 4 ms. What runs was
    /// chosen 1 ms ago.
    fn copy(entities: &[entity]) -> snapshot {
        let mut copy = snapshot {
            now: 11_000_000,
            switched: 10_000_000,
            tick: 4_000_000,
            count: u32::try_from(entities.len()).unwrap(),
            eevdf: 1,
            ..snapshot::default()
        };
        copy.entities[..entities.len()].copy_from_slice(entities);
        copy
    }

    #[test]
    fn time_that_is_not_accounted_yet_counts() {
        let running = entity { state: 0, weight: NICE_0 / 2, accounted: 600_000, ..thread(1) };
        let shadow = shadow(&copy(&[running, thread(2)]), MS(4), 2);
        assert_eq!((shadow.tick, shadow.next_tick), (MS(4), MS(1)));
        assert_eq!((shadow.entities[0].vruntime, shadow.entities[0].ran), (800_000, MS(1)));
        assert_eq!((shadow.entities[1].vruntime, shadow.entities[1].ran), (0, MS(0)));
        assert_eq!(shadow.wait(2, Features::Adjusted), Some(MS(1)));
    }

    #[test]
    fn groups_hold_what_is_in_their_queue() {
        let group = entity { own: 200, state: 1, ..thread(10) };
        let inner = entity { queue: 200, ..thread(3) };
        let asleep = entity { queue: 200, state: 3, idle: 5, burst: 6, elapsed: 7, ..thread(4) };
        let again = entity { state: 3, ..group };
        let shadow = shadow(&copy(&[again, asleep, group, inner]), MS(4), 2);
        let parents: Vec<_> = shadow.entities.iter().map(|it| (it.parent, it.state)).collect();
        let expected =
            [(None, State::Waiting), (Some(0), State::Waiting), (Some(0), State::Asleep)];
        assert_eq!(parents, expected);
        let nanos = Duration::from_nanos;
        let habit = Habit { idle: nanos(5), burst: nanos(6), elapsed: nanos(7) };
        assert_eq!(shadow.entities[2], shadow.entities[2].clone().with_habit(habit));
        assert_ne!(shadow.entities[1], shadow.entities[1].clone().with_habit(habit));
    }

    #[test]
    fn a_count_beyond_the_space_is_survived() {
        let copy = snapshot { count: u32::MAX, ..copy(&[]) };
        assert_eq!(shadow(&copy, MS(4), 2).entities.len(), 1, "all at the same address");
    }
}
