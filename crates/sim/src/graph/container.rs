//! The CPU of one container: threads that share its units.
//!
//! Thrift's threaded server, which the paper's workloads have, runs each request in a thread of its
//! own, and the kernel shares the cores among the runnable ones. So with *n* threads on *c* units
//! each goes on at `min(1, c / n)` of the speed of a unit: processor sharing. More threads lengthen
//! execution, which is what `execMetric` is about (SurgeGuard §III-B).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use seawall_control::Instant;

/// Work below this, in nanoseconds, is rounding.
const ROUNDING_NS: f64 = 1e-3;

/// The CPU of one container.
#[derive(Debug)]
pub(super) struct Cpu<T> {
    units: u32,
    /// What a core does with both hyperthreads, over what it does with one.
    smt_gain: f64,
    /// Work that a unit does in the time of one at the base frequency.
    speed: f64,
    /// Work that each thread has been given since the CPU was idle last, in nanoseconds.
    attained: f64,
    /// Threads by what is attained when they are done. As bits: of floats above zero these are in
    /// the same order.
    threads: BinaryHeap<Reverse<(u64, u64, T)>>,
    begun: u64,
    since: Instant,
    /// Which of the announced ends is meant: a change makes earlier ones void.
    pub(super) epoch: u32,
    used: Used,
}

/// What was used, summed over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Used {
    /// Units that the container had, times nanoseconds.
    pub(super) granted: f64,
    /// Units that were at work, times nanoseconds.
    pub(super) busy: f64,
    /// Work done, in nanoseconds at the base frequency.
    pub(super) done: f64,
    /// Energy of units at work, by the plan's model, in units at the base frequency times
    /// nanoseconds.
    pub(super) energy: f64,
}

impl<T: Ord + Copy> Cpu<T> {
    pub(super) fn new(units: u32) -> Self {
        Self {
            units,
            smt_gain: 2.0,
            speed: 1.0,
            attained: 0.0,
            threads: BinaryHeap::new(),
            begun: 0,
            since: Instant::ORIGIN,
            epoch: 0,
            used: Used::default(),
        }
    }

    /// The same CPU, whose units are hyperthreads.
    pub(super) fn hyperthreaded(self, smt_gain: f64) -> Self {
        Self { smt_gain, ..self }
    }

    /// Goes on to `now`; `power` is what a unit at work takes at the current speed.
    pub(super) fn advance(&mut self, now: Instant, power: f64) {
        let elapsed = now.since(self.since).as_nanos() as f64;
        self.since = now;
        if elapsed == 0.0 {
            return;
        }
        let busy = (self.threads.len() as f64).min(f64::from(self.units));
        let cores = self.cores();
        self.attained += elapsed * self.rate();
        self.used.granted += elapsed * f64::from(self.units);
        self.used.busy += elapsed * busy;
        self.used.done += elapsed * cores * self.speed;
        self.used.energy += elapsed * cores * power;
    }

    /// A thread begins to work; call [`advance`](Self::advance) before.
    pub(super) fn begin(&mut self, thread: T, work: Duration) {
        if self.threads.is_empty() {
            self.attained = 0.0;
        }
        let end = self.attained + work.as_nanos() as f64;
        self.begun += 1;
        self.threads.push(Reverse((end.to_bits(), self.begun, thread)));
    }

    /// A thread that is done, if any is.
    pub(super) fn finished(&mut self) -> Option<T> {
        let Reverse((end, _, thread)) = *self.threads.peek()?;
        if f64::from_bits(end) > self.attained + ROUNDING_NS {
            return None;
        }
        self.threads.pop();
        Some(thread)
    }

    /// When the next thread is done if nothing changes.
    pub(super) fn next_end(&self) -> Option<Instant> {
        let Reverse((end, ..)) = self.threads.peek()?;
        let left = (f64::from_bits(*end) - self.attained).max(0.0) / self.rate();
        Some(self.since + Duration::from_nanos(left.ceil() as u64))
    }

    pub(super) fn set_units(&mut self, units: u32) {
        self.units = units;
    }

    pub(super) fn set_speed(&mut self, speed: f64) {
        self.speed = speed;
    }

    pub(super) fn units(&self) -> u32 {
        self.units
    }

    /// Threads at work.
    pub(super) fn runnable(&self) -> usize {
        self.threads.len()
    }

    pub(super) fn used(&self) -> Used {
        self.used
    }

    /// Work that is left, in nanoseconds.
    pub(super) fn left(&self) -> f64 {
        let left = |&Reverse((end, ..)): &Reverse<(u64, u64, T)>| {
            (f64::from_bits(end) - self.attained).max(0.0)
        };
        self.threads.iter().map(left).sum()
    }

    /// What each thread does in a nanosecond.
    fn rate(&self) -> f64 {
        self.cores() / self.threads.len().max(1) as f64 * self.speed
    }

    /// What the threads do together, in terms of one that has a core for itself. The kernel fills
    /// idle cores first, and their second hyperthreads then.
    fn cores(&self) -> f64 {
        let busy = (self.threads.len() as f64).min(f64::from(self.units));
        let cores = f64::from(self.units) / 2.0;
        busy.min(cores) + (busy - cores).max(0.0) * (self.smt_gain - 1.0)
    }
}

impl Used {
    pub(super) fn add(&mut self, more: Self) {
        self.granted += more.granted;
        self.busy += more.busy;
        self.done += more.done;
        self.energy += more.energy;
    }

    /// What was used since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            granted: self.granted - before.granted,
            busy: self.busy - before.busy,
            done: self.done - before.done,
            energy: self.energy - before.energy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + MS * ms as u32
    }

    #[test]
    fn threads_share_the_units() {
        let mut cpu = Cpu::new(2);
        for thread in 0..4 {
            cpu.begin(thread, MS);
        }
        assert_eq!(cpu.next_end(), Some(at(2)), "four threads on two units take twice as long");
        cpu.advance(at(1), 1.0);
        // A thread that comes half way through has its full work before it.
        cpu.begin(4, MS);
        cpu.set_units(5);
        assert_eq!(cpu.next_end(), Some(at(1) + MS / 2));
        cpu.advance(at(1) + MS / 2, 1.0);
        let done: Vec<u32> = std::iter::from_fn(|| cpu.finished()).collect();
        assert_eq!(done, [0, 1, 2, 3]);
        assert_eq!((cpu.runnable(), cpu.next_end()), (1, Some(at(2))));
    }

    #[test]
    fn hyperthreads_share_their_core() {
        let mut cpu = Cpu::new(4).hyperthreaded(1.25);
        cpu.begin('a', MS);
        cpu.begin('b', MS);
        assert_eq!(cpu.next_end(), Some(at(1)), "two threads have a core each");
        cpu.begin('c', MS);
        cpu.begin('d', MS);
        let full = Duration::from_micros(1_600);
        assert_eq!(cpu.next_end(), Some(Instant::ORIGIN + full), "four do what 2.5 cores would");
        cpu.begin('e', MS);
        assert_eq!(cpu.next_end(), Some(at(2)), "and five no more");
    }

    #[test]
    fn speed_shortens_the_work_and_costs_energy() {
        let mut cpu = Cpu::new(3);
        cpu.set_speed(2.0);
        cpu.begin('a', MS * 4);
        assert_eq!(cpu.next_end(), Some(at(2)));
        cpu.advance(at(2), 4.0);
        assert_eq!(cpu.finished(), Some('a'));
        let ms = 1e6;
        let used = Used { granted: 6.0 * ms, busy: 2.0 * ms, done: 4.0 * ms, energy: 8.0 * ms };
        assert_eq!(cpu.used(), used);
        cpu.advance(at(5), 4.0);
        let idle = cpu.used().since(used);
        assert_eq!(idle, Used { granted: 9.0 * ms, ..Used::default() });
    }
}
