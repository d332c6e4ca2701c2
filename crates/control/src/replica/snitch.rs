//! Cassandra's dynamic snitch: replicas in the order of their recent median latencies.

use alloc::vec::Vec;
use core::time::Duration;

use crate::random::Rng;
use crate::time::Instant;

/// Scores are computed this often (`dynamic_snitch_update_interval`).
const UPDATE: Duration = Duration::from_millis(100);

/// All latencies are forgotten this often, so that a replica that was slow is asked again
/// (`dynamic_snitch_reset_interval`).
const RESET: Duration = Duration::from_secs(600);

/// A replica is passed over only when its score is worse by this part
/// (`dynamic_snitch_badness_threshold`).
const BADNESS: f64 = 0.1;

/// Recent median latencies of the replicas, in seconds. Cassandra divides them by the largest,
/// which makes no difference to what is compared.
#[derive(Clone, Debug)]
pub(super) struct Snitch {
    reservoirs: Vec<Reservoir>,
    scores: Vec<f64>,
    updated: Instant,
    reset: Instant,
}

impl Snitch {
    pub(super) fn new(replicas: usize) -> Self {
        Self {
            reservoirs: (0..replicas).map(|_| Reservoir::default()).collect(),
            scores: alloc::vec![0.0; replicas],
            updated: Instant::ORIGIN,
            reset: Instant::ORIGIN,
        }
    }

    /// One more replica.
    pub(super) fn add(&mut self) {
        self.reservoirs.push(Reservoir::default());
        self.scores.push(0.0);
    }

    /// What is known of a replica does not count any more.
    pub(super) fn forget(&mut self, replica: usize) {
        self.reservoirs[replica] = Reservoir::default();
        self.scores[replica] = 0.0;
    }

    pub(super) fn observe(
        &mut self,
        now: Instant,
        replica: usize,
        latency: Duration,
        rng: &mut Rng,
    ) {
        self.reservoirs[replica].observe(now, latency, rng);
    }

    /// The replica to ask, of `open`, whose first one would have its turn.
    pub(super) fn choose(&mut self, now: Instant, open: &[usize]) -> usize {
        self.update(now);
        let best = open.iter().copied().min_by(|a, b| self.scores[*a].total_cmp(&self.scores[*b]));
        let (first, best) = (open[0], best.expect("somebody is open"));
        let worst_allowed = self.scores[best] * (1.0 + BADNESS);
        if self.scores[first] > worst_allowed { best } else { first }
    }

    fn update(&mut self, now: Instant) {
        if now.since(self.reset) >= RESET {
            self.reset = now;
            self.reservoirs.fill(Reservoir::default());
        }
        if now.since(self.updated) < UPDATE {
            return;
        }
        self.updated = now;
        let medians = self.reservoirs.iter().map(|reservoir| reservoir.median(now).unwrap_or(0.0));
        self.scores.clear();
        self.scores.extend(medians);
    }
}

/// Samples that a reservoir keeps.
const SAMPLES: usize = 100;

/// How much less an older sample weighs: e^-0.75 per second.
const DECAY: f64 = 0.75;

/// A sample of the latencies, in which recent ones are more likely (Cormode et al., ICDE '09).
#[derive(Clone, Debug, Default)]
struct Reservoir {
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Logarithm of its weight over a uniform variable: the highest ones stay.
    rank: f64,
    at: Instant,
    seconds: f64,
}

impl Reservoir {
    fn observe(&mut self, now: Instant, latency: Duration, rng: &mut Rng) {
        let chance = rng.uniform().max(f64::MIN_POSITIVE);
        let age = now.since(Instant::ORIGIN).as_secs_f64();
        let rank = DECAY * age - libm::log(chance);
        let sample = Sample { rank, at: now, seconds: latency.as_secs_f64() };
        if self.samples.len() < SAMPLES {
            self.samples.push(sample);
            return;
        }
        let lowest = self.samples.iter_mut().min_by(|a, b| a.rank.total_cmp(&b.rank));
        let lowest = lowest.expect("the reservoir is full");
        if sample.rank > lowest.rank {
            *lowest = sample;
        }
    }

    /// The latency that half of the weight does not exceed, in seconds.
    fn median(&self, now: Instant) -> Option<f64> {
        let weight = |sample: &Sample| libm::exp(-DECAY * now.since(sample.at).as_secs_f64());
        let mut sorted = self.samples.clone();
        sorted.sort_unstable_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let mut left = sorted.iter().map(weight).sum::<f64>() / 2.0;
        let at = sorted.iter().find(|sample| {
            left -= weight(sample);
            left <= 0.0
        });
        at.or(sorted.last()).map(|sample| sample.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    #[test]
    fn a_slow_replica_is_passed_over_and_a_little_slower_one_is_not() {
        let (snitch, rng) = (&mut Snitch::new(3), &mut Rng::new(1));
        for (replica, latency) in [(0, 30), (1, 10), (2, 11)] {
            (0..50).for_each(|_| snitch.observe(at(1), replica, MS(latency), rng));
        }
        assert_eq!(snitch.choose(at(1), &[0, 1, 2]), 1);
        assert_eq!(snitch.choose(at(1), &[2, 0, 1]), 2, "a tenth is no reason");
        assert_eq!(snitch.choose(at(1), &[0]), 0, "there is no other");
    }

    #[test]
    fn what_happened_since_the_last_update_is_not_known_yet() {
        let (snitch, rng) = (&mut Snitch::new(2), &mut Rng::new(1));
        for replica in 0..2 {
            snitch.observe(at(1), replica, MS(1), rng);
        }
        assert_eq!(snitch.choose(at(1), &[0, 1]), 0);
        (0..100).for_each(|_| snitch.observe(at(1), 0, MS(50), rng));
        assert_eq!(snitch.choose(at(1) + MS(99), &[0, 1]), 0);
        assert_eq!(snitch.choose(at(1) + MS(100), &[0, 1]), 1);
        assert_eq!(snitch.choose(at(601), &[0, 1]), 0, "all is forgotten after ten minutes");
    }

    #[test]
    fn recent_latencies_weigh_more() {
        let (mut reservoir, rng) = (Reservoir::default(), &mut Rng::new(1));
        assert_eq!(reservoir.median(at(1)), None);
        (0..100).for_each(|_| reservoir.observe(at(1), MS(1), rng));
        (0..30).for_each(|_| reservoir.observe(at(6), MS(9), rng));
        assert_eq!(reservoir.median(at(6)), Some(0.009));
        assert_eq!(reservoir.samples.len(), SAMPLES);
    }
}
