//! The pool as the code released with Svalinn sizes it.

use alloc::sync::Arc;

use super::Config;
use super::experiment::{Direction, Experiment, Laboratory};
use crate::controller::{Init, Signal};
use crate::credit::{Next, PoolPolicy, Welcome, Window};
use crate::metrics::Metrics;
use crate::time::Instant;
use crate::utility::{Counting, Utility};

/// Compares two windows with the same pool, in which by chance more and fewer requests came.
///
/// It does not try other pools, shrinks a pool that is not used up, and counts an answer only if it
/// falls into the window of its request.
#[derive(Debug)]
pub struct Policy {
    laboratory: Laboratory,
    delta: u32,
    deadband: f64,
    first: Option<Experiment>,
    welcome: Welcome,
}

impl Policy {
    /// A policy that has seen nothing, and steers by `utility`.
    pub fn new(config: &Config, utility: Arc<dyn Utility>) -> Self {
        Self {
            laboratory: Laboratory::new(config, utility, Counting::WhenArrived),
            delta: config.delta,
            deadband: config.released_deadband,
            first: None,
            welcome: Welcome::default(),
        }
    }

    /// The pool at the start: a credit for each core.
    pub(super) fn first(&self, init: Init) -> Next {
        let (settle, measure) = self.laboratory.times(init.rtt);
        Next { pool: init.cores, settle, measure }
    }

    fn decide(&self, window: &Window, first: Experiment, second: Experiment) -> u32 {
        // Of equal loads nothing is defined in C, and in Go the pool stays.
        let direction = if first.load == 0.0 || second.load == 0.0 {
            Direction::More
        } else {
            let direction = Direction::of(first, second, self.deadband);
            direction.unwrap_or_else(|| Direction::unknown(window))
        };
        let used_up = window.issued >= window.pool;
        match direction {
            Direction::More if used_up => window.pool.saturating_add(self.delta),
            Direction::Same if used_up => window.pool,
            _ => window.pool.saturating_sub(self.delta),
        }
    }
}

impl PoolPolicy for Policy {
    fn on_session(&mut self, pool: u32, sessions: u32) -> u32 {
        self.welcome.on_session(pool, sessions)
    }

    fn on_signal(&mut self, _now: Instant, signal: Signal) {
        self.laboratory.on_signal(signal);
    }

    fn on_window(&mut self, _now: Instant, window: &Window) -> Next {
        let experiment = self.laboratory.evaluate(window);
        let pool = match self.first.take() {
            Some(first) => self.decide(window, first, experiment),
            None => {
                self.first = Some(experiment);
                window.pool
            }
        };
        let (settle, measure) = self.laboratory.times(window.round_trip);
        Next { pool, settle, measure }
    }

    fn metrics(&self, metrics: Metrics) -> Metrics {
        self.laboratory.metrics(metrics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::ClassCounts;
    use crate::utility::Throughput;

    use core::time::Duration;

    fn window(issued: u32, arrivals: u32, completions: u32) -> Window {
        let duration = Duration::from_millis(1);
        let mut window = Window { pool: 40, issued, duration, ..Window::default() };
        window.classes[0] = ClassCounts { arrivals, completions, ..ClassCounts::default() };
        window
    }

    /// The pool of 40 after two windows.
    fn pool_after(first: &Window, second: &Window) -> u32 {
        let mut policy = Policy::new(&Config::default(), Arc::new(Throughput));
        assert_eq!(policy.on_window(Instant::ORIGIN, first).pool, 40, "it is not changed between");
        policy.on_window(Instant::ORIGIN, second).pool
    }

    #[test]
    fn more_requests_must_bring_more_answers_by_the_deadband() {
        assert_eq!(pool_after(&window(40, 100, 100), &window(40, 110, 106)), 41);
        assert_eq!(pool_after(&window(40, 110, 106), &window(40, 100, 100)), 41);
        assert_eq!(pool_after(&window(40, 100, 100), &window(40, 110, 104)), 40);
        assert_eq!(pool_after(&window(40, 100, 100), &window(40, 110, 94)), 39);
        assert_eq!(pool_after(&window(40, 100, 100), &window(40, 100, 100)), 41, "says nothing");
    }

    #[test]
    fn a_pool_that_is_not_used_up_shrinks_whatever_was_measured() {
        assert_eq!(pool_after(&window(39, 100, 100), &window(39, 110, 110)), 39);
        assert_eq!(pool_after(&window(39, 100, 100), &window(39, 110, 104)), 39);
        assert_eq!(pool_after(&window(39, 0, 0), &window(39, 0, 0)), 39);
    }

    #[test]
    fn silence_in_either_window_asks_for_more() {
        assert_eq!(pool_after(&window(40, 0, 0), &window(40, 100, 100)), 41);
    }
}
