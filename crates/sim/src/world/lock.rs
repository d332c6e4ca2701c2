//! A mutex of the simulated application: first come, first served, those who must not be dropped
//! ahead of the others.

use std::collections::VecDeque;
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::estimate::Ewma;
use seawall_control::lanes::Lanes;
use seawall_control::predict::hold::Holds;
use seawall_control::predict::lock::Backlog;
use seawall_control::standing::Standing;

use super::request::RequestId;

/// Weight of the latest hold in their mean.
const HOLD_WEIGHT: f64 = 0.125;

#[derive(Debug)]
pub(super) struct Lock {
    /// Since when somebody has it.
    held_since: Option<Instant>,
    /// Who waits, and since when.
    waiting: Lanes<RequestId>,
    /// Work of the server's own that waits for it, and goes first.
    holders: VecDeque<u16>,
    /// How long it is held, in nanoseconds.
    hold: Ewma,
    /// What its holders announce.
    pub(super) holds: Holds,
    /// Whether its queue stands.
    pub(super) standing: Standing,
}

/// Who has a lock next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Nobody,
    /// Work of the server's own.
    Holder(u16),
    /// A request that has waited for so long.
    Request(RequestId, Duration),
}

impl Default for Lock {
    fn default() -> Self {
        Self {
            held_since: None,
            waiting: Lanes::default(),
            holders: VecDeque::new(),
            hold: Ewma::new(HOLD_WEIGHT),
            holds: Holds::default(),
            standing: Standing::default(),
        }
    }
}

impl Lock {
    /// True if it is the request's now; else the request waits.
    pub(super) fn acquire(&mut self, now: Instant, request: RequestId, droppable: bool) -> bool {
        if self.held_since.is_some() {
            self.waiting.push(now, droppable, request);
            return false;
        }
        self.held_since = Some(now);
        true
    }

    /// True if it is the server's own now, for this work; else that waits.
    pub(super) fn acquire_for(&mut self, now: Instant, holder: u16) -> bool {
        let free = self.held_since.is_none();
        if free {
            self.held_since = Some(now);
        } else {
            self.holders.push_back(holder);
        }
        free
    }

    /// Whether somebody has it.
    pub(super) fn is_held(&self) -> bool {
        self.held_since.is_some()
    }

    /// What a request that comes now has before it.
    pub(super) fn backlog(&self, now: Instant) -> Backlog {
        let Some(since) = self.held_since else { return Backlog::default() };
        Backlog {
            age: self.waiting.oldest().map_or(Duration::ZERO, |queued| now.since(queued)),
            turns: 1.0 + (self.waiting.len() + self.holders.len()) as f64,
            hold: Duration::from_nanos(self.hold.value().unwrap_or(0.0) as u64),
            held: now.since(since),
            rest: self.holds.rest(now),
        }
    }

    /// Requests that wait for it.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Gives the lock up, and hands it to who is next.
    pub(super) fn release(&mut self, now: Instant) -> Next {
        let held = self.held_since.take().map(|since| now.since(since));
        if let Some(held) = held {
            self.hold.observe(held.as_nanos() as f64);
        }
        self.holds.end(now);
        let next = match self.holders.pop_front() {
            Some(holder) => Next::Holder(holder),
            None => match self.waiting.pop() {
                Some((queued, next)) => {
                    self.standing.on_turn(held.unwrap_or_default());
                    Next::Request(next, now.since(queued))
                }
                None => return Next::Nobody,
            },
        };
        self.held_since = Some(now);
        next
    }
}
