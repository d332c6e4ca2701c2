//! The network: by how much the latest of a session's messages come later than the earliest.
//!
//! Sender and receiver have clocks of their own, so that the time of one way is known but for a
//! constant. The earliest message of the last seconds tells that constant; what others took longer
//! is the network's, and the sender's own after it had stamped them. Two clocks do not run equally
//! fast either: by how much the constant changes is taken out.

use core::time::Duration;

use crate::estimate::{Ewma, WindowedMin};
use crate::time::{Instant, nanos};

/// For how long the earliest message counts: a clock that was set is forgotten after it.
const WINDOW: Duration = Duration::from_secs(10);

/// The earliest messages of two such times tell by how much a clock is faster than the other.
const SLOT: Duration = Duration::from_secs(1);

/// Clocks that nobody corrects differ by up to a tenth of this; one that is brought back to the
/// right time slowly, by half of it (`adjtime`). What is more was set.
const DRIFT_MAX: f64 = 1e-3;

/// Weight of the newest difference in their mean: what stays for some slots is the clocks'.
const DRIFT_WEIGHT: f64 = 0.125;

/// Which part of the messages comes no later than the estimate.
const QUANTILE: f64 = 0.99;

/// By which part of itself the estimate moves, weighted by how seldom that way is right, and by how
/// much at least, in nanoseconds.
const STEP: f64 = 1.0 / 16.0;
const STEP_LEAST: f64 = 200.0;

/// How late the latest percent of a session's messages come.
///
/// The estimate goes up by 99 parts where a message is later and down by one where it is not, and
/// so stays where one in a hundred is later (frugal streaming; Ma, Muthukrishnan and Sandler,
/// 2013): a session costs a few bytes and not a window of samples.
#[derive(Clone, Debug)]
pub struct Lateness {
    drift: Drift,
    earliest: WindowedMin,
    p99: f64,
}

/// By how much one clock has gone ahead of another because it is faster.
#[derive(Clone, Debug)]
struct Drift {
    /// When this slot began, and its earliest message.
    slot: Option<(Instant, Earliest)>,
    /// The earliest message of the slot before.
    before: Option<Earliest>,
    /// Nanoseconds in a nanosecond.
    rate: Ewma,
    /// Nanoseconds until `counted`.
    sum: f64,
    counted: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Earliest {
    at: Instant,
    way: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { drift: Drift::new(), earliest: WindowedMin::new(WINDOW), p99: 0.0 }
    }
}

impl Lateness {
    /// A message was sent at `sent_ns` of one clock and received at `received_ns` of another. One
    /// that is later than `limit` tells of a clock that was set or of a sender that stood still,
    /// and is left out.
    pub fn observe(&mut self, now: Instant, sent_ns: u64, received_ns: u64, limit: Duration) {
        // The difference may be negative, and keeps its order as a number without a sign.
        let way = self.drift.without(now, received_ns.wrapping_sub(sent_ns)) ^ (1 << 63);
        self.earliest.observe(now, way);
        let late = way - self.earliest.value().map_or(way, |earliest| earliest.min(way));
        if late > nanos(limit) {
            return;
        }
        let step = (self.p99 * STEP).max(STEP_LEAST);
        if late as f64 > self.p99 {
            self.p99 += step * QUANTILE;
        } else {
            self.p99 = (self.p99 - step * (1.0 - QUANTILE)).max(0.0);
        }
    }

    /// By how much 99 % of the messages are later than the earliest, at most.
    pub fn p99(&self) -> Duration {
        Duration::from_nanos(self.p99 as u64)
    }
}

impl Drift {
    fn new() -> Self {
        let rate = Ewma::new(DRIFT_WEIGHT);
        Self { slot: None, before: None, rate, sum: 0.0, counted: Instant::ORIGIN }
    }

    /// The time that a message took by two clocks, less what they have drifted apart by.
    fn without(&mut self, now: Instant, way: u64) -> u64 {
        let newest = Earliest { at: now, way };
        match &mut self.slot {
            Some((begun, earliest)) if now.since(*begun) < SLOT => {
                if newest.since(earliest) < 0 {
                    *earliest = newest;
                }
            }
            slot => {
                if let Some((_, earliest)) = slot.replace((now, newest)) {
                    self.learn(earliest);
                }
            }
        }
        self.sum += self.rate.value().unwrap_or(0.0) * nanos(now.since(self.counted)) as f64;
        self.counted = now;
        way.wrapping_sub(self.sum as i64 as u64)
    }

    /// A slot has ended, whose earliest message was this one.
    fn learn(&mut self, earliest: Earliest) {
        if let Some(before) = self.before.replace(earliest) {
            let time = nanos(earliest.at.since(before.at)).max(1);
            let rate = earliest.since(&before) as f64 / time as f64;
            if rate.abs() <= DRIFT_MAX {
                self.rate.observe(rate);
            }
        }
    }
}

impl Earliest {
    /// By how much longer it took, in nanoseconds. Clocks may be apart by anything.
    fn since(&self, other: &Self) -> i64 {
        self.way.wrapping_sub(other.way) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    const MS: Duration = Duration::from_millis(1);

    /// Messages that take 50 µs and something random, by a clock that is off.
    fn heard(offset: u64, mean_us: f64) -> Duration {
        let (mut lateness, mut rng) = (Lateness::default(), Rng::new(3));
        for i in 0..20_000_u64 {
            let sent = 1_000_000_000 + i * 100_000;
            let way = 50_000.0 + rng.exponential() * mean_us * 1e3;
            let received = sent.wrapping_add(offset).wrapping_add(way as u64);
            lateness.observe(Instant::from_micros(i * 100), sent, received, 10 * MS);
        }
        lateness.p99()
    }

    #[test]
    fn the_tail_is_known_whatever_the_clocks_say() {
        // The 99th percentile of an exponential distribution is 4.6 times its mean.
        for offset in [0, 1 << 40, 0_u64.wrapping_sub(1 << 40)] {
            let p99 = heard(offset, 20.0).as_secs_f64() * 1e6;
            assert!((70.0..120.0).contains(&p99), "{p99} us at an offset of {offset}");
        }
        assert!(heard(0, 0.0) < Duration::from_micros(1));
    }

    /// A minute of messages by a clock that is slower by so many parts in a million.
    fn heard_from_a_slow_clock(ppm: i64) -> Duration {
        let (mut lateness, mut rng) = (Lateness::default(), Rng::new(5));
        for i in 0..60_000_i64 {
            let now = 1_000_000_000 + i * 1_000_000;
            let way = 50_000.0 + rng.exponential() * 20e3;
            let sent = now - now / 1_000_000 * ppm;
            let at = Instant::from_nanos(now as u64);
            lateness.observe(at, sent as u64, now as u64 + way as u64, MS);
        }
        lateness.p99()
    }

    #[test]
    fn clocks_may_run_at_different_speeds() {
        for ppm in [0, 10, -10, 100, -100, 500, -500] {
            let p99 = heard_from_a_slow_clock(ppm).as_secs_f64() * 1e6;
            assert!((60.0..150.0).contains(&p99), "{p99} us at {ppm} ppm");
        }
    }

    #[test]
    fn a_clock_that_was_set_tells_nothing() {
        let mut lateness = Lateness::default();
        let mut hear = |at: u64, received: u64| {
            lateness.observe(Instant::from_micros(at), 0, received, MS);
            lateness.p99()
        };
        assert_eq!(hear(0, 0), Duration::ZERO);
        assert_eq!(hear(1, u64::MAX / 2 - 1), Duration::ZERO);
        assert!(hear(2, 900_000) > Duration::ZERO, "a late one counts");
    }
}
