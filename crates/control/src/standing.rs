//! The longest queue worth having in front of a bottleneck.
//!
//! A queue is for bursts: who waits in it is served a little later, instead of not at all. Once
//! more comes than can be served for longer than a burst, it does no such thing. It never empties.
//! Everybody who is served has waited through all of it, and somebody is refused all the same: it
//! is a standing queue (RFC 8289 §3.1). All that is left of its use is that the bottleneck finds
//! somebody when it is free. A few who wait are enough for that, and the fewer the more demand
//! exceeds capacity.
//!
//! ```text
//!   served ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ capacity
//!          ▲         ·  ·  ·   ·
//!          │      ·  ▲ elasticity d ln served / d ln n falls below the threshold here
//!          │    ·    │
//!          └─────────┴───────────► n: those who wait, and one who is served
//! ```
//!
//! How many are a few is taken from the M/M/1/n queue, whose threshold is that of the
//! [knee](crate::limit::knee). At twice the capacity five are enough, at 1.1 times 16. Where
//! several are served at once, those who wait fluctuate alike.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::controller::Algorithm;
use crate::estimate::Ewma;
use crate::time::Instant;

/// For how long arrivals and turns are counted, at least.
pub const WINDOW: Duration = Duration::from_millis(500);

/// Arrivals that are counted, so that chance is no demand: ten standard deviations.
const SAMPLES: u32 = 100;

/// With fewer arrivals than that, a window lasts so long; and nothing older is remembered.
const LONGEST: Duration = Duration::from_secs(10);

/// Weight of the newest window.
const WEIGHT: f64 = 0.5;

/// One percent more in the queue has to bring so many percent more throughput.
const ELASTICITY: f64 = 0.05;

/// Demand over capacity that is told apart: the formula has no value at 1, and where ten times as
/// many come as can be served, two are enough.
const DEMANDS: (f64, f64) = (1.001, 16.0);

/// How long queues at stages may be while more comes than can be served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queues {
    /// As short as keeps the stage busy.
    Short,
    /// As long as what its requests have left (Protego §3.2). The default.
    #[default]
    Full,
}

impl Queues {
    /// How long they are under `algorithm` unless told: short if its stages
    /// [bound waits](Algorithm::bounds_waits), else full, as published.
    pub fn under(algorithm: &dyn Algorithm) -> Self {
        if algorithm.bounds_waits() { Self::Short } else { Self::Full }
    }
}

/// Watches one queue for whether it stands.
#[derive(Debug)]
pub struct Standing {
    began: Instant,
    arrivals: u32,
    turns: u32,
    /// Time in which those turns came, one after the other.
    busy: Duration,
    /// Demand over capacity.
    demand: Ewma,
    most: Duration,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            began: Instant::ORIGIN,
            arrivals: 0,
            turns: 0,
            busy: Duration::ZERO,
            demand: Ewma::new(WEIGHT),
            most: Duration::MAX,
        }
    }
}

impl Standing {
    /// Somebody is here who may have to wait; also if that is refused.
    pub fn on_arrival(&mut self, now: Instant) {
        let window = now.since(self.began);
        if window >= LONGEST || window >= WINDOW && self.arrivals >= SAMPLES {
            self.judge(window);
            (self.began, self.arrivals) = (now, 0);
            (self.turns, self.busy) = (0, Duration::ZERO);
        }
        self.arrivals = self.arrivals.saturating_add(1);
    }

    /// The first who waited has a turn, so long after the one before, or after the queue began.
    pub fn on_turn(&mut self, gap: Duration) {
        self.turns = self.turns.saturating_add(1);
        self.busy = self.busy.saturating_add(gap);
    }

    /// How long the turns ahead of a request that joins should take at most, that of who is served
    /// now included. No queue is too long while demand is within capacity.
    pub fn most(&self, queues: Queues) -> Duration {
        match queues {
            Queues::Short => self.most,
            Queues::Full => Duration::MAX,
        }
    }

    /// Demand over capacity, in the latest windows; `None` before the first.
    pub fn demand(&self) -> Option<f64> {
        self.demand.value()
    }

    fn judge(&mut self, window: Duration) {
        if window > LONGEST {
            self.demand = Ewma::new(WEIGHT);
        }
        let turn = self.busy.as_secs_f64() / f64::from(self.turns.max(1));
        self.demand.observe(f64::from(self.arrivals) * turn / window.as_secs_f64());
        let demand = self.demand.value().unwrap_or(0.0);
        self.most = if demand > 1.0 && self.turns > 0 {
            // Half a turn more, since a turn that is to come is not known exactly.
            let turns = f64::from(knee(demand)) - 0.5;
            Duration::try_from_secs_f64(turns * turn).unwrap_or(Duration::MAX)
        } else {
            Duration::MAX
        };
    }
}

/// How many an M/M/1/n queue has to hold, the one who is served included, until one percent more
/// brings less than [`ELASTICITY`] percent more throughput.
fn knee(demand: f64) -> u32 {
    let demand = demand.clamp(DEMANDS.0, DEMANDS.1);
    // Of the time in which somebody is served, the part that has no effect on the ratio left out.
    let served = |n: u32| {
        let power = libm::pow(demand, f64::from(n));
        (power - 1.0) / (power * demand - 1.0)
    };
    let is_enough = |&n: &u32| {
        let more = libm::log(f64::from(n + 1) / f64::from(n));
        libm::log(served(n + 1) / served(n)) < ELASTICITY * more
    };
    // At a demand of 1, n requests serve n / (n + 1): the elasticity is 1 / (n + 1) there.
    (1..=(1.0 / ELASTICITY) as u32).find(is_enough).unwrap_or((1.0 / ELASTICITY) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals at `per_second` for `time`, at a stage that takes `service` for each and lets at
    /// most what is worth it wait. Gives how many were refused, and the longest queue.
    fn offer(
        standing: &mut Standing,
        from: Duration,
        time: Duration,
        per_second: f64,
        service: Duration,
    ) -> (u32, u32) {
        let (mut now, mut free_at, mut refused, mut longest) = (from, from, 0, 0);
        let mut waiting = alloc::collections::VecDeque::new();
        let gap = Duration::from_secs_f64(1.0 / per_second);
        while now < from + time {
            while waiting.front().is_some_and(|turn: &(Duration, Duration)| turn.0 <= now) {
                let (at, before) = waiting.pop_front().unwrap();
                standing.on_turn(at - before);
            }
            standing.on_arrival(Instant::ORIGIN + now);
            let ahead = waiting.len() as u32 + 1;
            if free_at <= now {
                free_at = now + service;
            } else if service * ahead > standing.most(Queues::Short) {
                refused += 1;
            } else {
                let before = waiting.back().map_or(free_at - service, |(at, _)| *at);
                waiting.push_back((free_at, before));
                free_at += service;
                longest = longest.max(ahead);
            }
            now += gap;
        }
        (refused, longest)
    }

    const MS: Duration = Duration::from_millis(1);
    const S: Duration = Duration::from_secs(1);

    #[test]
    fn the_more_demand_the_fewer_are_enough() {
        let enough = [1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 10.0, 1e9].map(knee);
        assert_eq!(enough, [19, 16, 12, 8, 5, 4, 2, 2]);
    }

    #[test]
    fn nobody_is_refused_while_demand_is_within_capacity() {
        let mut standing = Standing::default();
        assert_eq!(standing.most(Queues::Short), Duration::MAX);
        assert_eq!(offer(&mut standing, Duration::ZERO, 20 * S, 950.0, MS).0, 0);
        assert_eq!(standing.most(Queues::Short), Duration::MAX);
    }

    #[test]
    fn a_queue_does_not_stand_under_overload() {
        let mut standing = Standing::default();
        offer(&mut standing, Duration::ZERO, 2 * S, 2000.0, MS);
        let demand = standing.demand().unwrap();
        assert!((1.8..2.2).contains(&demand), "{demand}");
        let (refused, longest) = offer(&mut standing, 2 * S, 4 * S, 2000.0, MS);
        assert_eq!(longest, 4, "and one that is served");
        assert!((3900..4100).contains(&refused), "{refused} of 8000");
    }

    #[test]
    fn a_burst_may_wait() {
        let mut standing = Standing::default();
        offer(&mut standing, Duration::ZERO, 5 * S, 500.0, MS);
        let (refused, longest) = offer(&mut standing, 5 * S, 100 * MS, 3000.0, MS);
        assert_eq!(refused, 0);
        assert!(longest > 150, "{longest}");
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut standing = Standing::default();
        offer(&mut standing, Duration::ZERO, 5 * S, 3000.0, MS);
        assert_ne!(standing.most(Queues::Short), Duration::MAX);
        standing.on_arrival(Instant::ORIGIN + 3600 * S);
        assert_eq!(standing.most(Queues::Short), Duration::MAX);
    }
}
