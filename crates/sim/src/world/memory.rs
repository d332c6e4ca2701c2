//! The bandwidth of a server's memory, shared by all who draw from it.
//!
//! ```text
//!   clock ▲        ╱ ← one draws: full speed
//!         │      ╱
//!         │    ╱‾  ← the sum exceeds the bandwidth: all are slowed alike
//!         │  ╱
//!         └──────────► time
//! ```
//!
//! All are slowed by one factor, so one clock serves them all: it runs that much slower, and a step
//! that has t left at full speed ends when the clock has gone on by t, whoever comes or goes
//! meanwhile. A change costs the logarithm of how many there are, and one event.

use std::collections::BTreeSet;
use std::time::Duration;

use seawall_control::{Instant, time};
use seawall_measure::Window;

use super::level::{Level, overlap};
use crate::scenario::Bandwidth;

/// Fraction bits of the clock, which counts nanoseconds: it is exact, and lasts for five hours.
const BITS: u32 = 20;

/// The clock's rate at full speed.
const FULL: u64 = 1 << BITS;

#[derive(Debug)]
pub(super) struct Memory {
    bandwidth: Option<u64>,
    /// What the clock shows since then, and how much faster than one nanosecond in 2^[`BITS`] it
    /// goes.
    clock: u64,
    since: Instant,
    rate: u64,
    /// What all would draw at full speed, in bytes per second.
    demand: u64,
    /// Who draws, by core.
    draws: Vec<Option<Draw>>,
    /// When they end by the clock, and their cores.
    ends: BTreeSet<(u64, u16)>,
    /// When the next one ends, and the number of the event that says so.
    due: Instant,
    epoch: u32,
    /// Counts those who drew from each core: which of them an event means.
    turns: Vec<u32>,
    window: Window,
    /// Bytes per second that are drawn.
    used: Level,
}

/// One step that draws.
#[derive(Clone, Copy, Debug)]
struct Draw {
    end: u64,
    bytes: u64,
    begun: Instant,
}

/// A step has ended, or was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drawn {
    /// How long it had its core.
    pub(super) time: Duration,
    /// How much of that is measured.
    pub(super) measured: Duration,
    /// What it has left where nothing slows it.
    pub(super) left: Duration,
}

impl Memory {
    pub(super) fn new(bandwidth: Option<Bandwidth>, cores: u32, window: Window) -> Self {
        Self {
            bandwidth: bandwidth.map(Bandwidth::bytes),
            clock: 0,
            since: Instant::ORIGIN,
            rate: FULL,
            demand: 0,
            draws: vec![None; cores as usize],
            ends: BTreeSet::new(),
            due: Instant::NEVER,
            epoch: 0,
            turns: vec![0; cores as usize],
            window,
            used: Level::new(0, window),
        }
    }

    /// A step begins on a core, and takes `time` there if nothing slows it. The number tells it
    /// from others on that core.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        core: u16,
        time: Duration,
        draw: Bandwidth,
    ) -> u32 {
        self.advance(now);
        let (end, bytes) = (self.clock.saturating_add(clock(time)), draw.bytes());
        let before = self.draws[usize::from(core)].replace(Draw { end, bytes, begun: now });
        assert!(before.is_none(), "a core does one thing at a time");
        self.ends.insert((end, core));
        self.change(now, self.demand + bytes);
        let turn = &mut self.turns[usize::from(core)];
        *turn = turn.wrapping_add(1);
        *turn
    }

    /// Whether that step still runs on this core.
    pub(super) fn runs(&self, core: u16, turn: u32) -> bool {
        self.draws[usize::from(core)].is_some() && self.turns[usize::from(core)] == turn
    }

    /// Takes a step that has ended by now off its core.
    pub(super) fn take_ended(&mut self, now: Instant) -> Option<(u16, Drawn)> {
        self.advance(now);
        let &(end, core) = self.ends.first()?;
        (end <= self.clock).then(|| (core, self.stop(now, core)))
    }

    /// Takes the step that runs on this core off it.
    pub(super) fn stop(&mut self, now: Instant, core: u16) -> Drawn {
        self.advance(now);
        let draw = self.draws[usize::from(core)].take().expect("a step runs there");
        self.ends.remove(&(draw.end, core));
        self.change(now, self.demand - draw.bytes);
        // Rounded up: no work is lost.
        let left = draw.end.saturating_sub(self.clock).div_ceil(FULL);
        Drawn {
            time: now.since(draw.begun),
            measured: overlap(&self.window, draw.begun, now),
            left: Duration::from_nanos(left),
        }
    }

    /// When the next step ends, and the number that its event should have, unless there is one.
    pub(super) fn poll_event(&mut self, now: Instant) -> Option<(Instant, u32)> {
        self.advance(now);
        let next = self.ends.first().map_or(Instant::NEVER, |&(end, _)| {
            let ahead = end.saturating_sub(self.clock).div_ceil(self.rate);
            now + Duration::from_nanos(ahead)
        });
        if next == self.due {
            return None;
        }
        self.due = next;
        self.epoch = self.epoch.wrapping_add(1);
        (next != Instant::NEVER).then_some((next, self.epoch))
    }

    /// An event has come. Whether it still means something.
    pub(super) fn on_event(&mut self, epoch: u32) -> bool {
        let current = epoch == self.epoch;
        if current {
            self.due = Instant::NEVER;
        }
        current
    }

    /// Whether a step should have ended before now.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.due < now || (self.due == Instant::NEVER && !self.ends.is_empty())
    }

    /// How many draw.
    #[cfg(test)]
    pub(super) fn drawing(&self) -> usize {
        self.ends.len()
    }

    /// Mean use since it was read before, in bytes per second.
    pub(super) fn read(&mut self, now: Instant) -> f64 {
        self.used.read(now)
    }

    /// Mean use over the measured time.
    pub(super) fn mean(&self) -> f64 {
        self.used.mean()
    }

    fn advance(&mut self, now: Instant) {
        let passed = time::nanos(now.since(self.since)).saturating_mul(self.rate);
        self.clock = self.clock.saturating_add(passed);
        self.since = now;
    }

    fn change(&mut self, now: Instant, demand: u64) {
        self.demand = demand;
        let bandwidth = self.bandwidth.unwrap_or(u64::MAX);
        self.rate = if demand <= bandwidth {
            FULL
        } else {
            let rate = (u128::from(bandwidth) << BITS) / u128::from(demand);
            (rate as u64).max(1)
        };
        self.used.set(now, demand.min(bandwidth));
    }
}

/// How far the clock goes at full speed.
fn clock(time: Duration) -> u64 {
    time::nanos(time).saturating_mul(FULL)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: Window = Window { start: Instant::ORIGIN, end: Instant::from_micros(1_000_000) };

    const GB: Bandwidth = Bandwidth::from_bytes(1_000_000_000);

    fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// Lets time go on to the next end; which core, when, and how long it was busy.
    fn next(memory: &mut Memory, now: &mut Instant) -> (u16, u64, u64) {
        if let Some((at, epoch)) = memory.poll_event(*now) {
            *now = at;
            assert!(memory.on_event(epoch));
        }
        let (core, drawn) = memory.take_ended(*now).expect("one ends when it is due");
        assert_eq!(drawn.left, Duration::ZERO);
        (core, now.as_nanos() / 1_000, drawn.time.as_micros() as u64)
    }

    #[test]
    fn two_who_draw_all_there_is_take_twice_as_long_until_one_leaves() {
        let mut memory = Memory::new(Some(GB), 2, ALL);
        let mut now = Instant::ORIGIN;
        memory.begin(now, 0, us(10), GB);
        memory.begin(now, 1, us(30), GB);
        // Both at half speed for 20 µs, then the other has 20 µs left at full speed.
        assert_eq!(next(&mut memory, &mut now), (0, 20, 20));
        assert_eq!(next(&mut memory, &mut now), (1, 40, 40));
        assert_eq!(memory.mean(), 1e9 * 40.0 / 1e6);
    }

    #[test]
    fn who_comes_later_slows_who_is_there() {
        let mut memory = Memory::new(Some(GB), 3, ALL);
        let mut now = Instant::ORIGIN;
        memory.begin(now, 0, us(30), GB);
        let first = memory.poll_event(now).unwrap();
        assert_eq!(first.0, Instant::from_micros(30));
        now = Instant::from_micros(10);
        memory.begin(now, 1, us(10), GB);
        memory.begin(now, 2, us(10), Bandwidth::from_bytes(2_000_000_000));
        // At a quarter of the speed: the new ones end after 40 µs, the old one then has 10 µs left.
        assert!(memory.poll_event(now).is_some() && !memory.on_event(first.1));
        now = Instant::from_micros(50);
        let ended: Vec<u16> =
            std::iter::from_fn(|| memory.take_ended(now)).map(|(core, _)| core).collect();
        assert_eq!((ended, memory.drawing()), (vec![1, 2], 1));
        assert_eq!(next(&mut memory, &mut now), (0, 60, 60));
    }

    #[test]
    fn within_the_bandwidth_nobody_is_slowed() {
        let mut memory = Memory::new(Some(GB), 4, ALL);
        let mut now = Instant::ORIGIN;
        let quarter = Bandwidth::from_bytes(250_000_000);
        for core in 0..4u16 {
            memory.begin(now, core, us(10 + u64::from(core)), quarter);
        }
        for core in 0..4u16 {
            assert_eq!(next(&mut memory, &mut now).1, 10 + u64::from(core));
        }
        assert_eq!(memory.poll_event(now), None);
    }

    #[test]
    fn who_is_stopped_has_the_rest_left() {
        let mut memory = Memory::new(Some(GB), 2, ALL);
        let turn = memory.begin(Instant::ORIGIN, 0, us(30), GB);
        memory.begin(Instant::ORIGIN, 1, us(30), GB);
        assert!(memory.runs(0, turn));
        let drawn = memory.stop(Instant::from_micros(20), 0);
        assert_eq!(drawn, Drawn { time: us(20), measured: us(20), left: us(20) });
        assert!(!memory.runs(0, turn));
        assert_ne!(memory.begin(Instant::from_micros(20), 0, drawn.left, GB), turn);
    }

    proptest! {
        /// Steps that come and go at any time get just the work that they need, no more is drawn
        /// than there is, and it is used up while enough is wanted.
        #[test]
        fn work_is_conserved(
            steps in prop::collection::vec((0u64..200_000, 1u64..100_000, 1u64..9), 1..40)
        ) {
            let mut memory = Memory::new(Some(Bandwidth::from_bytes(10_000)), 40, ALL);
            let mut arrivals: Vec<_> = steps.iter().copied().enumerate().collect();
            arrivals.sort_by_key(|(core, (at, ..))| (*at, *core));
            let wanted: u64 = steps.iter().map(|(_, time, draw)| time * draw * 1_000).sum();
            let (mut arrivals, mut ended) = (arrivals.into_iter().peekable(), 0);
            let mut event: Option<(Instant, u32)> = None;
            loop {
                let arrival = arrivals.peek().map(|(_, (at, ..))| Instant::from_nanos(*at));
                let now = match (arrival, event) {
                    (Some(at), Some((due, _))) if due < at => due,
                    (Some(at), _) => at,
                    (None, Some((due, _))) => due,
                    (None, None) => break,
                };
                if arrival == Some(now) {
                    let (core, (_, time, draw)) = arrivals.next().unwrap();
                    let bytes = Bandwidth::from_bytes(draw * 1_000);
                    memory.begin(now, core as u16, Duration::from_nanos(time), bytes);
                } else if let Some((_, epoch)) = event.take()
                    && memory.on_event(epoch)
                {
                    while let Some((core, drawn)) = memory.take_ended(now) {
                        let (begun, time, _) = steps[usize::from(core)];
                        prop_assert!(drawn.time >= Duration::from_nanos(time));
                        prop_assert_eq!(drawn.time, now.since(Instant::from_nanos(begun)));
                        ended += 1;
                    }
                }
                prop_assert!(memory.used.value() <= 10_000);
                event = memory.poll_event(now).or(event);
            }
            prop_assert_eq!(ended, steps.len());
            // Ends are rounded up to nanoseconds, and rates down to 2⁻²⁰.
            let drawn = memory.mean() * 1e9;
            let most = wanted as f64 * (1.0 + 1e-4) + 40.0 * 10_000.0;
            prop_assert!((wanted as f64..=most).contains(&(drawn + 1e-3)), "{drawn} of {wanted}");
        }
    }
}
