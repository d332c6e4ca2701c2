//! A token bucket: a rate that must not be exceeded, and how much of it may be saved up.

use core::time::Duration;

use crate::config::duration;
use crate::time::Instant;

/// Fills at a rate, in tokens per second, up to its size.
///
/// ```
/// use seawall_control::{Instant, token_bucket::TokenBucket};
/// let mut bucket = TokenBucket::new(Instant::ORIGIN, 1_000.0, 1);
/// assert_eq!(bucket.take(Instant::ORIGIN), Ok(()));
/// let later = bucket.take(Instant::ORIGIN).unwrap_err(); // a millisecond, rounded up
/// assert_eq!(bucket.take(later), Ok(()));
/// ```
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: f64,
    size: f64,
    tokens: f64,
    filled_at: Instant,
}

impl TokenBucket {
    /// A full bucket of `size` tokens that gets `rate` tokens a second.
    ///
    /// # Panics
    ///
    /// If it could never hand out a token: the rate is not above 0, or the size is 0.
    pub fn new(now: Instant, rate: f64, size: u32) -> Self {
        assert!(rate > 0.0 && size > 0, "a bucket of {size} tokens, {rate} a second");
        let size = f64::from(size);
        Self { rate, size, tokens: size, filled_at: now }
    }

    /// The same with fewer tokens in it.
    #[must_use]
    pub fn holding(mut self, tokens: u32) -> Self {
        self.tokens = f64::from(tokens).min(self.size);
        self
    }

    /// Takes a token.
    ///
    /// # Errors
    ///
    /// When there is none: the time at which to ask again.
    pub fn take(&mut self, now: Instant) -> Result<(), Instant> {
        self.fill(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        let wait = duration::scaled(Duration::from_secs(1), (1.0 - self.tokens) / self.rate);
        Err(now + wait + Duration::from_nanos(1)) // never before the token is complete
    }

    /// Fills at `rate` from now on.
    ///
    /// # Panics
    ///
    /// If `rate` is not above 0.
    pub fn set_rate(&mut self, now: Instant, rate: f64) {
        assert!(rate > 0.0, "a rate of {rate}");
        self.fill(now);
        self.rate = rate;
    }

    /// Tokens per second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    fn fill(&mut self, now: Instant) {
        let earned = self.rate * now.since(self.filled_at).as_secs_f64();
        self.tokens = (self.tokens + earned).min(self.size);
        self.filled_at = self.filled_at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn a_burst_leaves_at_once_and_the_rest_at_the_rate() {
        let bucket = &mut TokenBucket::new(Instant::ORIGIN, 1_000.0, 4);
        assert!((0..4).all(|_| bucket.take(at(0)).is_ok()));
        let mut now = bucket.take(at(0)).unwrap_err();
        for sent in 1..100 {
            assert_eq!(bucket.take(now), Ok(()));
            now = bucket.take(now).unwrap_err();
            let due = at((sent + 1) * 1_000);
            assert!(now >= due && now.since(due) < Duration::from_micros(1), "{sent}: {now:?}");
        }
        // No silence saves up more than the bucket holds.
        let later = at(1 << 50);
        assert_eq!((0..9).filter(|_| bucket.take(later).is_ok()).count(), 4);
    }

    #[test]
    fn a_new_rate_counts_from_now_on() {
        let bucket = &mut TokenBucket::new(Instant::ORIGIN, 1_000.0, 1);
        assert_eq!(bucket.take(at(0)), Ok(()));
        bucket.set_rate(at(500), 10_000.0); // half a token is there
        assert_eq!(bucket.take(at(500)), Err(at(550) + Duration::from_nanos(1)));
    }

    #[test]
    fn the_slowest_rate_saturates() {
        let bucket = &mut TokenBucket::new(Instant::ORIGIN, f64::MIN_POSITIVE, 1);
        assert_eq!(bucket.take(at(0)), Ok(()));
        assert_eq!(bucket.take(at(0)), Err(Instant::NEVER));
    }
}
