//! A mutex of the simulated application: first come, first served, those who must not be dropped
//! ahead of the others.

use std::time::Duration;

use seawall_control::Instant;
use seawall_control::estimate::Ewma;
use seawall_control::lanes::Lanes;
use seawall_control::predict::lock::Backlog;

use super::request::RequestId;

/// Weight of the latest hold in their mean.
const HOLD_WEIGHT: f64 = 0.125;

#[derive(Debug)]
pub(super) struct Lock {
    /// Since when somebody has it.
    held_since: Option<Instant>,
    /// Who waits, and since when.
    waiting: Lanes<RequestId>,
    /// How long it is held, in nanoseconds.
    hold: Ewma,
}

impl Default for Lock {
    fn default() -> Self {
        Self { held_since: None, waiting: Lanes::default(), hold: Ewma::new(HOLD_WEIGHT) }
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

    /// Whether somebody has it.
    pub(super) fn is_held(&self) -> bool {
        self.held_since.is_some()
    }

    /// What a request that comes now has before it.
    pub(super) fn backlog(&self, now: Instant) -> Backlog {
        let Some(since) = self.held_since else { return Backlog::default() };
        Backlog {
            age: self.waiting.oldest().map_or(Duration::ZERO, |queued| now.since(queued)),
            turns: 1.0 + self.waiting.len() as f64,
            hold: Duration::from_nanos(self.hold.value().unwrap_or(0.0) as u64),
            held: now.since(since),
            rest: None,
        }
    }

    /// Requests that wait for it.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Gives the lock up, and hands it to who is next; says how long that one waited.
    pub(super) fn release(&mut self, now: Instant) -> Option<(RequestId, Duration)> {
        if let Some(since) = self.held_since.take() {
            self.hold.observe(now.since(since).as_nanos() as f64);
        }
        let (queued, next) = self.waiting.pop()?;
        self.held_since = Some(now);
        Some((next, now.since(queued)))
    }
}
