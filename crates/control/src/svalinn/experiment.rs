//! Micro-experiments: how a load went, and which of two was better (Svalinn §3.1).

use core::mem;
use core::time::Duration;

use alloc::sync::Arc;

use super::Config;
use crate::controller::Signal;
use crate::credit::Window;
use crate::metrics::Metrics;
use crate::utility::{Counting, Measured, Utility};

/// Requests that an experiment waits for if it is not told how long to monitor.
const REQUESTS: f64 = 100.0;

/// An experiment that is not told how long to monitor is never longer, however little comes.
const MONITOR_MAX: Duration = Duration::from_millis(100);

/// No experiment is shorter, whatever clients acknowledge.
const MONITOR_MIN: Duration = Duration::from_micros(1);

/// How one load went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Experiment {
    /// Requests that came per second, refused ones included. A rate, because experiments need not
    /// be equally long.
    pub(super) load: f64,
    pub(super) utility: f64,
}

/// Where the pool goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    More,
    Same,
    Less,
}

impl Direction {
    /// What two experiments say of which the first was to bring more load, or may have; `None` if
    /// that is nothing.
    ///
    /// The pool only permits load. So the one to which more requests came was that with more load,
    /// whichever it was to be (§3.1). Deviation: of equal loads neither is; the paper's algorithm 2
    /// then takes the pool's smaller for the larger.
    pub(super) fn of(mut more: Experiment, mut less: Experiment, deadband: f64) -> Option<Self> {
        if more.load < less.load {
            mem::swap(&mut more, &mut less);
        }
        let equal = more.utility == less.utility;
        if equal && more.load == less.load {
            return None;
        }
        let gain = match (more.utility.is_nan(), less.utility.is_nan()) {
            (true, true) => return None,
            (true, false) => return Some(Self::Less),
            (false, true) => return Some(Self::More),
            _ if equal => 0.0, // infinite ones, too
            _ => more.utility - less.utility,
        };
        // Of utilities below zero the paper's ratio changes its sign; their size does not.
        Some(if gain.abs() < deadband * less.utility.abs() {
            Self::Same
        } else if gain > 0.0 {
            Self::More
        } else {
            Self::Less
        })
    }

    /// Where to go if nothing is known: if all credits are issued, those who have something to send
    /// may be waiting for those who have not, or who will never give theirs back.
    pub(super) fn unknown(window: &Window) -> Self {
        if window.issued >= window.pool { Self::More } else { Self::Same }
    }
}

/// Turns windows into experiments.
#[derive(Debug)]
pub(super) struct Laboratory {
    utility: Arc<dyn Utility>,
    counting: Counting,
    warm_up: Option<Duration>,
    monitor: Option<Duration>,
    /// What the newest experiment measured, and its utility.
    pub(super) latest: Measured,
    utility_of_latest: f64,
    power: Mean,
    bandwidth: Mean,
}

/// The mean of what was signalled since it was taken; without that, it stays.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    value: f64,
    sum: f64,
    count: u32,
}

impl Mean {
    fn observe(&mut self, sample: f64) {
        if sample.is_finite() {
            self.sum += sample;
            self.count += 1;
        }
    }

    fn take(&mut self) -> f64 {
        if self.count > 0 {
            *self = Self { value: self.sum / f64::from(self.count), ..Self::default() };
        }
        self.value
    }
}

impl Laboratory {
    pub(super) fn new(config: &Config, utility: Arc<dyn Utility>, counting: Counting) -> Self {
        Self {
            utility,
            counting,
            warm_up: config.warm_up,
            monitor: config.monitor,
            latest: Measured::default(),
            utility_of_latest: 0.0,
            power: Mean::default(),
            bandwidth: Mean::default(),
        }
    }

    pub(super) fn on_signal(&mut self, signal: Signal) {
        match signal {
            Signal::Power { watts } => self.power.observe(watts),
            Signal::Bandwidth { bytes_per_second } => self.bandwidth.observe(bytes_per_second),
            Signal::QueueDelay(_) | Signal::Cpu { .. } => {}
        }
    }

    pub(super) fn evaluate(&mut self, window: &Window) -> Experiment {
        self.latest = Measured {
            power: self.power.take(),
            bandwidth: self.bandwidth.take(),
            ..Measured::of(window, self.counting)
        };
        let utility = self.utility.of(&self.latest);
        self.utility_of_latest = utility;
        Experiment { load: self.latest.arrivals, utility }
    }

    pub(super) fn metrics(&self, metrics: Metrics) -> Metrics {
        metrics.with("utility", self.utility_of_latest)
    }

    /// How long to let a pool take effect and how long to monitor it then, where credits take
    /// `round_trip` to bring an answer.
    pub(super) fn times(&self, round_trip: Duration) -> (Duration, Duration) {
        let round_trip = round_trip.max(MONITOR_MIN);
        let monitor = self.monitor.unwrap_or_else(|| {
            let enough = REQUESTS / self.latest.arrivals.max(REQUESTS);
            Duration::from_secs_f64(enough).min(MONITOR_MAX).max(round_trip * 2)
        });
        (self.warm_up.unwrap_or(round_trip), monitor.max(MONITOR_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utility::Throughput;

    const fn experiment(load: f64, utility: f64) -> Experiment {
        Experiment { load, utility }
    }

    fn direction(more: (f64, f64), less: (f64, f64)) -> Option<Direction> {
        Direction::of(experiment(more.0, more.1), experiment(less.0, less.1), 0.0)
    }

    #[test]
    fn goes_where_more_load_was_worth_it() {
        assert_eq!(direction((11.0, 2.0), (10.0, 1.0)), Some(Direction::More));
        assert_eq!(direction((11.0, 1.0), (10.0, 2.0)), Some(Direction::Less));
        assert_eq!(direction((11.0, 1.0), (10.0, 1.0)), Some(Direction::Less), "it was not");
    }

    #[test]
    fn the_one_to_which_more_came_had_more_load() {
        assert_eq!(direction((9.0, 1.0), (10.0, 2.0)), Some(Direction::More));
        assert_eq!(direction((9.0, 2.0), (10.0, 1.0)), Some(Direction::Less));
        assert_eq!(direction((10.0, 2.0), (10.0, 1.0)), Some(Direction::More), "neither");
        assert_eq!(direction((10.0, 1.0), (10.0, 1.0)), None);
    }

    #[test]
    fn what_is_no_number_is_the_worst() {
        assert_eq!(direction((11.0, f64::NAN), (10.0, -1e9)), Some(Direction::Less));
        assert_eq!(direction((11.0, -1e9), (10.0, f64::NAN)), Some(Direction::More));
        assert_eq!(direction((11.0, f64::NAN), (10.0, f64::NAN)), None);
        let infinite = f64::INFINITY;
        assert_eq!(direction((11.0, infinite), (10.0, infinite)), Some(Direction::Less), "no gain");
    }

    #[test]
    fn small_differences_do_not_count_below_zero_either() {
        let direction =
            |more, less| Direction::of(experiment(2.0, more), experiment(1.0, less), 0.05).unwrap();
        assert_eq!(direction(104.0, 100.0), Direction::Same);
        assert_eq!(direction(106.0, 100.0), Direction::More);
        assert_eq!(direction(-104.0, -100.0), Direction::Same);
        assert_eq!(direction(-106.0, -100.0), Direction::Less);
        assert_eq!(direction(-94.0, -100.0), Direction::More);
        assert_eq!(direction(1.0, 0.0), Direction::More);
    }

    #[test]
    fn monitors_until_enough_has_come() {
        let config = Config::default();
        let mut lab = Laboratory::new(&config, Arc::new(Throughput), Counting::WhenAnswered);
        let (ms, us) = (Duration::from_millis, Duration::from_micros);
        assert_eq!(lab.times(us(50)), (us(50), ms(100)), "nothing is known");
        lab.latest.arrivals = 100_000.0;
        assert_eq!(lab.times(us(50)), (us(50), ms(1)));
        assert_eq!(lab.times(ms(5)), (ms(5), ms(10)));
        lab.latest.arrivals = f64::INFINITY;
        assert_eq!(lab.times(Duration::ZERO), (MONITOR_MIN, MONITOR_MIN * 2));
    }

    #[test]
    fn power_and_bandwidth_are_means_of_what_was_signalled() {
        let config = Config::default();
        let mut lab = Laboratory::new(&config, Arc::new(Throughput), Counting::WhenAnswered);
        for watts in [50.0, 60.0, f64::NAN] {
            lab.on_signal(Signal::Power { watts });
        }
        lab.evaluate(&Window::default());
        assert_eq!((lab.latest.power, lab.latest.bandwidth), (55.0, 0.0));
        lab.on_signal(Signal::Bandwidth { bytes_per_second: 1e9 });
        lab.evaluate(&Window::default());
        assert_eq!((lab.latest.power, lab.latest.bandwidth), (55.0, 1e9), "the last one known");
    }
}
