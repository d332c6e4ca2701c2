//! Sampling from a Zipf distribution in constant time and memory.

use seawall_control::Rng;

/// Zipf over `1..=count`: rank k has a probability proportional to `1 / k^theta`.
///
/// Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", 1996). It needs no table, so that a billion keys cost no
/// memory, and rejects few points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Zipf {
    count: f64,
    theta: f64,
    /// H(3/2) - 1, the left end of the range that is inverted.
    left: f64,
    /// H(count + 1/2), the right end.
    right: f64,
    /// How far below its rank a point may lie and still be taken without a further test.
    squeeze: f64,
}

impl Zipf {
    /// `count` at least 1, `theta` at least 0 (which is uniform).
    pub(super) fn new(count: u64, theta: f64) -> Self {
        let count = count as f64;
        Self {
            count,
            theta,
            left: integral(theta, 1.5) - 1.0,
            right: integral(theta, count + 0.5),
            squeeze: 2.0 - inverse(theta, integral(theta, 2.5) - density(theta, 2.0)),
        }
    }

    /// A rank in `1..=count`.
    pub(super) fn sample(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.right + rng.uniform() * (self.left - self.right);
            let x = inverse(self.theta, u);
            let rank = libm::floor(x + 0.5).clamp(1.0, self.count);
            // The first test is the cheap one and takes most points; the second is exact.
            if rank - x <= self.squeeze
                || u >= integral(self.theta, rank + 0.5) - density(self.theta, rank)
            {
                return rank as u64;
            }
        }
    }
}

/// The density before it is normalised: x^-theta.
fn density(theta: f64, x: f64) -> f64 {
    libm::exp(-theta * libm::log(x))
}

/// H(x), an antiderivative of the density: (x^(1-theta) - 1) / (1 - theta), and its limit ln x
/// where theta is 1.
fn integral(theta: f64, x: f64) -> f64 {
    let log = libm::log(x);
    expm1_over((1.0 - theta) * log) * log
}

/// The x with H(x) = y.
fn inverse(theta: f64, y: f64) -> f64 {
    // Rounding may take the argument below -1, where the logarithm is not defined.
    let t = (y * (1.0 - theta)).max(-1.0);
    libm::exp(log1p_over(t) * y)
}

/// (e^x - 1) / x, and its series near zero.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::expm1(x) / x } else { 1.0 + x / 2.0 * (1.0 + x / 3.0) }
}

/// ln(1 + x) / x, and its series near zero.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::log1p(x) / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_match_theory() {
        let samples = 400_000;
        for theta in [0.0, 0.5, 0.99, 1.0, 1.2, 3.0] {
            for count in [1_u64, 2, 10, 1_000] {
                let weights: Vec<f64> = (1..=count).map(|k| (k as f64).powf(-theta)).collect();
                let total: f64 = weights.iter().sum();
                let zipf = Zipf::new(count, theta);
                let mut rng = Rng::new(1);
                let mut counts = vec![0_u32; count as usize];
                for _ in 0..samples {
                    counts[zipf.sample(&mut rng) as usize - 1] += 1;
                }
                // Chi-square over the ranks that expect at least 5; its mean is the number of ranks
                // less one, its deviation the root of twice that.
                let (mut chi_square, mut ranks) = (0.0, 0.0);
                for (&count, &weight) in counts.iter().zip(&weights) {
                    let expected = weight / total * f64::from(samples);
                    if expected >= 5.0 {
                        chi_square += (f64::from(count) - expected).powi(2) / expected;
                        ranks += 1.0;
                    }
                }
                let bound = ranks + 5.0 * f64::sqrt(2.0 * ranks);
                assert!(chi_square < bound, "theta {theta}, {count} keys: {chi_square} > {bound}");
            }
        }
    }

    #[test]
    fn ranks_stay_in_range_for_huge_counts() {
        let mut rng = Rng::new(2);
        for theta in [0.0, 0.99, 1.0, 10.0] {
            let count = 1 << 50;
            let zipf = Zipf::new(count, theta);
            for _ in 0..10_000 {
                assert!((1..=count).contains(&zipf.sample(&mut rng)));
            }
        }
    }
}
