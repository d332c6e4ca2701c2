//! Algorithm 1 of the paper.

use core::time::Duration;

use super::Config;
use crate::controller::Init;
use crate::credit::{Growth, Next, PoolPolicy, Window};
use crate::metrics::Metrics;
use crate::time::Instant;

/// An iteration is never measured in round trips shorter than this, whatever clients acknowledge.
const RTT_MIN: Duration = Duration::from_micros(1);

/// Grows the pool while more load brings more throughput, and shrinks it else.
#[derive(Debug)]
pub struct Policy {
    efficiency_threshold: f64,
    drop_rate_max: f64,
    growth: Growth,
    decrement: f64,
    iteration_rtts: u32,
    last: Rates,
    /// What the newest iteration gained, for its change of load.
    efficiency: f64,
    iteration: Duration,
}

/// What one iteration counted, per second.
///
/// Deviation: the paper compares counts. Its iterations are as long as the round trips that were
/// measured before them, and counts of iterations that are not equally long rise and fall together,
/// whatever the server does.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    incoming: f64,
    outgoing: f64,
}

impl Rates {
    fn of(window: &Window) -> Self {
        let seconds = window.duration.max(RTT_MIN).as_secs_f64();
        let rate = |count: u32| f64::from(count) / seconds;
        Self { incoming: rate(window.total().arrivals), outgoing: rate(window.served) }
    }
}

impl Policy {
    /// A policy that has seen nothing.
    pub fn new(config: &Config) -> Self {
        Self {
            efficiency_threshold: config.efficiency_threshold,
            drop_rate_max: config.drop_rate_max,
            growth: Growth::new(config.increment),
            decrement: config.decrement,
            iteration_rtts: config.iteration_rtts,
            last: Rates::default(),
            efficiency: 0.0,
            iteration: Duration::ZERO,
        }
    }

    /// The pool at the start: one credit for each core.
    pub(super) fn first(&self, init: Init) -> Next {
        self.iterate(init.cores, init.rtt)
    }

    /// The next iteration: four round trips, after one in which the load follows the pool (§4).
    fn iterate(&self, pool: u32, round_trip: Duration) -> Next {
        let settle = round_trip.max(RTT_MIN);
        Next { pool, settle, measure: settle * self.iteration_rtts }
    }

    /// Lines 11 to 21.
    fn is_worth_it(&self, window: &Window, change: Rates) -> bool {
        let arrivals = f64::from(window.total().arrivals);
        f64::from(window.refused) <= self.drop_rate_max * arrivals
            && change.incoming * change.outgoing > 0.0
            && change.outgoing.abs() > self.efficiency_threshold * change.incoming.abs()
    }

    fn shrink(&mut self, pool: u32) -> u32 {
        self.growth.reset();
        (f64::from(pool) * (1.0 - self.decrement)) as u32
    }
}

impl PoolPolicy for Policy {
    /// The paper does not say how large a pool is at first. One credit for each session lets all
    /// show what load they bring; with fewer, the last would wait for thousands of iterations.
    fn on_session(&mut self, pool: u32, sessions: u32) -> u32 {
        if pool < sessions { pool + 1 } else { pool }
    }

    fn on_window(&mut self, _now: Instant, window: &Window) -> Next {
        let current = Rates::of(window);
        let change = Rates {
            incoming: current.incoming - self.last.incoming,
            outgoing: current.outgoing - self.last.outgoing,
        };
        if change.incoming != 0.0 {
            self.efficiency = change.outgoing / change.incoming;
        }
        let pool = if current.incoming == 0.0 {
            // Deviation: the paper's pool shrinks when nothing comes. But then the load says
            // nothing, and if all credits are issued, those who have something to send may be
            // waiting for those who have not.
            let waiting = window.issued >= window.pool;
            if waiting { self.growth.grow(window.pool, window.sessions) } else { window.pool }
        } else if self.is_worth_it(window, change) {
            self.growth.grow(window.pool, window.sessions)
        } else {
            self.shrink(window.pool)
        };
        self.last = current;
        self.iteration = window.duration;
        self.iterate(pool, window.round_trip)
    }

    fn metrics(&self, metrics: Metrics) -> Metrics {
        metrics
            .with("marginal_efficiency", self.efficiency)
            .with("iteration_seconds", self.iteration.as_secs_f64())
    }
}
