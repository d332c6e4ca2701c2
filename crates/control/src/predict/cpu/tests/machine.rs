//! A CPU whose scheduler follows the kernel's rules in steps of 10 µs, written apart from what
//! predicts it: numbers are floats, time has no events, and threads do what dice say.

use alloc::vec::Vec;
use core::time::Duration;

use crate::Rng;
use crate::predict::cpu::{Cfs, Entity, Habit, Kind, NICE_0, Scheduler, Shadow, State};

const STEP: f64 = 0.01;
const TICK: f64 = 4.0;
const SLICE: f64 = 1.4;

/// Threads and groups. Times are milliseconds.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) scheduler: Scheduler,
    pub(super) things: Vec<Thing>,
    rng: Rng,
    steps: u64,
    current: Option<usize>,
    /// The first step after a switch is accounted to nobody.
    switched: bool,
}

#[derive(Clone)]
pub(super) struct Thing {
    parent: Option<usize>,
    is_group: bool,
    weight: f64,
    /// Mean time asleep and mean burst of a thread that sleeps.
    habit: Option<(f64, f64)>,
    queued: bool,
    delayed: bool,
    runs: bool,
    v: f64,
    deadline: f64,
    protected: f64,
    lag: f64,
    ran: f64,
    /// How long it sleeps or runs, and how much of that is over.
    whole: f64,
    passed: f64,
}

impl Machine {
    pub(super) fn new(scheduler: Scheduler, seed: u64) -> Self {
        let rng = Rng::new(seed);
        Self { scheduler, things: Vec::new(), rng, steps: 0, current: None, switched: false }
    }

    fn add(&mut self, thing: Thing) -> usize {
        self.things.push(thing);
        self.things.len() - 1
    }

    pub(super) fn group(&mut self, parent: Option<usize>, weight: f64) -> usize {
        self.add(Thing { is_group: true, ..Thing::new(parent, weight) })
    }

    /// A thread that never sleeps.
    pub(super) fn spinner(&mut self, parent: Option<usize>, weight: f64) {
        let index = self.add(Thing::new(parent, weight));
        // Nobody has the same history as another.
        let mut next = Some(index);
        while let Some(index) = next {
            self.things[index].lag = self.rng.uniform() * 4.0 - 2.0;
            self.things[index].v += self.rng.uniform() * 3.0;
            next = self.things[index].parent;
        }
        self.enqueue(index);
    }

    /// A thread that sleeps and runs for times around these.
    pub(super) fn sleeper(&mut self, parent: Option<usize>, idle: f64, burst: f64) {
        let index = self.add(Thing { habit: Some((idle, burst)), ..Thing::new(parent, 1.0) });
        self.things[index].whole = idle * self.rng.uniform();
    }

    pub(super) fn run(&mut self, steps: u64) {
        (0..steps).for_each(|_| self.step());
    }

    /// How long until thread `target` runs.
    pub(super) fn wait(mut self, target: usize) -> f64 {
        let start = self.steps;
        while self.current != Some(target) {
            self.step();
        }
        (self.steps - start) as f64 * STEP
    }

    pub(super) fn waiting(&self) -> Vec<usize> {
        let waits = |&index: &usize| {
            let thing = &self.things[index];
            thing.queued && !thing.delayed && !thing.runs && !thing.is_group
        };
        (0..self.things.len()).filter(waits).collect()
    }

    fn step(&mut self) {
        if self.current.is_none() {
            self.choose(false);
        }
        self.steps += 1;
        let counted = if core::mem::take(&mut self.switched) { 0.0 } else { STEP };
        for index in self.path() {
            let thing = &mut self.things[index];
            thing.v += counted / thing.weight;
            thing.ran += counted;
        }
        if let Some(current) = self.current
            && self.things[current].habit.is_some()
        {
            self.things[current].passed += STEP;
            if self.things[current].passed >= self.things[current].whole {
                self.sleep(current);
            }
        }
        for index in 0..self.things.len() {
            let thing = &mut self.things[index];
            if thing.habit.is_none() || (thing.queued && !thing.delayed) {
                continue;
            }
            thing.passed += STEP;
            if thing.passed >= thing.whole {
                self.wake(index);
            }
        }
        if self.steps.is_multiple_of((TICK / STEP) as u64) && self.is_over() {
            self.choose(true);
        }
    }

    /// From who runs to the top.
    fn path(&self) -> Vec<usize> {
        core::iter::successors(self.current, |&index| self.things[index].parent).collect()
    }

    fn level(&self, parent: Option<usize>) -> impl Iterator<Item = (usize, &Thing)> {
        let here = move |(_, thing): &(usize, &Thing)| thing.parent == parent && thing.queued;
        self.things.iter().enumerate().filter(here)
    }

    fn average(&self, parent: Option<usize>) -> (f64, f64) {
        let add =
            |(sum, weight), (_, it): (_, &Thing)| (sum + it.v * it.weight, weight + it.weight);
        let (sum, weight) = self.level(parent).fold((0.0, 0.0), add);
        (if weight > 0.0 { sum / weight } else { 0.0 }, weight)
    }

    fn is_over(&mut self) -> bool {
        let mut is_over = false;
        for index in self.path() {
            let others = self.level(self.things[index].parent).count() > 1;
            let (slice, first) = self.fair(index);
            let thing = &mut self.things[index];
            let over = match self.scheduler {
                Scheduler::Eevdf => {
                    let is_used_up = thing.v >= thing.deadline;
                    if is_used_up {
                        thing.deadline = thing.v + SLICE / thing.weight;
                    }
                    is_used_up || thing.v >= thing.protected
                }
                Scheduler::Cfs(_) => thing.ran > slice || thing.v - first > slice,
            };
            is_over |= others && over;
        }
        is_over
    }

    /// CFS's slice, and the least virtual runtime of those who wait.
    fn fair(&self, index: usize) -> (f64, f64) {
        let Scheduler::Cfs(cfs) = self.scheduler else { return (0.0, 0.0) };
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let own = &self.things[index];
        let count = self.level(own.parent).count() as f64;
        let mut slice = ms(cfs.latency).max(ms(cfs.granularity) * count);
        let mut next = Some(index);
        while let Some(index) = next {
            let (_, weight) = self.average(self.things[index].parent);
            slice *= self.things[index].weight / weight;
            next = self.things[index].parent;
        }
        let waiting = self.level(own.parent).filter(|(_, it)| !it.runs);
        (slice, waiting.map(|(_, it)| it.v).fold(f64::INFINITY, f64::min))
    }

    fn choose(&mut self, protect: bool) {
        let old = self.path();
        let mut next = loop {
            let chosen = self.descend(protect);
            match chosen {
                Some(index) if self.things[index].delayed => self.leave(index, true),
                chosen => break chosen,
            }
        };
        self.switched |= self.current != next;
        self.current = next;
        let mut new = Vec::new();
        while let Some(index) = next {
            new.push(index);
            next = self.things[index].parent;
        }
        old.iter().for_each(|&index| self.things[index].runs &= new.contains(&index));
        for &index in new.iter().filter(|index| !old.contains(index)) {
            let thing = &mut self.things[index];
            (thing.runs, thing.ran, thing.protected) = (true, 0.0, thing.deadline);
        }
    }

    fn descend(&self, protect: bool) -> Option<usize> {
        let mut chosen = None;
        loop {
            let (v, _) = self.average(chosen);
            let eligible = |it: &Thing| it.v <= v + 1e-9;
            let level: Vec<_> = self.level(chosen).collect();
            let is_kept = |it: &Thing| it.runs && eligible(it) && it.v < it.protected;
            let least = |key: fn(&Thing) -> f64, all: bool| {
                let mut level = level.iter().filter(|(_, it)| all || eligible(it));
                let first = *level.next()?;
                Some(level.fold(first, |a, &b| if key(b.1) < key(a.1) { b } else { a }))
            };
            let best = match self.scheduler {
                Scheduler::Eevdf => level
                    .iter()
                    .find(|(_, it)| protect && is_kept(it))
                    .copied()
                    .or_else(|| least(|it| it.deadline, false)),
                Scheduler::Cfs(_) => least(|it| it.v, true),
            };
            let (index, thing) = best?;
            if !thing.is_group || thing.delayed {
                return Some(index);
            }
            chosen = Some(index);
        }
    }

    fn sleep(&mut self, index: usize) {
        self.things[index].draw(&mut self.rng, true);
        self.dequeue(index);
        self.choose(true);
    }

    fn dequeue(&mut self, index: usize) {
        let (v, _) = self.average(self.things[index].parent);
        if self.scheduler == Scheduler::Eevdf && self.things[index].v > v + 1e-9 {
            self.things[index].delayed = true;
        } else {
            self.leave(index, false);
        }
    }

    fn leave(&mut self, index: usize, stayed: bool) {
        let (v, _) = self.average(self.things[index].parent);
        let thing = &mut self.things[index];
        thing.lag = if stayed { 0.0 } else { (v - thing.v).clamp(-TICK, TICK) };
        (thing.queued, thing.delayed, thing.runs) = (false, false, false);
        let parent = thing.parent;
        if let Some(group) = parent
            && self.level(parent).next().is_none()
        {
            self.dequeue(group);
        }
    }

    fn enqueue(&mut self, index: usize) {
        let parent = self.things[index].parent;
        let (v, weight) = self.average(parent);
        let first = self.level(parent).map(|(_, it)| it.v).fold(f64::INFINITY, f64::min);
        let thing = &mut self.things[index];
        match self.scheduler {
            _ if thing.queued => {}
            Scheduler::Eevdf if weight > 0.0 => {
                thing.v = v - thing.lag * (weight + thing.weight) / weight;
                thing.deadline = thing.v + SLICE / thing.weight;
            }
            Scheduler::Cfs(cfs) if weight > 0.0 => {
                thing.v = thing.v.max(first - cfs.latency.as_secs_f64() * 500.0);
            }
            _ => thing.deadline = thing.v + SLICE / thing.weight,
        }
        (thing.queued, thing.delayed) = (true, false);
        if let Some(parent) = parent {
            self.enqueue(parent);
        }
    }

    fn wake(&mut self, index: usize) {
        self.things[index].draw(&mut self.rng, false);
        let is_over = self.scheduler == Scheduler::Eevdf && self.is_over();
        self.enqueue(index);
        let path = self.path();
        let mut woken = index;
        while !path.is_empty() {
            let parent = self.things[woken].parent;
            if let Some(&beside) = path.iter().find(|&&it| self.things[it].parent == parent) {
                let (current, it) = (&self.things[beside], &self.things[woken]);
                let preempts = match self.scheduler {
                    Scheduler::Eevdf => is_over || current.v >= current.protected,
                    Scheduler::Cfs(cfs) => {
                        current.v - it.v > cfs.wakeup_granularity.as_secs_f64() * 1e3
                    }
                };
                if beside != woken && preempts {
                    self.choose(true);
                }
                break;
            }
            woken = parent.unwrap();
        }
    }

    /// The machine as a predictor sees it: habits are their means.
    pub(super) fn shadow(&self) -> Shadow {
        let time = |ms: f64| Duration::from_nanos((ms * 1e6) as u64);
        let whole = |ms: f64| (ms * 1e6) as i64;
        let into_tick = (self.steps % (TICK / STEP) as u64) as f64 * STEP;
        let mut shadow = Shadow::new(self.scheduler, time(TICK), time(TICK - into_tick));
        let entity = |(index, it): (usize, &Thing)| {
            let habit = it.habit.map(|(idle, burst)| Habit {
                idle: time(idle),
                burst: time(burst),
                elapsed: time(it.passed),
            });
            let kind = if it.is_group { Kind::Group } else { Kind::Task(index as u64, habit) };
            let state = match (it.queued, it.delayed, it.runs) {
                (false, ..) => State::Asleep,
                (true, true, _) => State::Leaving,
                (true, false, true) => State::Running,
                (true, false, false) => State::Waiting,
            };
            Entity {
                kind,
                parent: it.parent,
                state,
                weight: (it.weight * NICE_0 as f64) as u64,
                vruntime: whole(it.v),
                deadline: whole(it.deadline),
                slice: time(SLICE),
                protected: whole(it.protected),
                lag: whole(it.lag),
                ran: time(it.ran),
            }
        };
        shadow.entities = self.things.iter().enumerate().map(entity).collect();
        shadow
    }
}

impl Thing {
    fn new(parent: Option<usize>, weight: f64) -> Self {
        Self {
            parent,
            is_group: false,
            weight,
            habit: None,
            queued: false,
            delayed: false,
            runs: false,
            v: 0.0,
            deadline: 0.0,
            protected: 0.0,
            lag: 0.0,
            ran: 0.0,
            whole: 0.0,
            passed: 0.0,
        }
    }

    /// It begins to sleep, or to run, for a time around its mean.
    fn draw(&mut self, rng: &mut Rng, asleep: bool) {
        let (idle, burst) = self.habit.unwrap_or_default();
        let mean = if asleep { idle } else { burst };
        (self.whole, self.passed) = (mean * (0.8 + 0.4 * rng.uniform()), 0.0);
    }
}

/// CFS on two CPUs.
pub(super) fn cfs() -> Scheduler {
    Scheduler::Cfs(Cfs::new(2))
}
