//! The memory semaphore: it bounds how many use the memory's bandwidth at once (Svalinn §3.2).

use std::time::Duration;

use seawall_control::Instant;
use seawall_control::bandit::Bandit;
use seawall_control::estimate::Ewma;
use seawall_control::lanes::Lanes;
use seawall_control::predict::lock::{Backlog, Estimate};
use seawall_control::predict::memory::MemoryPolicy;
use seawall_control::random::mix;
use seawall_control::request::{Context, Rejected, Stage};

use super::request::RequestId;
use crate::scenario;

/// Weight of the latest hold in their mean.
const HOLD_WEIGHT: f64 = 0.125;

#[derive(Debug)]
pub(super) struct Semaphore {
    kind: MemoryPolicy,
    estimate: Estimate,
    capacity: u32,
    bandit: Option<Bandit>,
    /// Who holds a place. May exceed a capacity that has shrunk: nobody is interrupted.
    holders: u32,
    /// Who waits for one, and since when.
    waiting: Lanes<RequestId>,
    /// How long a place is held, in nanoseconds.
    hold: Ewma,
}

/// What becomes of a request that comes to the semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It has a place.
    Enters,
    /// It waits for one.
    Waits,
    /// It is refused.
    Refused(Rejected),
}

impl Semaphore {
    /// The semaphore that a server has, if any.
    pub(super) fn new(server: &scenario::Server, seed: u64) -> Option<Self> {
        let memory = &server.memory;
        let bandit = match memory.semaphore_capacity {
            None => Some(Bandit::new(&memory.bandit, server.cores, mix(seed))),
            Some(_) => None,
        };
        let capacity = memory.semaphore_capacity.or(bandit.as_ref().map(Bandit::capacity))?;
        (memory.semaphore != MemoryPolicy::None).then(|| Self {
            kind: memory.semaphore,
            estimate: server.locks.estimate(),
            capacity,
            bandit,
            holders: 0,
            waiting: Lanes::default(),
            hold: Ewma::new(HOLD_WEIGHT),
        })
    }

    /// A request comes; one that is `plain` cannot turn back.
    pub(super) fn enter(
        &mut self,
        now: Instant,
        id: RequestId,
        context: &Context,
        plain: bool,
    ) -> Entry {
        if self.holders < self.capacity {
            self.holders += 1;
            return Entry::Enters;
        }
        let droppable = context.claims().droppable;
        let admitted = match self.kind {
            _ if plain || !droppable => Ok(()),
            MemoryPolicy::Wait => {
                context.admit(Stage::MEMORY, now, self.estimate.wait(&self.backlog(now)))
            }
            _ => Err(Rejected::new(Stage::MEMORY, self.backlog(now).age, context.remaining(now))),
        };
        match admitted {
            Ok(()) => {
                self.waiting.push(now, droppable || plain, id);
                Entry::Waits
            }
            Err(rejected) => Entry::Refused(rejected),
        }
    }

    /// Lets one in whatever its capacity: a bug.
    pub(super) fn overbook(&mut self) {
        self.holders += 1;
    }

    /// Somebody gives a place back that it had for so long.
    pub(super) fn leave(&mut self, held: Duration) {
        self.hold.observe(held.as_nanos() as f64);
        self.holders = self.holders.checked_sub(1).expect("only holders leave");
    }

    /// Gives a free place to who is next; says how long that one waited.
    pub(super) fn take_next(&mut self, now: Instant) -> Option<(RequestId, Duration)> {
        if self.holders >= self.capacity {
            return None;
        }
        let (queued, next) = self.waiting.pop()?;
        self.holders += 1;
        Some((next, now.since(queued)))
    }

    /// An interval has passed in which the memory was used that much.
    pub(super) fn on_interval(&mut self, bytes_per_second: f64) {
        if let Some(bandit) = &mut self.bandit {
            self.capacity = bandit.on_interval(bytes_per_second);
        }
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(super) fn holders(&self) -> u32 {
        self.holders
    }

    /// Requests that wait for a place.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a place is free although somebody waits.
    pub(super) fn neglects_waiters(&self) -> bool {
        self.holders < self.capacity && !self.waiting.is_empty()
    }

    /// What a request that comes now has before it.
    fn backlog(&self, now: Instant) -> Backlog {
        Backlog {
            age: self.waiting.oldest().map_or(Duration::ZERO, |queued| now.since(queued)),
            turns: (self.waiting.len() + 1) as f64 / f64::from(self.capacity),
            hold: Duration::from_nanos(self.hold.value().unwrap_or(0.0) as u64),
            held: Duration::ZERO,
            rest: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_control::Rng;
    use seawall_control::request::Claims;

    use super::*;

    fn semaphore(text: &str) -> Semaphore {
        let server: scenario::Server = toml::from_str(text).unwrap();
        Semaphore::new(&server, 1).unwrap()
    }

    fn context(budget_us: u64) -> Context {
        let context = Context::new(Claims::default(), Instant::ORIGIN);
        context.with_budget_at_most(Duration::from_micros(budget_us))
    }

    #[test]
    fn try_refuses_at_once_and_lets_in_whoever_cannot_turn_back() {
        let text = "memory = { semaphore = 'try', semaphore_capacity = 2 }";
        let (semaphore, now) = (&mut semaphore(text), Instant::ORIGIN);
        assert_eq!(semaphore.enter(now, 1, &context(100), false), Entry::Enters);
        assert_eq!(semaphore.enter(now, 2, &context(100), false), Entry::Enters);
        let Entry::Refused(rejected) = semaphore.enter(now, 3, &context(100), false) else {
            panic!("two have it")
        };
        assert_eq!(rejected.stage, Stage::MEMORY);
        assert_eq!(semaphore.enter(now, 4, &context(0), true), Entry::Waits);
        semaphore.leave(Duration::from_micros(10));
        let next = semaphore.take_next(Instant::from_micros(10));
        assert_eq!(next, Some((4, Duration::from_micros(10))));
    }

    #[test]
    fn who_may_wait_for_long_enough_waits_in_order() {
        let text = "memory = { semaphore = 'wait', semaphore_capacity = 2 }";
        let (semaphore, now) = (&mut semaphore(text), Instant::ORIGIN);
        semaphore.enter(now, 1, &context(100), false);
        semaphore.leave(Duration::from_micros(60));
        semaphore.enter(now, 1, &context(100), false);
        semaphore.enter(now, 2, &context(100), false);
        // Half a turn of 60 µs, then a whole one, then one and a half.
        assert_eq!(semaphore.enter(now, 3, &context(80), false), Entry::Waits);
        assert_eq!(semaphore.enter(now, 4, &context(80), false), Entry::Waits);
        assert!(matches!(semaphore.enter(now, 5, &context(80), false), Entry::Refused(_)));
        semaphore.leave(Duration::from_micros(60));
        assert_eq!(semaphore.take_next(now).map(|(id, _)| id), Some(3));
        assert_eq!(semaphore.take_next(now), None);
    }

    /// Whoever comes and goes, and whatever the bandit says: nobody is let in beyond the capacity
    /// of that moment, and whoever was let in before it shrank stays.
    #[test]
    fn nobody_enters_beyond_a_capacity_that_shrinks_and_grows() {
        let semaphore = &mut semaphore("cores = 18\nmemory.semaphore = 'wait'");
        let rng = &mut Rng::new(7);
        let (mut shrank, mut held) = (0, 0);
        for step in 0..20_000 {
            let now = Instant::from_micros(step);
            let before = semaphore.holders();
            match rng.below(8) {
                0..4 => {
                    let entry = semaphore.enter(now, 0, &context(1_000_000), false);
                    let room = before < semaphore.capacity();
                    assert_eq!(entry == Entry::Enters, room);
                    held += u32::from(room);
                }
                4..7 if held > 0 => {
                    semaphore.leave(Duration::from_micros(9));
                    held -= 1;
                    held += u32::from(semaphore.take_next(now).is_some());
                    assert!(semaphore.holders() <= semaphore.capacity().max(before));
                }
                _ => {
                    semaphore.on_interval(rng.uniform() * 45.0);
                    let grown = std::iter::from_fn(|| semaphore.take_next(now)).count();
                    held += grown as u32;
                    assert!(grown == 0 || semaphore.holders() <= semaphore.capacity());
                    shrank += u32::from(semaphore.holders() > semaphore.capacity());
                }
            }
            assert!(semaphore.holders() == held && !semaphore.neglects_waiters());
        }
        assert!(shrank > 100, "{shrank}");
    }
}
