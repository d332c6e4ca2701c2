//! A small seeded generator: the same seed gives the same numbers on every machine and version.

use core::time::Duration;

/// xoshiro256++ seeded through SplitMix64 (Blackman and Vigna, 2019).
///
/// It is our own so that a recorded seed keeps its meaning when a dependency changes. Not for
/// secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator whose whole sequence follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut mixer = seed;
        Self { state: core::array::from_fn(|_| split_mix(&mut mixer)) }
    }

    /// A new generator whose sequence is independent of what this one goes on to give.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// The next 64 uniformly distributed bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A uniform integer in `0..bound`, without modulo bias worth the name (multiply-shift, Lemire
    /// 2019).
    ///
    /// # Panics
    ///
    /// If `bound` is zero: there is no such number.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A uniform number in `[0, 1)` with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// An exponentially distributed number with mean 1.
    pub fn exponential(&mut self) -> f64 {
        // 1 - u lies in (0, 1], so the logarithm is finite.
        -libm::log(1.0 - self.uniform())
    }

    /// A normally distributed number with mean 0 and deviation 1 (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(2.0 * core::f64::consts::PI * self.uniform())
    }

    /// An exponentially distributed duration with the given mean: the gap of a Poisson process.
    pub fn exponential_duration(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(self.exponential())
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// Spreads the bits of `z`, so that numbers which differ little differ in every bit of the result:
/// the finish of SplitMix64. A hash, but not against those who choose what is hashed.
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_is_pinned() {
        let mut rng = Rng::new(0);
        // SplitMix64(0) gives e220a8397b1dcdaf first (reference implementation), which seeds the
        // state.
        assert_eq!(rng.state[0], 0xe220_a839_7b1d_cdaf);
        let first = [rng.next_u64(), rng.next_u64()];
        assert_eq!(first, [0x5317_5d61_490b_23df, 0x61da_6f3d_c380_d507]);
    }

    #[test]
    fn moments_are_right() {
        let mut rng = Rng::new(7);
        let n = 200_000;
        let mean = |f: &mut dyn FnMut() -> f64| (0..n).map(|_| f()).sum::<f64>() / f64::from(n);
        assert!((mean(&mut || rng.uniform()) - 0.5).abs() < 0.01);
        assert!((mean(&mut || rng.exponential()) - 1.0).abs() < 0.02);
        assert!(mean(&mut || rng.normal()).abs() < 0.02);
        assert!((mean(&mut || rng.normal().powi(2)) - 1.0).abs() < 0.02);
        assert!((mean(&mut || rng.below(10) as f64) - 4.5).abs() < 0.05);
    }
}
