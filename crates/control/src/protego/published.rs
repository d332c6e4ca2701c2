//! Algorithm 1 of the paper.

use core::time::Duration;

use super::Config;
use crate::controller::Init;
use crate::credit::{Growth, Next, PoolPolicy, Welcome, Window};
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
    last: Counts,
    /// What the newest iteration gained, for its change of load.
    efficiency: f64,
    iteration: Duration,
    welcome: Welcome,
}

/// What one iteration counted: in and out of algorithm 1.
///
/// Counts, not rates: iterations are as long as the round trips that were measured before them, and
/// in a longer one more comes and more is served, which counts as efficiency. With rates instead
/// the pool settles lower, and a tenth less is served in time.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    incoming: u32,
    outgoing: u32,
}

impl Counts {
    fn of(window: &Window) -> Self {
        Self { incoming: window.total().admitted(), outgoing: window.total().served }
    }

    /// How many came and were served more than in the iteration before.
    fn since(self, last: Self) -> (i64, i64) {
        let more = |now, before| i64::from(now) - i64::from(before);
        (more(self.incoming, last.incoming), more(self.outgoing, last.outgoing))
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
            last: Counts::default(),
            efficiency: 0.0,
            iteration: Duration::ZERO,
            welcome: Welcome::default(),
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
    fn is_worth_it(&self, window: &Window, (more_in, more_out): (i64, i64)) -> bool {
        let incoming = f64::from(window.total().admitted());
        f64::from(window.total().refused) <= self.drop_rate_max * incoming
            && more_in.signum() * more_out.signum() > 0
            && more_out.abs() as f64 > self.efficiency_threshold * more_in.abs() as f64
    }

    /// The pool after one step up or down (lines 12 to 20).
    fn step(&mut self, window: &Window, grows: bool) -> u32 {
        if grows {
            self.growth.grow(window.pool, window.sessions)
        } else {
            self.growth.scale(window.pool, 1.0 - self.decrement)
        }
    }
}

impl PoolPolicy for Policy {
    fn on_session(&mut self, pool: u32, sessions: u32) -> u32 {
        self.welcome.on_session(pool, sessions)
    }

    fn on_window(&mut self, _now: Instant, window: &Window) -> Next {
        let current = Counts::of(window);
        let (more_in, more_out) = current.since(self.last);
        if more_in != 0 {
            self.efficiency = more_out as f64 / more_in as f64;
        }
        let pool = if current.incoming == 0 {
            // Deviation: the paper's pool shrinks when nothing comes. But then the load says
            // nothing, and if all credits are issued, those who have something to send may be
            // waiting for those who have not.
            let waiting = window.issued >= window.pool;
            if waiting { self.step(window, true) } else { window.pool }
        } else {
            let grows = self.is_worth_it(window, (more_in, more_out));
            self.step(window, grows)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::ClassCounts;
    use proptest::prelude::*;

    /// What a second counted.
    fn window(arrivals: u32, served: u32) -> Window {
        let mut window = Window { duration: Duration::from_secs(1), ..Window::default() };
        (window.pool, window.issued, window.sessions) = (40, 40, 100);
        window.classes[0] = ClassCounts { arrivals, served, ..ClassCounts::default() };
        window
    }

    fn policy() -> Policy {
        Policy::new(&Config::default())
    }

    fn pool_after(policy: &mut Policy, window: &Window) -> u32 {
        policy.on_window(Instant::ORIGIN, window).pool
    }

    /// The pool of 40 credits after an iteration that counted these, and one before it that counted
    /// 100 arrivals and 90 answers.
    fn pool_after_both(arrivals: u32, served: u32) -> u32 {
        let policy = &mut policy();
        pool_after(policy, &window(100, 90));
        pool_after(policy, &window(arrivals, served))
    }

    #[test]
    fn grows_when_load_pays_by_more_than_the_threshold() {
        assert_eq!(pool_after_both(110, 92), 41, "a fifth of what came more was served");
        assert_eq!(pool_after_both(110, 91), 39, "a tenth");
        assert_eq!(pool_after_both(90, 88), 41, "a fifth of what came less was missed");
        assert_eq!(pool_after_both(90, 89), 39);
        assert_eq!(pool_after_both(110, 89), 39, "less is served of more");
        assert_eq!(pool_after_both(90, 91), 39);
        assert_eq!(pool_after_both(100, 95), 39, "the load has not changed");
    }

    #[test]
    fn shrinks_by_a_factor_and_grows_by_a_part_of_the_sessions() {
        let policy = &mut policy();
        let mut window = window(100, 90);
        (window.pool, window.sessions) = (1_000, 10_000);
        assert_eq!(pool_after(policy, &window), 1_010);
        assert_eq!(pool_after(policy, &window), 980);
    }

    #[test]
    fn shrinks_when_too_much_is_refused() {
        let config = Config { drop_rate_max: 0.05, ..Config::default() };
        for (refused, expected) in [(5, 41), (6, 39)] {
            let mut window = window(100, 90);
            window.classes[0].refused = refused;
            assert_eq!(pool_after(&mut Policy::new(&config), &window), expected);
        }
    }

    #[test]
    fn an_idle_pool_grows_only_for_those_who_may_be_waiting() {
        let policy = &mut policy();
        let mut window = window(0, 0);
        assert_eq!(pool_after(policy, &window), 41);
        window.pool = 41;
        assert_eq!(pool_after(policy, &window), 41);
    }

    #[test]
    fn what_is_refused_at_entry_is_no_load() {
        let policy = &mut policy();
        pool_after(policy, &window(100, 90));
        let mut window = window(500, 92);
        window.classes[0].refused_at_entry = 390;
        assert_eq!(pool_after(policy, &window), 41);
    }

    #[test]
    fn an_iteration_is_four_round_trips_after_one_to_settle() {
        let policy = &mut policy();
        let micros = Duration::from_micros;
        let window = Window { round_trip: micros(150), ..window(100, 90) };
        let next = policy.on_window(Instant::ORIGIN, &window);
        assert_eq!((next.settle, next.measure), (micros(150), micros(600)));
        let window = Window { round_trip: Duration::ZERO, ..window };
        let next = policy.on_window(Instant::ORIGIN, &window);
        assert_eq!((next.settle, next.measure), (RTT_MIN, RTT_MIN * 4), "time must go on");
    }

    proptest! {
        #[test]
        fn decides_as_algorithm_1(
            counts in prop::collection::vec((1..500_u32, 0..500_u32, 0..500_u32), 2..20),
            efficiency_threshold in 0.0..1.0,
            drop_rate_max in 0.0..=1.0,
        ) {
            let config = Config { efficiency_threshold, drop_rate_max, ..Config::default() };
            let policy = &mut Policy::new(&config);
            let (mut in_last, mut out_last) = (0, 0);
            for (arrivals, served, refused) in counts {
                let (in_cur, out_cur) = (i64::from(arrivals), i64::from(served));
                let (more_in, more_out) = (in_cur - in_last, out_cur - out_last);
                let grows = f64::from(refused) <= drop_rate_max * f64::from(arrivals)
                    && more_in * more_out > 0
                    && more_out.abs() as f64 > efficiency_threshold * more_in.abs() as f64;
                let mut window = Window { pool: 1000, ..window(arrivals, served) };
                window.classes[0].refused = refused;
                let expected = if grows { 1001 } else { 980 };
                prop_assert_eq!(pool_after(policy, &window), expected);
                (in_last, out_last) = (in_cur, out_cur);
            }
        }
    }
}
