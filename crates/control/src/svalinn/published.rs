//! Algorithm 2 of the paper.

use alloc::sync::Arc;

use super::Config;
use super::experiment::{Direction, Experiment, Laboratory};
use crate::controller::{Init, Signal};
use crate::credit::{Next, PoolPolicy, Welcome, Window};
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
    welcome: Welcome,
}

impl Policy {
    /// A policy that has seen nothing, and steers by `utility`.
    pub fn new(config: &Config, utility: Arc<dyn Utility>) -> Self {
        Self {
            laboratory: Laboratory::new(config, utility, Counting::WhenAnswered),
            delta: config.delta,
            deadband: config.deadband,
            origin: 0,
            more: None,
            welcome: Welcome::default(),
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
        // Deviation: the paper's pool shrinks when nothing comes, or always the same.
        let direction = Direction::of(more, less, self.deadband);
        let direction = direction.unwrap_or_else(|| Direction::unknown(window));
        match direction {
            Direction::More => self.origin.saturating_add(self.delta),
            Direction::Same => self.origin,
            Direction::Less => self.origin.saturating_sub(self.delta).max(1),
        }
    }
}

impl PoolPolicy for Policy {
    fn on_session(&mut self, pool: u32, sessions: u32) -> u32 {
        let grown = self.welcome.on_session(pool, sessions);
        if sessions == 1 || grown > pool {
            (self.origin, self.more) = (grown, None); // begins anew, from another pool
        }
        grown
    }

    fn on_signal(&mut self, _now: Instant, signal: Signal) {
        self.laboratory.on_signal(signal);
    }

    fn on_window(&mut self, _now: Instant, window: &Window) -> Next {
        let experiment = self.laboratory.evaluate(window);
        let pool = if let Some(more) = self.more.take() {
            self.origin = self.decide(window, more, experiment);
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
        self.laboratory.metrics(metrics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::ClassCounts;
    use crate::utility::Throughput;

    use core::time::Duration;
    use proptest::prelude::*;

    /// A policy at a pool of 40 whose next window is that with more.
    fn policy(config: &Config) -> Policy {
        let mut policy = Policy::new(config, Arc::new(Throughput));
        policy.origin = 40;
        policy
    }

    fn window(pool: u32, arrivals: u32, served: u32) -> Window {
        let duration = Duration::from_millis(1);
        let mut window = Window { pool, issued: pool, duration, ..Window::default() };
        window.classes[0] = ClassCounts { arrivals, served, ..ClassCounts::default() };
        window
    }

    fn pool_after(policy: &mut Policy, window: &Window) -> u32 {
        policy.on_window(Instant::ORIGIN, window).pool
    }

    #[test]
    fn tries_more_then_less_and_goes_where_it_was_better() {
        let policy = &mut policy(&Config::default());
        assert_eq!(pool_after(policy, &window(41, 110, 95)), 39, "now with less");
        assert_eq!(pool_after(policy, &window(39, 100, 90)), 42, "41, and one more");
        assert_eq!(pool_after(policy, &window(42, 110, 80)), 40);
        assert_eq!(pool_after(policy, &window(40, 100, 90)), 41, "40 again, and one more");
    }

    #[test]
    fn the_bounds_of_the_pool_are_not_left_behind() {
        let policy = &mut policy(&Config { delta: 10, ..Config::default() });
        for _ in 0..5 {
            pool_after(policy, &window(40, 110, 95)); // 40 credits is all that sessions may hold
            let next = pool_after(policy, &window(30, 100, 90));
            assert_eq!(next, 60, "50, and ten more");
        }
    }

    #[test]
    fn a_pool_that_begins_anew_takes_its_origin_with_it() {
        let policy = &mut policy(&Config::default());
        pool_after(policy, &window(41, 110, 95));
        assert_eq!(policy.on_session(4, 1), 4);
        assert_eq!(pool_after(policy, &window(4, 110, 95)), 3);
    }

    #[test]
    fn silence_says_nothing_unless_somebody_may_be_waiting() {
        let policy = &mut policy(&Config::default());
        let mut idle = window(40, 0, 0);
        idle.issued = 3;
        pool_after(policy, &idle);
        assert_eq!(pool_after(policy, &idle), 41, "where it was, and one more");
        pool_after(policy, &window(41, 0, 0));
        assert_eq!(pool_after(policy, &window(39, 0, 0)), 42);
    }

    proptest! {
        /// As the paper's algorithm 2 decides where it decides at all: loads differ.
        #[test]
        fn decides_as_algorithm_2(
            counts in prop::collection::vec(
                ((1..500_u32, 0..500_u32), (1..500_u32, 0..500_u32)),
                1..20,
            ),
        ) {
            let policy = &mut policy(&Config::default());
            let mut credits = 40_u32;
            for ((in_more, out_more), (in_less, out_less)) in counts {
                prop_assume!(in_more != in_less);
                pool_after(policy, &window(credits + 1, in_more, out_more));
                let next = pool_after(policy, &window(credits - 1, in_less, out_less));
                let relabelled = in_more < in_less;
                let (high, low) =
                    if relabelled { (out_less, out_more) } else { (out_more, out_less) };
                credits = if high > low { credits + 1 } else { (credits - 1).max(1) };
                prop_assert_eq!(next, credits + 1);
            }
        }
    }
}
