//! One class at a gate: who waits, how many are inside, and how fast turns come.

use alloc::boxed::Box;
use core::time::Duration;

use super::entries::Id;
use crate::estimate::Ewma;
use crate::lanes::Lanes;
use crate::limit::LimitPolicy;
use crate::standing::Standing;
use crate::time::{Instant, nanos};

/// Weight of the newest gap between two turns, and of the newest latency.
const WEIGHT: f64 = 1.0 / 32.0;

/// The place-time of a request of which nothing is known yet, in seconds.
const UNKNOWN: f64 = 0.001;

/// What the gate keeps for one class.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) queue: Lanes<Id>,
    /// Those in the queue that have not been given up.
    pub(super) waiting: u32,
    pub(super) in_flight: u32,
    /// `None` while this is the only class: the limit of all is its limit then.
    pub(super) policy: Option<Box<dyn LimitPolicy>>,
    /// Seconds of places that it has used, since some moment that is the same for all classes.
    pub(super) used: f64,
    /// Requests that found the limit of this class reached.
    pub(super) limited: u64,
    /// No more requests of this class will come.
    pub(super) is_retired: bool,
    /// Time from one turn to the next while somebody waits, in seconds.
    gap: Ewma,
    last_turn: Option<Instant>,
    pub(super) standing: Standing,
    /// Time behind the gate, in seconds.
    latency: Ewma,
}

impl Lane {
    /// An empty class, which begins with so much of the others' time in places used.
    pub(super) fn new(used: f64) -> Self {
        Self {
            queue: Lanes::default(),
            waiting: 0,
            in_flight: 0,
            policy: None,
            used,
            limited: 0,
            is_retired: false,
            gap: Ewma::new(WEIGHT),
            last_turn: None,
            standing: Standing::default(),
            latency: Ewma::new(WEIGHT),
        }
    }

    pub(super) fn limit(&self) -> u32 {
        self.policy.as_ref().map_or(u32::MAX, |policy| policy.limit().max(1))
    }

    pub(super) fn is_full(&self) -> bool {
        self.in_flight >= self.limit()
    }

    /// Seconds that a request is expected to be inside.
    pub(super) fn expected(&self) -> f64 {
        self.latency.value().unwrap_or(UNKNOWN)
    }

    pub(super) fn latency(&self) -> Option<f64> {
        self.latency.value()
    }

    pub(super) fn on_latency(&mut self, latency: Duration) {
        self.latency.observe(latency.as_secs_f64());
    }

    /// The queue is empty, and somebody may join it, with `places` for this class.
    ///
    /// How fast turns came when somebody waited the last time says little. What is inside now
    /// leaves as fast as Little's law says.
    pub(super) fn on_backlog(&mut self, now: Instant, places: u32) {
        self.gap = Ewma::new(WEIGHT);
        if let Some(latency) = self.latency.value() {
            self.gap.observe(latency / f64::from(places.max(1)));
        }
        self.last_turn = Some(now);
    }

    /// The first who waited has a turn.
    pub(super) fn on_turn(&mut self, now: Instant) {
        if let Some(last) = self.last_turn.replace(now) {
            let gap = now.since(last);
            self.gap.observe(gap.as_secs_f64());
            self.standing.on_turn(gap);
        }
    }

    /// How long a request waits that joins the queue now.
    ///
    /// The age of the oldest is late: after a burst it tells only how long the burst is ago. The
    /// turns ahead are there at once, but know nothing of a stall. The larger of the two counts.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let turns = f64::from(self.waiting) + 0.5;
        let ahead = turns * self.gap.value().unwrap_or(0.0);
        self.age(now).max(Duration::try_from_secs_f64(ahead).unwrap_or(Duration::MAX))
    }

    /// The turns ahead of who joins: those of all who wait, and one for those inside.
    pub(super) fn queued(&self) -> Duration {
        let seconds = f64::from(self.waiting + 1) * self.gap.value().unwrap_or(0.0);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// How long the oldest waits.
    pub(super) fn age(&self, now: Instant) -> Duration {
        self.queue.oldest().map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Turns per second while somebody waits.
    pub(super) fn rate(&self) -> Option<f64> {
        self.gap.value().filter(|gap| *gap > 0.0).map(|gap| 1.0 / gap)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_retired && self.waiting == 0 && self.in_flight == 0
    }

    /// Time until all who wait have had their turns.
    pub(super) fn drained_in(&self) -> Duration {
        let seconds = f64::from(self.waiting) * self.gap.value().unwrap_or(0.0);
        Duration::from_nanos(nanos(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
    }
}
