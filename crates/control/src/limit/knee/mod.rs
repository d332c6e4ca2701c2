//! The smallest limit that brings nearly the whole throughput: ours.
//!
//! ```text
//!   throughput │         ·──────────────  more at once only wait inside
//!              │       ·
//!              │     ·  ▲ elasticity d ln X / d ln n falls below the threshold here: kept
//!              │   ·
//!              └───┴────┴────────────────  n at once
//!
//!   limit   kept ──┐ other ┌── kept ──┐ other ┌── kept ─────────── rest ──────────►
//!                  └───────┘          └───────┘
//!   counted   A       B        A'        B'     until the evidence suffices
//! ```
//!
//! What the latency at one limit is cannot tell whether the limit is too high or the service slow.
//! So the limit is tried: for short windows, in turns with the limit that is kept, another one is
//! used, a little higher or lower, and the throughputs *while as many ran as were allowed* are
//! compared. More at once is worth it if one percent more brings at least 0.05 percent more
//! throughput (Protego §3.1, whose efficiency compares changes of load in the same way); fewer are
//! taken if they cost less than that. Turns cancel what changes with time, and how many samples are
//! needed follows from how much latencies spread.
//!
//! The lowest recent latency only proposes: by Little's law, throughput × lowest latency is what
//! must be inside. Used as a proof, as in Vegas and the gradients, it drifts in a long overload,
//! when all that was seen is slow, and has to be measured anew by letting nearly nobody in. Here no
//! window lets in less than a quarter, and a limit that is too high is found out however long all
//! is slow, because fewer bring as much.
//!
//! What fails or is refused behind is no throughput. What its client gives up inside counts against
//! the limit: refused, it would have cost nothing. A limit that is not used is not tried.

mod lowest;
mod trial;
mod window;

use lowest::Lowest;
use trial::{Arm, Direction, Trial};
use window::Window;

use serde::{Deserialize, Serialize};

use super::{Failure, FailureKind, LimitPolicy, Sample};
use crate::config::ConfigError;
use crate::estimate::Ewma;
use crate::request::Class;
use crate::time::Instant;

/// Served requests in the shortest window.
const WINDOW_MIN: u32 = 16;

/// Another limit differs from the one kept by this factor at first, and at most without a hint.
const RATIO_MAX: f64 = 2.0;

/// After trials that changed nothing it differs by less, down to this factor (and at least by one).
const RATIO_MIN: f64 = 1.25;

/// A latency this many times the lowest says that requests queue inside.
const QUEUEING: f64 = 1.5;

/// A limit is proposed this much above what Little's law asks for: arrivals are no clockwork.
const HEADROOM: f64 = 1.25;

/// A rest lasts as long as so many of the trial before it, so that trials cost little.
const REST: u32 = 8;

/// However long a trial took, the next begins after this much rest, in seconds.
const REST_MAX: f64 = 10.0;

/// A change of the latency by more than this factor ends the rest: the service has changed.
const CHANGE: f64 = 1.3;

/// Parameters of the knee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Percent of throughput that one percent more at once must bring, from 0.01 to 0.9. The
    /// smaller, the nearer to all the throughput there is, and the longer requests take inside.
    /// Default 0.05: of the way to and from the service, which is a tenth of the time of a quick
    /// request, a second place for each core makes use.
    pub elasticity: f64,
    /// The limit at the start. Default 16.
    pub limit_initial: u32,
    /// The limit never exceeds this. Default 4096.
    pub limit_max: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { elasticity: 0.05, limit_initial: 16, limit_max: 4096 }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("knee.elasticity", self.elasticity, 0.01..=0.9)?;
        ConfigError::check_range("knee.limit_max", self.limit_max, 1..=1 << 20)?;
        ConfigError::check_range("knee.limit_initial", self.limit_initial, 1..=self.limit_max)
    }
}

/// What is being done to find the limit.
#[derive(Clone, Debug)]
enum Doing {
    /// It doubles while latencies stay near the lowest: nothing was ever found to queue. Only
    /// once, because later the lowest may itself be slow.
    Starting,
    /// The limit stays until then.
    Resting(Instant),
    /// Two limits take turns.
    Trying(Trial),
}

/// Finds the smallest limit that brings nearly the whole throughput.
#[derive(Clone, Debug)]
pub struct Knee {
    elasticity: f64,
    limit_max: u32,
    kept: u32,
    doing: Doing,
    window: Window,
    lowest: Lowest,
    spread: Spread,
    weights: Weights,
    /// By what factor the next trial differs, and where.
    ratio: f64,
    next: Direction,
    /// Trials in a row that changed nothing.
    unchanged: u32,
    /// Mean latency at the limit that is kept, as of the last decision; 0 before.
    anchor: f64,
    trials: u64,
}

impl Knee {
    /// A policy that has seen nothing.
    pub fn new(config: &Config) -> Self {
        Self {
            elasticity: config.elasticity,
            limit_max: config.limit_max,
            kept: config.limit_initial,
            doing: Doing::Starting,
            window: Window::default(),
            lowest: Lowest::default(),
            spread: Spread::default(),
            weights: Weights::default(),
            ratio: RATIO_MAX,
            next: Direction::Down,
            unchanged: 0,
            anchor: 0.0,
            trials: 0,
        }
    }

    /// The limit that is kept between trials.
    pub fn kept(&self) -> u32 {
        self.kept
    }

    /// Trials begun so far.
    pub fn trials(&self) -> u64 {
        self.trials
    }

    /// What the window brought, if it is over.
    fn step(&mut self, now: Instant) {
        let need = match &self.doing {
            Doing::Trying(trial) => trial.need,
            Doing::Starting | Doing::Resting(_) => WINDOW_MIN.max(self.kept / 2),
        };
        let is_complete = self.window.is_complete(now, need);
        if !is_complete && !self.window.is_idle(need) {
            return;
        }
        self.spread.observe(self.window.spread());
        match core::mem::replace(&mut self.doing, Doing::Starting) {
            Doing::Starting => self.go_on_starting(now, is_complete),
            Doing::Resting(until) => self.go_on_resting(now, until, is_complete),
            Doing::Trying(trial) => self.go_on_trying(now, trial, is_complete),
        }
    }

    fn go_on_starting(&mut self, now: Instant, is_complete: bool) {
        if !is_complete || !self.window.is_loaded() {
            return self.rein_in(now);
        }
        let is_queueing = self.window.sojourn() > CHANGE * self.lowest.value(now);
        if is_queueing || self.kept >= self.limit_max {
            return self.try_another(now);
        }
        self.kept = self.kept.saturating_mul(2).min(self.limit_max);
        self.watch(now);
    }

    fn go_on_resting(&mut self, now: Instant, until: Instant, is_complete: bool) {
        self.doing = Doing::Resting(until);
        if !is_complete || !self.window.is_loaded() {
            return self.rein_in(now);
        }
        if let Some(direction) = self.changed() {
            (self.next, self.ratio, self.unchanged) = (direction, RATIO_MAX, 0);
            self.anchor = self.window.latency();
        } else if now < until {
            return self.watch(now);
        }
        self.try_another(now);
    }

    /// A limit that is not used is not tried, and stays, unless clients give up what queues inside.
    fn rein_in(&mut self, now: Instant) {
        if self.window.is_given_up() && self.is_queueing(now, QUEUEING) {
            self.kept = self.kept.min(self.window.in_flight().max(1));
            (self.next, self.ratio, self.unchanged) = (Direction::Down, RATIO_MAX, 0);
            self.rest(now, now);
        } else {
            self.watch(now);
        }
    }

    /// Where to look if the latency is another than when the limit was decided on.
    fn changed(&self) -> Option<Direction> {
        let change = libm::log(self.window.latency() / self.anchor);
        let noise = 3.0 * self.spread.error(self.window.ended);
        (self.anchor > 0.0 && change.abs() > libm::log(CHANGE) + noise).then_some(if change > 0.0 {
            Direction::Down
        } else {
            Direction::Up
        })
    }

    fn go_on_trying(&mut self, now: Instant, mut trial: Trial, is_complete: bool) {
        if !is_complete {
            // Nobody needs so many any more. If the higher limit made that so, it is worth it.
            let has_helped = trial.is_at_other && trial.direction == Direction::Up;
            return if has_helped { self.take(now, &trial) } else { self.rest(now, now) };
        }
        trial.add(&self.window);
        if !trial.is_at_other {
            self.anchor = trial.latency_kept;
        }
        // By Little's law, fewer are still as many as there is work for.
        let needed = f64::from(self.kept) * self.lowest.value(now) / trial.latency_kept * HEADROOM;
        let is_queueing = f64::from(trial.other) >= needed;
        match trial.verdict(self.elasticity, &self.spread, is_queueing) {
            None => {
                trial.is_at_other = !trial.is_at_other;
                self.doing = Doing::Trying(trial);
                self.watch(now);
            }
            Some(Arm::Other) => self.take(now, &trial),
            Some(Arm::Kept) => self.leave(now, &trial),
        }
    }

    /// The other limit is the better one: a larger step in the same direction comes next.
    fn take(&mut self, now: Instant, trial: &Trial) {
        self.kept = trial.other;
        self.anchor = trial.latency_other;
        self.ratio = (1.0 + (self.ratio - 1.0) * 2.0).min(RATIO_MAX);
        (self.next, self.unchanged) = (trial.direction, 0);
        self.rest(now, now);
    }

    /// The limit stays: a smaller step in the other direction comes next, at once if that has not
    /// been tried.
    fn leave(&mut self, now: Instant, trial: &Trial) {
        self.ratio = (1.0 + (self.ratio - 1.0) / 2.0).max(RATIO_MIN);
        self.next = trial.direction.opposite();
        self.unchanged = self.unchanged.saturating_add(1);
        let took = now.since(trial.began);
        let rest = if self.unchanged >= 2 { took.as_secs_f64() * f64::from(REST) } else { 0.0 };
        self.rest(now, now + core::time::Duration::from_secs_f64(rest.min(REST_MAX)));
    }

    fn rest(&mut self, now: Instant, until: Instant) {
        self.doing = Doing::Resting(until);
        self.watch(now);
    }

    /// Begins a trial beside the limit that is kept, with the window that has just ended as the
    /// first that is counted.
    fn try_another(&mut self, now: Instant) {
        let is_queueing = self.is_queueing(now, QUEUEING);
        // The lowest latency proposes where to look.
        let first = if is_queueing && self.unchanged == 0 { Direction::Down } else { self.next };
        let Some((direction, other)) = [first, first.opposite()]
            .into_iter()
            .find_map(|direction| Some((direction, self.beside(now, direction)?)))
        else {
            return self.rest(now, now);
        };
        let mut trial = Trial::new(now, direction, self.kept, other, &self.spread);
        trial.add(&self.window);
        trial.is_at_other = true;
        self.anchor = trial.latency_kept;
        self.trials += 1;
        self.doing = Doing::Trying(trial);
        self.watch(now);
    }

    /// Another limit in that direction, if there is one.
    fn beside(&self, now: Instant, direction: Direction) -> Option<u32> {
        let kept = f64::from(self.kept);
        let other = match direction {
            Direction::Up => (libm::ceil(kept * self.ratio) as u32).min(self.limit_max),
            Direction::Down => {
                let step = (libm::floor(kept / self.ratio) as u32).min(self.kept - 1);
                let queued = self.window.latency() / self.lowest.value(now);
                let little = libm::ceil(kept / queued * HEADROOM) as u32;
                let is_far = self.is_queueing(now, QUEUEING) && little < step;
                if is_far { little.max(self.kept / 4).max(1) } else { step }
            }
        };
        (other >= 1 && other != self.kept).then_some(other)
    }

    /// Whether latencies of the window are so many times the lowest of late.
    fn is_queueing(&self, now: Instant, factor: f64) -> bool {
        self.window.latency() > factor * self.lowest.value(now)
    }

    /// Begins the next window, which counts once the limit shows in what ends.
    fn watch(&mut self, now: Instant) {
        if !matches!(self.doing, Doing::Trying(_)) {
            self.weights.settle();
        }
        let latency = self.window.latency_or(self.anchor);
        self.window.begin(now, self.limit(), latency);
    }

    fn is_at_kept(&self) -> bool {
        !matches!(&self.doing, Doing::Trying(trial) if trial.is_at_other)
    }
}

impl LimitPolicy for Knee {
    fn on_start(&mut self, now: Instant, in_flight: u32) {
        self.window.pass(now, in_flight);
    }

    fn on_sample(&mut self, now: Instant, sample: &Sample) {
        let latency = sample.latency.as_secs_f64().max(1e-9);
        self.lowest.observe(now, sample.in_flight_start, latency);
        if self.is_at_kept() {
            self.weights.observe(sample.class, latency);
        }
        self.window.pass(now, sample.in_flight);
        self.window.on_served(now, latency, self.weights.of(sample.class));
        self.window.pass(now, sample.in_flight.saturating_sub(1));
        self.step(now);
    }

    fn on_failure(&mut self, now: Instant, failure: &Failure) {
        if failure.kind == FailureKind::Cancelled {
            let latency = failure.latency.as_secs_f64().max(1e-9);
            self.window.pass(now, failure.in_flight);
            self.window.on_abandoned(now, latency, self.weights.of(failure.class));
        }
        self.window.pass(now, failure.in_flight.saturating_sub(1));
        self.step(now);
    }

    fn limit(&self) -> u32 {
        match &self.doing {
            Doing::Trying(trial) if trial.is_at_other => trial.other,
            _ => self.kept,
        }
    }
}

/// How much latencies differ within a window: the square of their deviation over their mean.
///
/// It stands for how unevenly requests end, on which the number of samples depends that two
/// throughputs need to be told apart. For one place it is just that; for many it is as long as
/// their times are independent, and too much where one queue sets the pace.
#[derive(Clone, Debug)]
struct Spread(Ewma);

impl Default for Spread {
    fn default() -> Self {
        Self(Ewma::new(0.125))
    }
}

impl Spread {
    fn observe(&mut self, of_window: f64) {
        self.0.observe(of_window);
    }

    /// Not below 0.03, since a window may just catch or miss one, and not above 16, beyond which
    /// nothing could be decided in time. As if exponential before the first window.
    fn value(&self) -> f64 {
        self.0.value().unwrap_or(1.0).clamp(0.03, 16.0)
    }

    /// Relative standard error of a mean over, or a rate from, so many.
    fn error(&self, count: u32) -> f64 {
        libm::sqrt(self.value() / f64::from(count.max(1)))
    }
}

/// What a request of each class counts for: its usual latency.
///
/// Which classes happen to end in a window would else look like a change of throughput. They are
/// learnt at the limit that is kept only, and stay as they are during a trial: else a limit under
/// which all takes longer would make its own throughput count for more.
#[derive(Clone, Debug)]
struct Weights {
    latencies: [Ewma; Class::COUNT],
    settled: [f64; Class::COUNT],
}

impl Default for Weights {
    fn default() -> Self {
        let latencies = core::array::from_fn(|_| Ewma::new(1.0 / 256.0));
        Self { latencies, settled: [1.0; Class::COUNT] }
    }
}

impl Weights {
    fn observe(&mut self, class: Class, latency: f64) {
        self.latencies[class.row()].observe(latency);
    }

    /// What was learnt counts from now on. Only ratios matter, and a class that was never seen
    /// counts as much as the first.
    fn settle(&mut self) {
        let first = self.latencies.iter().find_map(Ewma::value).unwrap_or(1.0);
        for (weight, latency) in self.settled.iter_mut().zip(&self.latencies) {
            *weight = latency.value().unwrap_or(first);
        }
    }

    fn of(&self, class: Class) -> f64 {
        self.settled[class.row()]
    }
}
