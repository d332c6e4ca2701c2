//! Lets time pass in a shadow, as the scheduler would.

use alloc::vec::Vec;
use core::time::Duration;

use super::level::{Average, earliest_deadline, lowest_runtime};
use super::{Entity, Features, Kind, SHORTEST, Scheduler, Shadow, State, WAIT_MAX, signed};

/// Decisions of the scheduler that a prediction replays at most: more than 10 s of ticks.
const STEPS: usize = 4096;

/// Groups within groups that are followed.
const DEPTH: usize = 16;

/// The time that switching takes is accounted to no thread (§IV-B), so a turn that lasts exactly
/// one tick seems a little shorter.
const UNACCOUNTED: i64 = 10_000;

/// Larger than all that the kernel gives.
const WEIGHT_MAX: u64 = 1 << 40;

const NEVER: i64 = i64::MAX;

/// A shadow with a clock. All times are nanoseconds after the prediction.
pub(super) struct Replay {
    scheduler: Scheduler,
    features: Features,
    tick: i64,
    now: i64,
    next_tick: i64,
    /// When the present turn ends, if ticks are not known of.
    turn_ends: i64,
    /// What is still to pass until the present turn counts.
    unaccounted: i64,
    nodes: Vec<Node>,
    top: Vec<usize>,
    /// Who runs: the groups from the top, and the task.
    path: Vec<usize>,
}

struct Node {
    entity: Entity,
    children: Vec<usize>,
    /// When one that sleeps wakes.
    wakes: i64,
    /// CPU time until one that is awake sleeps.
    burst_left: i64,
}

/// What happens next.
#[derive(Clone, Copy)]
enum Event {
    TurnEnds,
    Sleeps,
    Wakes(usize),
}

impl Replay {
    pub(super) fn new(shadow: &Shadow, features: Features) -> Self {
        let mut nodes: Vec<Node> =
            shadow.entities.iter().map(|entity| Node::new(entity, features)).collect();
        let mut top = Vec::new();
        for (index, entity) in shadow.entities.iter().enumerate() {
            let group = entity.parent.filter(|&parent| {
                parent != index && shadow.entities.get(parent).is_some_and(|it| it.id().is_none())
            });
            match group {
                Some(parent) => nodes[parent].children.push(index),
                None => top.push(index),
            }
        }
        let tick = signed(shadow.tick).clamp(SHORTEST, signed(WAIT_MAX));
        let mut replay = Self {
            scheduler: shadow.scheduler,
            features,
            tick,
            now: 0,
            next_tick: signed(shadow.next_tick).min(tick),
            turn_ends: 0,
            unaccounted: 0,
            nodes,
            top,
            path: Vec::new(),
        };
        replay.path = replay.running();
        if let Some(&task) = replay.path.last() {
            replay.turn_ends = tick.saturating_sub(signed(replay.nodes[task].entity.ran)).max(0);
        }
        replay
    }

    /// The path of those that run, as the shadow has it.
    fn running(&self) -> Vec<usize> {
        let (mut path, mut level) = (Vec::new(), &self.top);
        for _ in 0..DEPTH {
            let is_running = |&&index: &&usize| self.nodes[index].entity.state == State::Running;
            let Some(&index) = level.iter().find(is_running) else { break };
            path.push(index);
            level = &self.nodes[index].children;
        }
        let is_task = |&index: &usize| self.nodes[index].entity.id().is_some();
        if path.last().is_some_and(is_task) { path } else { Vec::new() }
    }

    /// How long until one of these is chosen.
    pub(super) fn wait(mut self, targets: &[usize]) -> Duration {
        if self.path.is_empty() {
            self.choose(false);
        }
        for _ in 0..STEPS {
            if self.path.last().is_some_and(|task| targets.contains(task)) {
                break;
            }
            let (at, event) = self.next_event();
            if at >= signed(WAIT_MAX) {
                return WAIT_MAX;
            }
            self.advance(at - self.now);
            self.on(event);
        }
        Duration::from_nanos(self.now as u64).min(WAIT_MAX)
    }

    fn next_event(&self) -> (i64, Event) {
        let sleeper = (0..self.nodes.len()).min_by_key(|&index| self.nodes[index].wakes);
        let wakes = sleeper.map_or(NEVER, |index| self.nodes[index].wakes.max(self.now));
        let mut next = (wakes, Event::Wakes(sleeper.unwrap_or_default()));
        let Some(&task) = self.path.last() else { return next };
        let sleeps = self.now.saturating_add(self.nodes[task].burst_left.max(0));
        if sleeps < next.0 {
            next = (sleeps, Event::Sleeps);
        }
        let turn = if self.knows_ticks() { self.next_tick } else { self.turn_ends };
        if turn <= next.0 { (turn.max(self.now), Event::TurnEnds) } else { next }
    }

    fn knows_ticks(&self) -> bool {
        self.features >= Features::Adjusted
    }

    /// Charges who runs, and all groups it is in.
    fn advance(&mut self, time: i64) {
        self.now += time;
        if self.next_tick < self.now {
            // Nobody ran for a while.
            let ticks = (self.now - self.next_tick + self.tick - 1) / self.tick;
            self.next_tick += ticks * self.tick;
        }
        let counted = (time - self.unaccounted).max(0);
        self.unaccounted = (self.unaccounted - time).max(0);
        for &index in &self.path {
            let node = &mut self.nodes[index];
            let entity = &mut node.entity;
            entity.vruntime = entity.vruntime.saturating_add(entity.virtual_time(counted));
            entity.ran = entity.ran.saturating_add(Duration::from_nanos(counted as u64));
            if node.burst_left != NEVER {
                node.burst_left -= time;
            }
        }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::TurnEnds if self.knows_ticks() => {
                self.next_tick = self.next_tick.saturating_add(self.tick);
                if self.is_slice_over() {
                    self.choose(true);
                }
            }
            Event::TurnEnds => {
                self.is_slice_over(); // renews deadlines
                self.turn_ends = self.now + self.tick;
                self.choose(false);
            }
            Event::Sleeps => {
                self.is_slice_over();
                self.sleep();
                self.choose(true);
            }
            Event::Wakes(index) => {
                let is_over = self.is_slice_over();
                self.wake(index);
                if self.path.is_empty() || self.preempts(index) || (self.is_eevdf() && is_over) {
                    self.choose(true);
                }
            }
        }
    }

    fn is_eevdf(&self) -> bool {
        self.scheduler == Scheduler::Eevdf
    }

    /// Whether one of those that run has siblings and used its slice up, or is not protected any
    /// more. Renews deadlines that are over.
    fn is_slice_over(&mut self) -> bool {
        let mut is_over = false;
        for depth in 0..self.path.len() {
            let has_siblings = self.siblings(depth).filter(|(_, it)| it.is_queued()).count() > 1;
            is_over |= match self.scheduler {
                Scheduler::Eevdf => {
                    let entity = &mut self.nodes[self.path[depth]].entity;
                    let is_used_up = entity.vruntime >= entity.deadline;
                    if is_used_up {
                        entity.deadline = entity.vruntime.saturating_add(entity.virtual_slice());
                    }
                    has_siblings && (is_used_up || entity.vruntime >= entity.protected)
                }
                Scheduler::Cfs(_) => has_siblings && self.is_fair_share_over(depth),
            };
        }
        is_over
    }

    /// CFS's check at a tick: the slice is over, or who waits is behind by more than a slice.
    fn is_fair_share_over(&self, depth: usize) -> bool {
        let Scheduler::Cfs(cfs) = self.scheduler else { return false };
        let slice = cfs.slice((0..=depth).map(|depth| {
            let queued = self.siblings(depth).filter(|(_, it)| it.is_queued());
            let (count, weight) =
                queued.fold((0, 0_u64), |(n, sum), (_, it)| (n + 1, sum.saturating_add(it.weight)));
            (&self.nodes[self.path[depth]].entity, count, weight)
        }));
        let current = &self.nodes[self.path[depth]].entity;
        let ran = signed(current.ran);
        let others = self.siblings(depth).filter(|(_, it)| it.state == State::Waiting);
        let first = others.map(|(_, it)| it.vruntime).min().unwrap_or(NEVER);
        let is_behind = current.vruntime.saturating_sub(first) > slice;
        ran > slice || (ran >= signed(cfs.granularity) && is_behind)
    }

    /// The level of the `depth`-th of those that run, or the level below the last group.
    fn siblings(&self, depth: usize) -> impl Iterator<Item = (usize, &Entity)> + Clone {
        let parent = depth.checked_sub(1).map(|above| self.path[above]);
        self.level(parent)
    }

    fn level(&self, parent: Option<usize>) -> impl Iterator<Item = (usize, &Entity)> + Clone {
        let level = parent.map_or(&self.top, |parent| &self.nodes[parent].children);
        level.iter().map(|&index| (index, &self.nodes[index].entity))
    }

    /// Chooses who runs from now on. Those who sleep and are chosen leave the queue.
    fn choose(&mut self, protect: bool) {
        for _ in 0..=self.nodes.len() {
            let path = self.descend(protect);
            let Some(&last) = path.last() else { break };
            let entity = &self.nodes[last].entity;
            // A group with nobody in it was cut off when the shadow was taken.
            if entity.state == State::Leaving || entity.id().is_none() {
                self.leave(last);
            } else {
                return self.switch(path);
            }
        }
        self.switch(Vec::new());
    }

    /// From the top down to a task, a group without members, or one that is leaving.
    fn descend(&self, protect: bool) -> Vec<usize> {
        let (mut path, mut parent) = (Vec::new(), None);
        while path.len() < DEPTH {
            let level = self.level(parent);
            let chosen = match self.scheduler {
                Scheduler::Eevdf => earliest_deadline(level, protect),
                Scheduler::Cfs(_) => lowest_runtime(level),
            };
            let Some(index) = chosen else { break };
            path.push(index);
            let entity = &self.nodes[index].entity;
            if entity.state == State::Leaving || entity.id().is_some() {
                break;
            }
            parent = Some(index);
        }
        path
    }

    fn switch(&mut self, path: Vec<usize>) {
        if path == self.path {
            return;
        }
        for &index in &self.path {
            let entity = &mut self.nodes[index].entity;
            if !path.contains(&index) && entity.state == State::Running {
                entity.state = State::Waiting;
            }
        }
        for &index in path.iter().filter(|index| !self.path.contains(index)) {
            let parent = self.parent(index);
            let queued = self.level(parent).filter(|(_, it)| it.is_queued());
            let shortest = queued.map(|(_, it)| it.slice).min().unwrap_or_default();
            let entity = &mut self.nodes[index].entity;
            let least = entity.vruntime.saturating_add(entity.virtual_time(signed(shortest)));
            let is_shortest = shortest >= entity.slice;
            entity.protected =
                if is_shortest { entity.deadline } else { entity.deadline.min(least) };
            entity.state = State::Running;
            entity.ran = Duration::ZERO;
        }
        self.path = path;
        self.turn_ends = self.now + self.tick;
        self.unaccounted = if self.knows_ticks() { UNACCOUNTED } else { 0 };
    }

    fn parent(&self, index: usize) -> Option<usize> {
        let parent = self.nodes[index].entity.parent?;
        self.nodes.get(parent)?.children.contains(&index).then_some(parent)
    }

    /// Who runs has done its work.
    fn sleep(&mut self) {
        let Some(task) = self.path.pop() else { return };
        let node = &mut self.nodes[task];
        if let Some(habit) = node.entity.habit() {
            node.wakes = self.now.saturating_add(signed(habit.idle).max(SHORTEST));
            node.burst_left = signed(habit.burst).max(SHORTEST);
        }
        self.dequeue(task);
        self.path.retain(|&index| self.nodes[index].entity.state == State::Running);
    }

    /// Takes one out of the queue, unless it had more than its share and stays for a while; and the
    /// group it was the last of.
    fn dequeue(&mut self, index: usize) {
        let average = Average::of(self.level(self.parent(index)).map(|(_, it)| it));
        let entity = &mut self.nodes[index].entity;
        let had_more = self.scheduler == Scheduler::Eevdf
            && average.is_some_and(|average| !average.is_eligible(entity));
        if had_more {
            entity.state = State::Leaving;
        } else {
            self.leave(index);
        }
    }

    fn leave(&mut self, index: usize) {
        let parent = self.parent(index);
        let average = Average::of(self.level(parent).map(|(_, it)| it));
        let entity = &mut self.nodes[index].entity;
        // Who stayed until it was chosen has no more lag (the kernel's DELAY_ZERO).
        let stayed = entity.state == State::Leaving;
        let bound = entity.virtual_time(self.tick.max(signed(entity.slice).saturating_mul(2)));
        let lag = average.map_or(0, |average| average.time().saturating_sub(entity.vruntime));
        entity.lag = if stayed { 0 } else { lag.clamp(-bound, bound) };
        entity.state = State::Asleep;
        if let Some(parent) = parent
            && self.level(Some(parent)).all(|(_, it)| !it.is_queued())
        {
            self.dequeue(parent);
        }
    }

    /// Puts one that slept into the queue, and the groups it is in.
    fn wake(&mut self, index: usize) {
        self.nodes[index].wakes = NEVER;
        let mut next = Some(index);
        for _ in 0..DEPTH {
            let Some(index) = next else { break };
            self.enqueue(index);
            next = self.parent(index);
        }
    }

    fn enqueue(&mut self, index: usize) {
        let parent = self.parent(index);
        let average = Average::of(self.level(parent).map(|(_, it)| it));
        let queued = self.level(parent).filter(|(_, it)| it.is_queued());
        let lowest = queued.map(|(_, it)| it.vruntime).min();
        let entity = &mut self.nodes[index].entity;
        match (entity.state, self.scheduler) {
            (State::Running | State::Waiting, _) => return,
            (State::Leaving, _) => {}
            (State::Asleep, Scheduler::Eevdf) => {
                if let Some(average) = average {
                    entity.vruntime = average.place(entity);
                }
                entity.deadline = entity.vruntime.saturating_add(entity.virtual_slice());
            }
            (State::Asleep, Scheduler::Cfs(cfs)) => {
                let bonus = signed(cfs.latency) / 2;
                let least = lowest.map_or(entity.vruntime, |lowest| lowest.saturating_sub(bonus));
                entity.vruntime = entity.vruntime.max(least);
            }
        }
        entity.state = State::Waiting;
    }

    /// Whether one that just woke takes the place of who runs at once.
    fn preempts(&self, index: usize) -> bool {
        let Some((depth, sibling)) = self.meeting(index) else { return false };
        let current = &self.nodes[self.path[depth]].entity;
        let woken = &self.nodes[sibling].entity;
        match self.scheduler {
            Scheduler::Eevdf => {
                let protect = woken.slice >= current.slice;
                earliest_deadline(self.siblings(depth), protect) == Some(sibling)
            }
            Scheduler::Cfs(cfs) => {
                let ahead = current.vruntime.saturating_sub(woken.vruntime);
                ahead > woken.virtual_time(signed(cfs.wakeup_granularity))
            }
        }
    }

    /// The highest level at which `index`, or a group that it is in, is beside who runs.
    fn meeting(&self, index: usize) -> Option<(usize, usize)> {
        let mut sibling = index;
        for _ in 0..DEPTH {
            let parent = self.parent(sibling);
            let depth = match parent {
                None => Some(0),
                Some(parent) => {
                    self.path.iter().position(|&above| above == parent).map(|above| above + 1)
                }
            };
            if let Some(depth) = depth {
                return (depth < self.path.len()).then_some((depth, sibling));
            }
            sibling = parent?;
        }
        None
    }
}

impl Node {
    fn new(entity: &Entity, features: Features) -> Self {
        let mut node =
            Self { entity: entity.clone(), children: Vec::new(), wakes: NEVER, burst_left: NEVER };
        node.entity.weight = entity.weight.clamp(2, WEIGHT_MAX);
        if let Kind::Task(_, Some(habit)) = entity.kind
            && features >= Features::Dependent
        {
            match entity.state {
                State::Running | State::Waiting => {
                    node.burst_left = signed(habit.rest(habit.burst));
                }
                State::Leaving | State::Asleep => {
                    node.wakes = signed(habit.rest(habit.idle));
                    node.burst_left = signed(habit.burst).max(SHORTEST);
                }
            }
        }
        node
    }
}
