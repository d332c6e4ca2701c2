//! The CPU: how long until a thread that is ready gets to run (LIBROS §IV-B).
//!
//! ```text
//!   run queue of a CPU ──copy──► Shadow ──wait(task, features)──► what the scheduler would do
//!     top level:  group A (running) ── thread 1 (running), thread 2
//!                 group B           ── thread 3 ◄── how long?
//!                 thread 4 (asleep, wakes in 2 ms, then runs for 0.1 ms)
//! ```
//!
//! The shadow is a copy, so that time can be let pass in it while the real queue stays as it is.
//! What the prediction knows is built up as in the paper, see [`Features`].
//!
//! # Example
//!
//! ```
//! use core::time::Duration;
//! use seawall_control::predict::cpu::{Entity, Features, Scheduler, Shadow, State};
//!
//! let ms = Duration::from_millis;
//! let mut running = Entity::task(7, State::Running);
//! (running.vruntime, running.ran) = (1_000_000, ms(1));
//! let mut shadow = Shadow::new(Scheduler::Eevdf, ms(4), ms(3)); // a tick every 4 ms, one in 3 ms
//! shadow.entities = vec![running, Entity::task(8, State::Waiting)];
//! assert_eq!(shadow.wait(8, Features::Adjusted), Some(ms(3)));
//! ```
//!
//! # What it does not do
//!
//! It knows one CPU: a thread that another CPU takes over waits for less. It knows the weights that
//! groups have now, not those that the kernel gives them next. Threads of real-time classes, of
//! interrupts, and new threads come without notice.

mod level;
mod linear;
mod replay;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::time::Duration;

use crate::time::nanos;

/// The weight of an entity of priority ("nice") 0, as 64-bit kernels scale it.
pub const NICE_0: u64 = 1 << 20;

/// No prediction is longer. Who would wait for that long, such as a group out of its quota, waits
/// for something that the shadow does not know.
pub const WAIT_MAX: Duration = Duration::from_secs(10);

/// No tick, burst or sleep is taken to be shorter (ns), so that time passes in each step.
const SHORTEST: i64 = 1_000;

/// What the run queue of one CPU looks like now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shadow {
    /// Whose rules it follows.
    pub scheduler: Scheduler,
    /// Time between two timer interrupts: 4 ms where the kernel has `HZ=250`. The paper's time
    /// slice.
    pub tick: Duration,
    /// From now until the next of them.
    pub next_tick: Duration,
    /// All that runs, waits, or will soon. Order does not matter.
    pub entities: Vec<Entity>,
}

/// How the kernel chooses who runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Linux before 6.6: the lowest virtual runtime, with a share of a latency as slice.
    Cfs(Cfs),
    /// Linux since 6.6: of those who did not have more than their share, the earliest virtual
    /// deadline.
    Eevdf,
}

/// The parameters of CFS, as `/sys/kernel/debug/sched` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cfs {
    /// In this time each thread runs once, if they are few.
    pub latency: Duration,
    /// But each runs for this long.
    pub granularity: Duration,
    /// Who wakes preempts only one that is ahead of it by more than this.
    pub wakeup_granularity: Duration,
}

impl Cfs {
    /// The kernel's defaults: 6, 0.75 and 1 ms × (1 + log2 of the CPUs, eight at most).
    pub fn new(cpus: u32) -> Self {
        let factor = 1 + cpus.clamp(1, 8).ilog2();
        Self {
            latency: Duration::from_micros(6_000) * factor,
            granularity: Duration::from_micros(750) * factor,
            wakeup_granularity: Duration::from_micros(1_000) * factor,
        }
    }
}

/// A thread, or a group of threads that share a weight.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Entity {
    /// Which of the two.
    pub kind: Kind,
    /// The group it is in, as its index in [`Shadow::entities`]; `None` at the top.
    pub parent: Option<usize>,
    /// Whether it runs, waits or sleeps. A group runs if the thread that runs is in it, and waits
    /// if one that waits is.
    pub state: State,
    /// Its share of the CPU among its siblings; [`NICE_0`] for a thread of ordinary priority.
    pub weight: u64,
    /// Virtual nanoseconds it has run, up to now. Only differences between siblings matter.
    pub vruntime: i64,
    /// Virtual deadline (EEVDF).
    pub deadline: i64,
    /// What it asks for at a time (EEVDF).
    pub slice: Duration,
    /// Of one that runs: the virtual runtime up to which no sibling takes its place, except at the
    /// end of its slice (EEVDF).
    pub protected: i64,
    /// Of one that sleeps: the virtual time that it is behind its siblings (EEVDF).
    pub lag: i64,
    /// Of one that runs: for how long, since it was last chosen.
    pub ran: Duration,
}

/// What an entity stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A group of entities.
    Group,
    /// A thread, by the system's number for it, and how it usually runs and sleeps if it does.
    Task(u64, Option<Habit>),
}

/// What an entity does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has the CPU.
    Running,
    /// It could run, and waits for the CPU.
    Waiting,
    /// It sleeps, but had more than its share and stays in the queue until it would be chosen
    /// (EEVDF's delayed dequeue).
    Leaving,
    /// It sleeps.
    Asleep,
}

/// How a thread usually runs and sleeps: one that others wake, or that waits for a device.
///
/// The paper averages with a weight of 0.05 for what is newest, and traces the calls that may put a
/// thread to sleep. Deviation: every sleep counts, whatever its reason, since one that does not
/// block, such as a read from a cache, is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habit {
    /// How long it sleeps.
    pub idle: Duration,
    /// How much CPU time it then takes.
    pub burst: Duration,
    /// How long it has slept already, or what it has taken already.
    pub elapsed: Duration,
}

/// What a prediction takes into account. Each includes those before it, as in the paper's figure 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Features {
    /// LIN: each thread with a lower virtual runtime takes turns of one tick until it is past the
    /// next.
    Linear,
    /// +HIER: the scheduler's choices are replayed, through all groups, each for one tick.
    Hierarchical,
    /// +ADJ: turns end at timer interrupts, if the slice is used up by then.
    Adjusted,
    /// +DEP: threads that sleep now wake and run in between.
    Dependent,
}

impl Features {
    /// All by name, as the paper calls them.
    pub const NAMED: [(&str, Self); 4] = [
        ("LIN", Self::Linear),
        ("+HIER", Self::Hierarchical),
        ("+ADJ", Self::Adjusted),
        ("+DEP", Self::Dependent),
    ];
}

impl Shadow {
    /// An empty queue with a timer interrupt every `tick`, the first in `next_tick`.
    pub fn new(scheduler: Scheduler, tick: Duration, next_tick: Duration) -> Self {
        Self { scheduler, tick, next_tick, entities: Vec::new() }
    }

    /// How long the task with the number `id` will wait, [`WAIT_MAX`] at most. Zero if it runs,
    /// `None` if it does not wait.
    ///
    /// The work is bounded, whatever the queue: a few thousand decisions of the scheduler.
    pub fn wait(&self, id: u64, features: Features) -> Option<Duration> {
        self.wait_any(&[id], features)
    }

    /// How long until the first of these tasks that wait runs, [`WAIT_MAX`] at most: for a request
    /// that any of them may serve. Zero if one runs already, `None` if none waits.
    pub fn wait_any(&self, ids: &[u64], features: Features) -> Option<Duration> {
        let mut waiting = Vec::new();
        for (index, entity) in self.entities.iter().enumerate() {
            if !entity.id().is_some_and(|id| ids.contains(&id)) {
                continue;
            }
            match entity.state {
                State::Running => return Some(Duration::ZERO),
                State::Waiting => waiting.push(index),
                State::Leaving | State::Asleep => {}
            }
        }
        match features {
            _ if waiting.is_empty() => None,
            Features::Linear => waiting.iter().map(|&index| linear::wait(self, index)).min(),
            _ => Some(replay::Replay::new(self, features).wait(&waiting)),
        }
    }
}

impl Entity {
    /// A task of ordinary weight without a history.
    pub fn task(id: u64, state: State) -> Self {
        Self::new(Kind::Task(id, None), state)
    }

    /// A group of ordinary weight without a history.
    pub fn group(state: State) -> Self {
        Self::new(Kind::Group, state)
    }

    fn new(kind: Kind, state: State) -> Self {
        let slice = Duration::from_micros(700); // the kernel's own, on one CPU
        Self {
            kind,
            parent: None,
            state,
            weight: NICE_0,
            vruntime: 0,
            deadline: nanos(slice) as i64,
            slice,
            protected: 0,
            lag: 0,
            ran: Duration::ZERO,
        }
    }

    /// The same with a habit, if it is a task.
    #[must_use]
    pub fn with_habit(mut self, habit: Habit) -> Self {
        if let Kind::Task(_, own) = &mut self.kind {
            *own = Some(habit);
        }
        self
    }

    /// The number of a task; `None` for a group.
    pub fn id(&self) -> Option<u64> {
        match self.kind {
            Kind::Group => None,
            Kind::Task(id, _) => Some(id),
        }
    }

    fn habit(&self) -> Option<Habit> {
        match self.kind {
            Kind::Group => None,
            Kind::Task(_, habit) => habit,
        }
    }

    fn is_queued(&self) -> bool {
        self.state != State::Asleep
    }

    /// Virtual time that passes for it while it runs for `time` nanoseconds.
    fn virtual_time(&self, time: i64) -> i64 {
        let time = i128::from(time) * i128::from(NICE_0) / i128::from(self.weight.max(2));
        i64::try_from(time).unwrap_or(i64::MAX)
    }

    fn virtual_slice(&self) -> i64 {
        self.virtual_time(signed(self.slice))
    }
}

impl Habit {
    /// How long it still sleeps, or runs. Who takes longer than usual will hardly be done at once:
    /// it is expected to be late as much again as it is already.
    fn rest(&self, usual: Duration) -> Duration {
        usual.abs_diff(self.elapsed)
    }
}

/// Nanoseconds that may be subtracted.
fn signed(time: Duration) -> i64 {
    i64::try_from(nanos(time)).unwrap_or(i64::MAX)
}
