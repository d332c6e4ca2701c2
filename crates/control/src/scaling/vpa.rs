//! What users have today: the vertical pod autoscaler of Kubernetes.
//!
//! A histogram of a container's CPU usage, in which old samples weigh less, gives a percentile;
//! with a margin that is the target. Nothing else is looked at: no latency, no waits. Constants are
//! the defaults of its recommender and updater (`vertical-pod-autoscaler/docs/flags.md`, 1.5.1),
//! and the histogram is built as theirs (`pkg/recommender/model/aggregations_config.go`).
//!
//! What it cannot see is what a quota withholds: usage never exceeds what a container has, so that
//! it grows by the margin, step by step.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::Reason;
use super::intake::{Measured, check_duration};
use super::ledger::Ledger;
use super::roster::Roster;
use super::scaler::Policy;
use crate::config::{ConfigError, duration};
use crate::time::{Instant, nanos};

/// Parameters of the autoscaler, each with the flag that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// From one sample, and one decision, to the next. Default 1m (`recommender-interval`,
    /// `updater-interval`). 1ms to 1h.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// Time in which a sample loses half of its weight. Default 24h, written 1440m
    /// (`cpu-histogram-decay-half-life`). 1s to 1000 days.
    #[serde(with = "duration")]
    pub half_life: Duration,
    /// Percentile of usage that is the target. Default 0.9 (`target-cpu-percentile`). 0 to 1.
    pub percentile: f64,
    /// Percentile below which a container has too little. Default 0.5
    /// (`recommendation-lower-bound-cpu-percentile`). 0 to `percentile`.
    pub lower: f64,
    /// Percentile above which it has too much. Default 0.95
    /// (`recommendation-upper-bound-cpu-percentile`). `percentile` to 1.
    pub upper: f64,
    /// Share of usage that is added to all three. Default 0.15 (`recommendation-margin-fraction`).
    /// 0 to 10.
    pub margin: f64,
    /// History that makes the two bounds certain: with as much, the upper one is twice as high,
    /// with less still higher. Default 24h (`confidence-interval-cpu`). 1s to 1000 days.
    #[serde(with = "duration")]
    pub confidence: Duration,
    /// A container that has lived as long is changed also within the bounds, if the target differs
    /// by more than `change_min`. Default 12h
    /// (`in-recommendation-bounds-eviction-lifetime-threshold`). 0s to 1000 days.
    #[serde(with = "duration")]
    pub lifetime: Duration,
    /// Relative difference below which that is not done. Default 0.1 (`pod-update-threshold`). 0 to
    /// 10.
    pub change_min: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interval: Duration::from_mins(1),
            half_life: Duration::from_hours(24),
            percentile: 0.9,
            lower: 0.5,
            upper: 0.95,
            margin: 0.15,
            confidence: Duration::from_hours(24),
            lifetime: Duration::from_hours(12),
            change_min: 0.1,
        }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        use ConfigError as E;
        let (ms, second) = (Duration::from_millis(1), Duration::from_secs(1));
        let (hour, most) = (Duration::from_hours(1), Duration::from_hours(24_000));
        check_duration("vpa.interval", self.interval, ms, hour)?;
        check_duration("vpa.half_life", self.half_life, second, most)?;
        E::check_range("vpa.percentile", self.percentile, 0.0..=1.0)?;
        E::check_range("vpa.lower", self.lower, 0.0..=self.percentile)?;
        E::check_range("vpa.upper", self.upper, self.percentile..=1.0)?;
        E::check_range("vpa.margin", self.margin, 0.0..=10.0)?;
        check_duration("vpa.confidence", self.confidence, second, most)?;
        check_duration("vpa.lifetime", self.lifetime, Duration::ZERO, most)?;
        E::check_range("vpa.change_min", self.change_min, 0.0..=10.0)
    }

    pub(super) fn policy(&self) -> Box<dyn Policy> {
        Box::new(Vpa { config: *self, histories: Roster::default() })
    }
}

#[derive(Debug)]
struct Vpa {
    config: Config,
    histories: Roster<History>,
}

/// Each bucket is wider than the one before it by this fraction.
const GROWTH: f64 = 0.05;

/// Width of the first bucket, units.
const FIRST: f64 = 0.01;

/// Buckets up to 1000 units; what is more counts in the last.
const BUCKETS: usize = 176;

/// The least weight of a sample. Others weigh as much as the container has.
const WEIGHT_MIN: f64 = 0.1;

/// A decaying histogram of one container's usage.
#[derive(Clone, Debug)]
struct History {
    began: Instant,
    last: Instant,
    weights: Vec<f64>,
}

impl History {
    fn new(now: Instant) -> Self {
        Self { began: now, last: now, weights: vec![0.0; BUCKETS] }
    }

    fn observe(&mut self, now: Instant, units: f64, weight: f64, half_life: Duration) {
        let age = nanos(now.since(self.last)) as f64 / nanos(half_life) as f64;
        let decay = libm::exp2(-age);
        self.weights.iter_mut().for_each(|weight| *weight *= decay);
        self.last = now;
        self.weights[bucket(units)] += weight.max(WEIGHT_MIN);
    }

    /// The end of the bucket in which the percentile lies. `None` without samples.
    fn percentile(&self, percentile: f64) -> Option<f64> {
        let total: f64 = self.weights.iter().sum();
        if total <= 0.0 {
            return None;
        }
        let mut sum = 0.0;
        let found = self.weights.iter().position(|weight| {
            sum += weight;
            *weight > 0.0 && sum >= percentile * total
        });
        // By rounding, all together may be a little less than the total.
        let last = || self.weights.iter().rposition(|weight| *weight > 0.0);
        Some(start(found.or_else(last)? + 1))
    }
}

/// Where bucket `n` begins, units.
fn start(n: usize) -> f64 {
    FIRST * libm::expm1(libm::log1p(GROWTH) * n as f64) / GROWTH
}

fn bucket(units: f64) -> usize {
    let n = libm::log1p(units.max(0.0) * GROWTH / FIRST) / libm::log1p(GROWTH);
    // A cast saturates, and takes a NaN to zero.
    (n as usize).min(BUCKETS - 1)
}

/// What a container should have, in units.
#[derive(Clone, Copy, Debug)]
struct Advice {
    lower: f64,
    target: f64,
    upper: f64,
}

impl Vpa {
    fn advice(&self, now: Instant, at: usize) -> Option<Advice> {
        let (config, history) = (&self.config, &self.histories[at]);
        let of = |percentile| Some(history.percentile(percentile)? * (1.0 + config.margin));
        // The bounds are the wider the less is known (`estimator.go`).
        let lived = nanos(now.since(history.began)) as f64 / nanos(config.confidence) as f64;
        let below = 1.0 + 0.001 / lived;
        Some(Advice {
            lower: of(config.lower)? / (below * below),
            target: of(config.percentile)?,
            upper: of(config.upper)? * (1.0 + 1.0 / lived),
        })
    }
}

impl Policy for Vpa {
    fn decide(&mut self, now: Instant, containers: &[Measured], ledger: &mut Ledger<'_>) {
        self.histories.align(containers.iter().map(|it| it.id), |_| History::new(now));
        let mut wishes = Vec::new();
        for (at, container) in containers.iter().enumerate() {
            let Some(used) = container.used else { continue };
            let history = &mut self.histories[at];
            let units = f64::from(container.units);
            history.observe(now, used.units, units, self.config.half_life);
            let began = history.began;
            let Some(advice) = self.advice(now, at) else { continue };
            let is_within = (advice.lower..=advice.upper).contains(&units);
            let is_settled = now.since(began) < self.config.lifetime
                || libm::fabs(advice.target - units) < self.config.change_min * units;
            if is_within && is_settled {
                continue;
            }
            let wanted = (libm::ceil(advice.target) as u32).clamp(container.floor, container.limit);
            let reason = Reason::Usage(advice.target);
            if wanted < container.units {
                ledger.take(at, container.units - wanted, reason);
            } else if wanted > container.units {
                wishes.push((at, wanted - container.units, reason));
            }
        }
        // The largest relative change is first.
        let change = |wish: &(usize, u32, Reason)| {
            f64::from(wish.1) / f64::from(containers[wish.0].units.max(1))
        };
        wishes.sort_by(|a, b| change(b).total_cmp(&change(a)).then(a.0.cmp(&b.0)));
        for (at, wanted, reason) in wishes {
            let given = ledger.give(at, wanted, reason);
            ledger.nominate(at, 1, None, given < wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::World;
    use super::*;

    #[test]
    fn buckets_are_those_of_the_recommender() {
        assert_eq!(start(0), 0.0);
        assert!((start(1) - 0.01).abs() < 1e-12 && (start(2) - 0.0205).abs() < 1e-12);
        assert!(start(BUCKETS - 1) >= 1_000.0);
        for units in [0.0, 0.005, 0.5, 3.2, 999.0] {
            let n = bucket(units);
            assert!(start(n) <= units && units < start(n + 1), "{units}: {n}");
        }
        assert_eq!((bucket(1e9), bucket(f64::NAN), bucket(-1.0)), (BUCKETS - 1, 0, 0));
    }

    #[test]
    fn old_samples_lose_half_of_their_weight_in_a_half_life() {
        let hour = Duration::from_hours(1);
        let mut history = History::new(Instant::ORIGIN);
        history.observe(Instant::ORIGIN, 1.0, 1.0, hour);
        history.observe(Instant::ORIGIN + hour, 4.0, 0.5, hour);
        assert!((history.weights[bucket(1.0)] - 0.5).abs() < 1e-12);
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 0.051;
        assert!(near(history.percentile(0.5).unwrap(), 1.0));
        assert!(near(history.percentile(0.51).unwrap(), 4.0));
        assert!(near(history.percentile(1.0).unwrap(), 4.0));
    }

    #[test]
    fn grows_by_its_margin_and_shrinks_when_much_is_unused() {
        let config = super::super::Config::named("vpa").unwrap();
        let mut world = World::new(&config, 20, &[4]);
        let mut cpu = Duration::ZERO;
        let mut minute = |world: &mut World, used: f64| {
            cpu += Duration::from_mins(1).mul_f64(used);
            world.snapshot.containers[0].cpu_time = Some(cpu);
            world.now = world.now + Duration::from_mins(1) - Duration::from_millis(10);
            world.step();
            world.units()[0]
        };
        minute(&mut world, 0.0);
        // It uses all that it has. The target is 15 % more, but at first the lower bound is wide:
        // after 16 minutes it has (1 + 0.001 / 0.0111)^-2 = 84 % of its height.
        let grown = (1..60).find(|_| minute(&mut world, 4.0) > 4);
        assert_eq!((grown, world.units()[0]), (Some(16), 5));
        // Then it uses hardly anything. The upper bound is wide for hours.
        let shrunk = (1..12 * 60).find(|_| minute(&mut world, 0.5) < 5).expect("in half a day");
        assert!((3 * 60..6 * 60).contains(&shrunk), "after {shrunk} minutes");
        assert_eq!(world.units(), [1]);
    }
}
