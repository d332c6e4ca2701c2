//! Algorithm 2 of the paper.

use alloc::sync::Arc;

use super::Config;
use super::experiment::{Direction, Experiment, Laboratory};
use crate::controller::{Init, Signal};
use crate::credit::{Next, PoolPolicy, Window};
use crate::metrics::Metrics;
use crate::time::Instant;
use crate::utility::{Counting, Utility};

/// Tries a larger and a smaller pool in turn, and goes where the utility was higher.
#[derive(Debug)]
pub struct Policy {
    laboratory: Laboratory,
    delta: u32,
    deadband: f64,
    /// The pool around which experiments are made.
    origin: u32,
    /// The experiment with a larger pool, once it has ended.
    more: Option<Experiment>,
    cycles: u64,
}

impl Policy {
    /// A policy that has seen nothing, and steers by `utility`.
    pub fn new(config: &Config, utility: Arc<dyn Utility>) -> Self {
        Self {
            laboratory: Laboratory::new(config, utility, Counting::WhenAnswered),
            delta: config.delta,
            deadband: config.deadband.unwrap_or(0.0),
            origin: 0,
            more: None,
            cycles: 0,
        }
    }

    /// The first experiment: a credit for each core, and δ.
    pub(super) fn first(&mut self, init: Init) -> Next {
        self.origin = init.cores;
        let (settle, measure) = self.laboratory.times(init.rtt);
        Next { pool: self.origin + self.delta, settle, measure }
    }

    /// Lines 17 to 24.
    fn decide(&self, window: &Window, more: Experiment, less: Experiment) -> u32 {
        let direction = if more.arrivals == 0 && less.arrivals == 0 {
            // Deviation: the paper's pool shrinks when nothing comes. But then the load says
            // nothing, and if all credits are issued, those who have something to send may be
            // waiting for those who have not.
            let waiting = window.issued >= window.pool;
            if waiting { Direction::More } else { Direction::Same }
        } else {
            Direction::of(more, less, self.deadband)
        };
        match direction {
            Direction::More => self.origin.saturating_add(self.delta),
            Direction::Same => self.origin,
            Direction::Less => self.origin.saturating_sub(self.delta).max(1),
        }
    }
}

impl PoolPolicy for Policy {
    fn on_session(&mut self, pool: u32, sessions: u32) -> u32 {
        if sessions == 1 {
            (self.origin, self.more) = (pool, None); // the pool begins anew
        }
        pool
    }

    fn on_signal(&mut self, _now: Instant, signal: Signal) {
        self.laboratory.on_signal(signal);
    }

    fn on_window(&mut self, _now: Instant, window: &Window) -> Next {
        let experiment = self.laboratory.evaluate(window);
        let pool = if let Some(more) = self.more.take() {
            self.origin = self.decide(window, more, experiment);
            self.cycles += 1;
            self.origin.saturating_add(self.delta)
        } else {
            self.more = Some(experiment);
            // What was really tried: the mechanism bounds the pool.
            self.origin = self.origin.min(window.pool);
            self.origin.saturating_sub(self.delta)
        };
        let (settle, measure) = self.laboratory.times(window.round_trip);
        Next { pool, settle, measure }
    }

    fn metrics(&self, metrics: Metrics) -> Metrics {
        metrics.with("experiments", self.cycles as f64)
    }
}
