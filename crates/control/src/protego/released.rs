//! The pool as the code released with Protego sizes it.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, duration};
use crate::controller::Init;
use crate::credit::{Growth, Next, PoolPolicy, Window};
use crate::metrics::Metrics;
use crate::time::Instant;

/// The released pool starts with this many credits for each core.
const CREDITS_PER_CORE: u32 = 10;

/// Parameters of the released variant, with its defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Released {
    /// A request per second more must be served for every so many that arrive more. Default 4,
    /// from 1 to 1000: an efficiency threshold of a quarter.
    pub slope: u32,
    /// Step of the pool, up or down, for each client, from 0 to 1. Default 0.0005; at least one
    /// credit.
    pub increment: f64,
    /// Time from one decision to the next. Default 200us, for 100,000 requests per second and
    /// more: where it sees none or one, chance decides, and the pool starves.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// The part of it that does not count: what was decided takes effect. Default 100us.
    #[serde(with = "duration")]
    pub settle: Duration,
}

impl Default for Released {
    fn default() -> Self {
        Self {
            slope: 4,
            increment: 0.0005,
            interval: Duration::from_micros(200),
            settle: Duration::from_micros(100),
        }
    }
}

impl Released {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("protego.released.slope", self.slope, 1..=1000)?;
        ConfigError::check_range("protego.released.increment", self.increment, 0.0..=1.0)?;
        if self.settle >= self.interval {
            let problem = "it is not below protego.released.interval; give less than that";
            return Err(ConfigError::new("protego.released.settle", problem));
        }
        Ok(())
    }
}

/// Steps up while more load brings more throughput and the pool is used up, and down else.
///
/// It knows no drop threshold and measures no round trip.
#[derive(Debug)]
pub struct Policy {
    config: Released,
    growth: Growth,
    last_in: u32,
    last_out: u32,
}

impl Policy {
    /// A policy that has seen nothing.
    pub fn new(config: &Released) -> Self {
        let growth = Growth::new(config.increment);
        Self { config: config.clone(), growth, last_in: 0, last_out: 0 }
    }

    /// The pool at the start.
    pub(super) fn first(&self, init: Init) -> Next {
        self.iterate(init.cores.saturating_mul(CREDITS_PER_CORE))
    }

    fn iterate(&self, pool: u32) -> Next {
        let Released { interval, settle, .. } = self.config;
        Next { pool, settle, measure: interval - settle }
    }

    fn is_worth_it(&self, window: &Window) -> bool {
        let (incoming, outgoing) = (window.total().admitted(), window.total().served);
        let (last_in, last_out) = (self.last_in, self.last_out);
        let slope = u64::from(self.config.slope);
        let gain = |more: u32, less: u32| slope * u64::from(more.saturating_sub(less));
        if incoming == 0 {
            return true;
        }
        let efficient = if incoming >= last_in {
            outgoing > last_out && gain(outgoing, last_out) >= u64::from(incoming - last_in)
        } else {
            last_out > outgoing && gain(last_out, outgoing) > u64::from(last_in - incoming)
        };
        efficient && window.issued >= window.pool
    }

    /// Additive, too: the paper's factor is not in the code.
    fn shrink(&self, pool: u32, sessions: u32) -> u32 {
        let step = (self.config.increment * f64::from(sessions)) as u32;
        pool.saturating_sub(step.max(1))
    }
}

impl PoolPolicy for Policy {
    fn on_window(&mut self, _now: Instant, window: &Window) -> Next {
        let pool = if self.is_worth_it(window) {
            self.growth.grow(window.pool, window.sessions)
        } else {
            self.shrink(window.pool, window.sessions)
        };
        (self.last_in, self.last_out) = (window.total().admitted(), window.total().served);
        self.iterate(pool)
    }

    fn metrics(&self, metrics: Metrics) -> Metrics {
        metrics.with("iteration_seconds", self.config.interval.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::ClassCounts;

    /// A full pool of 1,000 credits among 1,000 clients.
    fn window(arrivals: u32, served: u32) -> Window {
        let mut window = Window::default();
        (window.pool, window.issued, window.sessions) = (1_000, 1_000, 1_000);
        window.classes[0] = ClassCounts { arrivals, served, ..ClassCounts::default() };
        window
    }

    /// The change of the pool after 100 arrivals with 90 answers, and then this.
    fn step(window: &Window) -> i64 {
        let policy = &mut Policy::new(&Released::default());
        policy.on_window(Instant::ORIGIN, &self::window(100, 90));
        i64::from(policy.on_window(Instant::ORIGIN, window).pool) - i64::from(window.pool)
    }

    #[test]
    fn a_quarter_of_the_change_is_worth_it() {
        assert_eq!(step(&window(110, 93)), 1); // 4 · 3 ≥ 10
        assert_eq!(step(&window(110, 92)), -1); // 4 · 2 < 10
        assert_eq!(step(&window(90, 88)), -1); // 4 · 2 ≤ 10
        assert_eq!(step(&window(90, 87)), 1); // 4 · 3 > 10
        assert_eq!((step(&window(104, 91)), step(&window(96, 89))), (1, -1)); // 4 · 1 = 4
        assert_eq!((step(&window(110, 89)), step(&window(90, 91))), (-1, -1));
    }

    #[test]
    fn equal_load_pays_if_more_is_served_and_none_always() {
        assert_eq!((step(&window(100, 91)), step(&window(100, 90))), (1, -1));
        assert_eq!(step(&window(0, 0)), 1);
    }

    #[test]
    fn a_pool_that_is_not_used_up_shrinks() {
        for (arrivals, served) in [(110, 93), (90, 87), (100, 91)] {
            assert_eq!(step(&Window { issued: 999, ..window(arrivals, served) }), -1);
        }
        assert_eq!(step(&Window { issued: 999, ..window(0, 0) }), 1);
    }

    #[test]
    fn steps_are_a_part_of_the_clients_in_both_directions() {
        let many = |arrivals, served| Window { sessions: 10_000, ..window(arrivals, served) };
        assert_eq!((step(&many(110, 93)), step(&many(110, 92))), (5, -5));
        assert_eq!(step(&Window { pool: 0, ..window(110, 92) }), 0);
    }

    #[test]
    fn counts_for_what_is_left_of_a_fixed_interval() {
        let init = Init { cores: 4, ..Init::new(Instant::ORIGIN, 0) };
        let first = Policy::new(&Released::default()).first(init);
        let micros = Duration::from_micros;
        assert_eq!(first, Next { pool: 40, settle: micros(100), measure: micros(100) });
    }
}
