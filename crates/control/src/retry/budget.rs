//! A retry budget: retries are a bounded part of the calls.

/// What one retry costs; calls earn whole parts of it, so that no rounding adds up.
const RETRY: u64 = 1_000_000;

/// Tokens that calls earn and retries spend: a bucket filled by calls and not by time, as in
/// Google's clients (Site Reliability Engineering, chapter 21), Finagle and gRPC.
///
/// When all replicas are overloaded, a client that sends everything it was refused once more
/// doubles the load just then. With a budget, retries are `ratio` of the calls at most, and as many
/// more as the bucket holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// What a call earns.
    earned: u64,
    most: u64,
    left: u64,
}

impl Budget {
    /// A full budget of `burst` retries, which gets `ratio` of a retry with each call. A ratio that
    /// is no number or below 0 is 0.
    pub fn new(ratio: f64, burst: u32) -> Self {
        let most = u64::from(burst).max(1) * RETRY;
        let earned = libm::round(ratio.clamp(0.0, f64::from(u32::MAX)) * RETRY as f64) as u64;
        Self { earned, most, left: u64::from(burst) * RETRY }
    }

    /// A call begins: it earns its part of a retry.
    pub fn on_call(&mut self) {
        self.left = (self.left + self.earned).min(self.most);
    }

    /// Takes one retry out, if there is one.
    pub fn take(&mut self) -> bool {
        let left = self.left.checked_sub(RETRY);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Retries that could be made now.
    pub fn left(&self) -> u64 {
        self.left / RETRY
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_in_ten_once_the_burst_is_spent() {
        let budget = &mut Budget::new(0.1, 3);
        assert!((0..3).all(|_| budget.take()) && !budget.take());
        let retries = (0..1_000).filter(|_| {
            budget.on_call();
            budget.take()
        });
        assert_eq!(retries.count(), 100);
    }

    #[test]
    fn silence_earns_nothing_and_the_bucket_bounds_what_calls_save_up() {
        let budget = &mut Budget::new(0.5, 4);
        (0..1_000).for_each(|_| budget.on_call());
        assert_eq!(budget.left(), 4);
        assert_eq!((0..9).filter(|_| budget.take()).count(), 4);
    }

    #[test]
    fn without_a_burst_a_call_must_be_earned_and_nonsense_earns_nothing() {
        let budget = &mut Budget::new(1.0, 0);
        assert!(!budget.take());
        budget.on_call();
        assert!(budget.take() && !budget.take());
        for ratio in [f64::NAN, -1.0, 0.0] {
            let budget = &mut Budget::new(ratio, 0);
            (0..100).for_each(|_| budget.on_call());
            assert!(!budget.take(), "{ratio}");
        }
    }

    proptest! {
        #[test]
        fn retries_never_exceed_the_ratio_and_the_burst(
            ratio in 0.0..2.0,
            burst in 0_u32..50,
            steps in proptest::collection::vec(any::<bool>(), 0..2_000),
        ) {
            let mut budget = Budget::new(ratio, burst);
            let (mut calls, mut retries) = (0_u32, 0_u32);
            for is_call in steps {
                if is_call {
                    budget.on_call();
                    calls += 1;
                } else {
                    retries += u32::from(budget.take());
                }
                let most = f64::from(calls) * ratio + f64::from(burst) + 1e-3;
                prop_assert!(f64::from(retries) <= most, "{retries} of {calls}: {budget:?}");
                prop_assert!(budget.left() <= u64::from(burst.max(1)));
            }
        }
    }
}
