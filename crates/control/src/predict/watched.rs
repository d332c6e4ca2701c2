//! A lock of somebody else's, such as a virtual machine's: told what happens at it, it predicts who
//! waits there for how long, by the rules of [`lock`](super::lock).
//!
//! ```text
//!   wait? ─► join ─► (the lock itself grants the turn) ─► enter ─► announce ─► exit
//!     │        └──► leave: gave up                                  "rebalance", 256
//!     └ refused
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::hold::{Forecast, Holds};
use super::lock::{Backlog, Estimate};
use crate::estimate::Ewma;
use crate::time::{Instant, nanos};

/// Weight of the newest sample in the mean time of a turn, as for round trips in TCP (RFC 6298).
const HOLD_WEIGHT: f64 = 1.0 / 8.0;

/// What is known of one lock.
#[derive(Debug)]
pub struct Watched {
    estimate: Estimate,
    waiting: VecDeque<Waiting>,
    tickets: u64,
    /// Who holds it: one, or several who share a turn.
    holders: u32,
    is_shared: bool,
    /// When the present turn began; that of readers, when somebody came who has to wait for them:
    /// without one they come and go as they like.
    turn_since: Instant,
    /// Somebody waits, or has waited, for the present turn to end.
    is_waited_for: bool,
    hold: Ewma,
    holds: Holds,
}

/// The number of one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

#[derive(Clone, Copy, Debug)]
struct Waiting {
    ticket: Ticket,
    since: Instant,
    is_shared: bool,
}

impl Default for Watched {
    fn default() -> Self {
        Self::new(Estimate::default())
    }
}

impl Watched {
    /// Of a lock that is free.
    pub fn new(estimate: Estimate) -> Self {
        Self {
            estimate,
            waiting: VecDeque::new(),
            tickets: 0,
            holders: 0,
            is_shared: false,
            turn_since: Instant::ORIGIN,
            is_waited_for: false,
            hold: Ewma::new(HOLD_WEIGHT),
            holds: Holds::default(),
        }
    }

    /// How long one who comes now will wait; `is_shared` if it shares its turn with its neighbours,
    /// as readers do.
    pub fn wait(&self, now: Instant, is_shared: bool) -> Duration {
        let is_free = self.holders == 0 || (is_shared && self.is_shared);
        if is_free && self.waiting.is_empty() {
            return Duration::ZERO;
        }
        let oldest = self.waiting.front().map_or(now, |first| first.since);
        let is_held = self.holders > 0;
        let began = if self.is_shared && !self.is_waited_for { now } else { self.turn_since };
        self.estimate.wait(&Backlog {
            age: now.since(oldest),
            turns: (u32::from(is_held) + self.turns_waiting(is_shared)).into(),
            hold: Duration::from_nanos(self.hold.value().unwrap_or(0.0) as u64),
            held: if is_held { now.since(began) } else { Duration::ZERO },
            rest: self.holds.rest(now),
        })
    }

    /// Turns of those who wait that come before a newcomer's. Who joins readers at the end shares
    /// theirs.
    fn turns_waiting(&self, is_shared: bool) -> u32 {
        let (mut turns, mut follows_shared) = (0, false);
        for waiting in &self.waiting {
            turns += u32::from(!(waiting.is_shared && follows_shared));
            follows_shared = waiting.is_shared;
        }
        turns - u32::from(is_shared && follows_shared)
    }

    /// Somebody begins to wait.
    pub fn join(&mut self, now: Instant, is_shared: bool) -> Ticket {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        if !self.is_waited_for {
            self.is_waited_for = true;
            if self.is_shared {
                self.turn_since = now;
            }
        }
        self.waiting.push_back(Waiting { ticket, since: now, is_shared });
        ticket
    }

    /// Somebody gave up waiting.
    pub fn leave(&mut self, ticket: Ticket) {
        self.take(ticket);
    }

    /// Somebody has it, after a wait if there is a `ticket`, whose length it gives.
    pub fn enter(&mut self, now: Instant, ticket: Option<Ticket>, is_shared: bool) -> Duration {
        let waited = ticket.and_then(|ticket| self.take(ticket));
        if self.holders == 0 {
            self.turn_since = now;
            self.is_waited_for = !self.waiting.is_empty();
        }
        self.holders += 1;
        self.is_shared = is_shared;
        waited.map_or(Duration::ZERO, |waiting| now.since(waiting.since))
    }

    /// The holder says what it does: so many units of what it calls `label` (LIBROS §VI).
    pub fn announce(&mut self, now: Instant, label: &'static str, amount: u64) {
        self.holds.begin(now, label, amount);
    }

    /// A holder gives it back. What it announced is done.
    pub fn exit(&mut self, now: Instant) {
        self.holders = self.holders.saturating_sub(1);
        if self.holders == 0 {
            self.holds.end(now);
            // Readers whom nobody waited for took no turn.
            if self.is_shared && !self.is_waited_for {
                return;
            }
            self.hold.observe(nanos(now.since(self.turn_since)) as f64);
        }
    }

    /// Who waits.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How well the holds are predicted whose holders said what they did.
    pub fn forecasts(&self) -> Vec<Forecast> {
        self.holds.forecasts()
    }

    fn take(&mut self, ticket: Ticket) -> Option<Waiting> {
        let place = self.waiting.iter().position(|waiting| waiting.ticket == ticket)?;
        self.waiting.remove(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + MS(ms)
    }

    /// A lock that was held for 10 ms each time.
    fn known() -> Watched {
        let mut lock = Watched::default();
        for turn in 0..4 {
            lock.enter(at(10 * turn), None, false);
            lock.exit(at(10 * turn + 10));
        }
        lock
    }

    #[test]
    fn turns_ahead_take_as_long_as_turns_took() {
        let mut lock = known();
        assert_eq!(lock.wait(at(100), false), Duration::ZERO, "it is free");
        lock.enter(at(100), None, false);
        assert_eq!(lock.wait(at(100), false), MS(10));
        lock.join(at(100), false);
        assert_eq!(lock.wait(at(101), false), MS(20));
        assert_eq!(lock.wait(at(150), false), MS(60), "late by 40 ms, hence as much again");
    }

    #[test]
    fn readers_share_a_turn() {
        let mut lock = known();
        lock.enter(at(100), None, true);
        assert_eq!(lock.wait(at(100), true), Duration::ZERO);
        let writer = lock.join(at(100), false);
        assert_eq!(lock.wait(at(100), true), MS(20), "not past the writer");
        lock.join(at(100), true);
        lock.join(at(100), true);
        assert_eq!(lock.wait(at(100), true), MS(20), "with the two at the end");
        assert_eq!(lock.wait(at(100), false), MS(30));
        lock.exit(at(103));
        assert_eq!(lock.enter(at(104), Some(writer), false), MS(4));
        assert_eq!(lock.waiting(), 2);
    }

    #[test]
    fn readers_whom_nobody_waits_for_take_no_turn() {
        let mut lock = known();
        lock.enter(at(100), None, true);
        for ms in 101..1_000 {
            lock.enter(at(ms), None, true); // before the last one leaves
            lock.exit(at(ms));
        }
        assert_eq!(lock.wait(at(1_000), false), MS(10), "they end when nobody else comes");
        let writer = lock.join(at(1_000), false);
        assert_eq!(lock.wait(at(1_008), false), MS(20));
        lock.exit(at(1_010));
        lock.enter(at(1_010), Some(writer), false);
        lock.exit(at(1_020));
        lock.enter(at(1_100), None, true);
        lock.exit(at(9_000));
        lock.enter(at(9_000), None, false);
        assert_eq!(lock.wait(at(9_000), false), MS(10), "turns still take 10 ms");
    }

    #[test]
    fn who_gives_up_is_not_waited_for() {
        let mut lock = known();
        lock.enter(at(100), None, false);
        let ticket = lock.join(at(100), false);
        lock.leave(ticket);
        lock.leave(ticket); // nobody
        assert_eq!(lock.wait(at(100), false), MS(10));
    }

    /// The paper's whiskers (LIBROS Fig. 8): how long a hold takes follows from the nodes.
    #[test]
    fn what_the_holder_announces_is_waited_for() {
        let mut lock = known();
        for (began, nodes, took) in [(100, 32, 25), (200, 256, 130)] {
            lock.enter(at(began), None, false);
            lock.announce(at(began), "rebalance", nodes);
            lock.exit(at(began + took));
        }
        lock.enter(at(400), None, false);
        lock.announce(at(400), "rebalance", 256);
        let off = lock.wait(at(430), true).abs_diff(MS(100));
        assert!(off < Duration::from_micros(5), "{off:?}");
        lock.exit(at(530));
        assert_eq!(lock.forecasts()[0].label, "rebalance");
    }
}
