//! Whether some requests take longer than others that run at the same time.
//!
//! Under overload of something that all share, all latencies rise together. So what is compared is
//! by how much a latency differs from those that ended just before it, on a logarithmic scale
//! (twice as long is the same step everywhere), and only within windows.

/// Latencies are told apart in steps of 1/8 on the natural logarithm, four to each side of their
/// running mean: up to a factor of 50.
const BINS: usize = 64;
const BINS_PER_UNIT: f64 = 8.0;

/// The running mean forgets all but about so many of the latest.
const BASELINE: f64 = 1.0 / 32.0;

/// Requests on each side without which nothing is compared.
const SAMPLES_MIN: u32 = 20;

/// Two kinds differ if one takes this much longer, on average over logarithms: a factor of 1.3.
/// Less is real, often, and not worth a class.
const EFFECT_MIN: f64 = 0.262;

/// The least distance of two distributions (of Kolmogorov and Smirnov) that is worth a class.
const DISTANCE_MIN: f64 = 0.15;

/// Part of its requests by which one kind must be refused more often than the other.
const REFUSED_MIN: f64 = 0.1;

/// How often one comparison of all in a window may be wrong by chance.
const WRONG: f64 = 1e-3;

/// Latencies relative to what was usual when they were taken, and refusals behind.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    bins: [u32; BINS],
    sum: f64,
    served: u32,
    refused: u32,
}

impl Default for Sample {
    fn default() -> Self {
        Self { bins: [0; BINS], sum: 0.0, served: 0, refused: 0 }
    }
}

/// How some requests differ from the rest, in one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    /// Mean logarithm of how many times as long they take.
    pub(super) effect: f64,
    /// How much larger a part of them is refused behind.
    pub(super) refused: f64,
    /// Their part of all requests.
    pub(super) share: f64,
    /// What is proved: 1 that they are slower or refused more often, −1 the contrary, 0 nothing.
    pub(super) proved: i8,
}

impl Sample {
    pub(super) fn on_served(&mut self, residual: f64) {
        let bin = libm::floor(residual * BINS_PER_UNIT) + (BINS / 2) as f64;
        self.bins[bin.clamp(0.0, (BINS - 1) as f64) as usize] += 1;
        self.sum += residual;
        self.served += 1;
    }

    pub(super) fn on_refused(&mut self) {
        self.refused += 1;
    }

    pub(super) fn len(&self) -> u32 {
        self.served + self.refused
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (bin, more) in self.bins.iter_mut().zip(&other.bins) {
            *bin += more;
        }
        self.sum += other.sum;
        self.served += other.served;
        self.refused += other.refused;
    }

    /// How these differ from the rest of `all`, which contain them, if `tested` such comparisons
    /// are made in the window. `None` if there are too few on one side.
    pub(super) fn against_rest(&self, all: &Self, tested: u64) -> Option<Difference> {
        let rest = all.len().saturating_sub(self.len());
        if self.len() < SAMPLES_MIN || rest < SAMPLES_MIN {
            return None;
        }
        let rest_served = all.served.saturating_sub(self.served);
        let mut difference = Difference {
            effect: 0.0,
            refused: 0.0,
            share: f64::from(self.len()) / f64::from(all.len()),
            proved: 0,
        };
        // Kolmogorov and Smirnov's c(α), where α is shared by all that is tested (Bonferroni): of
        // a million values some differ by chance.
        let proof = libm::sqrt(libm::log(2.0 * tested as f64 / WRONG) / 2.0);
        if self.served >= SAMPLES_MIN && rest_served >= SAMPLES_MIN {
            let (n, m) = (f64::from(self.served), f64::from(rest_served));
            difference.effect = self.sum / n - (all.sum - self.sum) / m;
            let distance = self.distance(all, n, m);
            let is_proved = distance * libm::sqrt(n * m / (n + m)) >= proof;
            if is_proved && distance >= DISTANCE_MIN && difference.effect.abs() >= EFFECT_MIN {
                difference.proved = if difference.effect > 0.0 { 1 } else { -1 };
            }
        }
        let (n, m) = (f64::from(self.len()), f64::from(rest));
        let part = f64::from(self.refused) / n;
        let rest_part = f64::from(all.refused.saturating_sub(self.refused)) / m;
        difference.refused = part - rest_part;
        let pooled = f64::from(all.refused) / (n + m);
        let error = libm::sqrt(pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m));
        // The quantile of the normal distribution for the same α is about twice that proof.
        if difference.refused.abs() >= (2.0 * proof * error).max(REFUSED_MIN) {
            difference.proved = if difference.refused > 0.0 { 1 } else { -1 };
        }
        Some(difference)
    }

    /// The largest distance of the two distributions.
    fn distance(&self, all: &Self, n: f64, m: f64) -> f64 {
        let (mut these, mut rest, mut most) = (0, 0, 0.0_f64);
        for (bin, of_all) in self.bins.iter().zip(&all.bins) {
            these += bin;
            rest += of_all - bin;
            most = most.max((f64::from(these) / n - f64::from(rest) / m).abs());
        }
        most
    }
}

impl Difference {
    /// How much is gained by telling them apart: what of the variance of the logarithms lies
    /// between the two (as in regression trees, CART), where a refusal counts as a factor of e².
    pub(super) fn gain(&self) -> f64 {
        let apart = self.effect.abs().max(2.0 * self.refused.abs());
        self.share * (1.0 - self.share) * apart * apart
    }
}

/// What is usual: a running mean of logarithms of latencies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Baseline {
    mean: f64,
    count: u32,
}

impl Baseline {
    /// How far the logarithm of a latency lies from those just before it.
    pub(super) fn residual(&mut self, logarithm: f64) -> f64 {
        if self.count == 0 {
            self.mean = logarithm;
        }
        self.count = self.count.saturating_add(1);
        let residual = logarithm - self.mean;
        self.mean += residual * BASELINE.max(1.0 / f64::from(self.count));
        residual
    }
}

/// Whether the same was proved in most of the latest windows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Votes {
    slower: u8,
    faster: u8,
    unheard: u8,
    /// The newest differences, averaged.
    gain: f64,
    pub(super) effect: f64,
    pub(super) refused: f64,
}

/// Votes that are counted, and how many of them must agree.
const HEARD: u8 = 0b1111;
const AGREE: u32 = 3;

/// Windows in a row without enough samples after which votes no longer count.
const UNHEARD_MAX: u8 = 8;

impl Votes {
    /// One more window has ended.
    pub(super) fn on_window(&mut self, difference: Option<Difference>) {
        let Some(difference) = difference else {
            self.unheard = self.unheard.saturating_add(1);
            if self.unheard > UNHEARD_MAX {
                *self = Self::default();
            }
            return;
        };
        self.unheard = 0;
        self.slower = (self.slower << 1 | u8::from(difference.proved > 0)) & HEARD;
        self.faster = (self.faster << 1 | u8::from(difference.proved < 0)) & HEARD;
        self.gain += (difference.gain() - self.gain) / 2.0;
        self.effect += (difference.effect - self.effect) / 2.0;
        self.refused += (difference.refused - self.refused) / 2.0;
    }

    /// What is gained by telling these apart; `None` while it is not certain.
    pub(super) fn gain(&self) -> Option<f64> {
        let agree = self.slower.count_ones().max(self.faster.count_ones());
        (agree >= AGREE).then_some(self.gain)
    }

    pub(super) fn are_slower(&self) -> bool {
        self.slower.count_ones() > self.faster.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    /// Windows of `n` requests each, of which every second one takes `factor` times as long, and
    /// all of which rise and fall together: in how many is a difference proved?
    fn proved(factor: f64, windows: u32, n: u32, tested: u64) -> u32 {
        let rng = &mut Rng::new(5);
        let mut baseline = Baseline::default();
        let mut count = 0;
        for window in 0..windows {
            let (mut all, mut some) = (Sample::default(), Sample::default());
            for i in 0..n {
                let load = 1.0 + 20.0 * f64::from((window * n + i) % 1000) / 1000.0;
                let takes = if i % 2 == 0 { factor } else { 1.0 };
                let residual = baseline.residual(libm::log(rng.exponential() * takes * load));
                all.on_served(residual);
                if i % 2 == 0 {
                    some.on_served(residual);
                }
            }
            let difference = some.against_rest(&all, tested).unwrap();
            count += u32::from(difference.proved != 0);
        }
        count
    }

    #[test]
    fn proves_a_difference_and_none_where_all_rises_together() {
        assert_eq!(proved(1.0, 1_000, 500, 1), 0);
        assert_eq!(proved(2.0, 100, 1_000, 100), 100);
        assert_eq!(proved(0.5, 100, 1_000, 100), 100);
    }

    #[test]
    fn needs_more_proof_the_more_is_tested() {
        let [few, more, many] = [1, 100, 1_000_000_000].map(|tested| proved(1.8, 200, 500, tested));
        assert!(few > more && more > many, "{few} {more} {many}");
    }

    #[test]
    fn refusals_behind_are_a_difference() {
        let (mut all, mut some) = (Sample::default(), Sample::default());
        for i in 0..200 {
            let sample = if i % 4 == 0 { Some(&mut some) } else { None };
            for of in [Some(&mut all), sample].into_iter().flatten() {
                if i % 8 == 0 { of.on_refused() } else { of.on_served(0.0) }
            }
        }
        let difference = some.against_rest(&all, 10).unwrap();
        assert_eq!((difference.proved, difference.refused, difference.share), (1, 0.5, 0.25));
    }

    #[test]
    fn votes_need_most_windows_to_agree() {
        let mut votes = Votes::default();
        let window = |proved| Some(Difference { effect: 1.0, refused: 0.0, share: 0.5, proved });
        for proved in [1, 0, 1, -1, 1, 0] {
            votes.on_window(window(proved));
            assert_eq!(votes.gain(), None);
        }
        votes.on_window(window(1));
        votes.on_window(window(1));
        assert!(votes.gain().is_some() && votes.are_slower());
        (0..9).for_each(|_| votes.on_window(None));
        assert_eq!(votes.gain(), None, "who is not seen any more proves nothing");
    }
}
