//! Shedding and scaling decide as one: while capacity can still grow, admission waits for it.
//!
//! A request whose wait would exceed its delay budget is refused, because waiting longer would help
//! nobody: the server gives as much as it has. While the agent still has CPU to give to a service
//! that is true no longer. The request is kept then for a grace beyond its budget, if its deadline
//! allows, and what is refused all the same tells the agent how much is missing.

use core::time::Duration;

use crate::time::Instant;

/// How much longer than its budget a request may wait now.
///
/// `until` is when the agent's promise of more CPU ends; in the past if there is none. Deadlines
/// are not touched: they bound every wait, with a grace or without.
pub fn grace(now: Instant, until: Instant, grace_max: Duration) -> Duration {
    if now < until { grace_max } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Claims, Context, Stage};

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const NOW: Instant = Instant::from_micros(1_000_000);
    const LATER: Instant = Instant::from_micros(2_000_000);

    /// Whether a request with these limits may wait for `predicted`, with a grace of 30 ms.
    fn waits(deadline: Option<u64>, predicted: u64, until: Instant) -> bool {
        let claims =
            Claims { deadline: deadline.map(ms), budget: Some(ms(10)), ..Claims::default() };
        let ctx = Context::new(claims, NOW);
        ctx.grant_grace(grace(NOW, until, ms(30)));
        ctx.admit(Stage::RUN_QUEUE, NOW, ms(predicted)).is_ok()
    }

    #[test]
    fn while_capacity_grows_a_request_may_wait_for_a_grace_beyond_its_budget() {
        assert!(waits(None, 10, NOW) && !waits(None, 11, NOW));
        assert!(waits(None, 40, LATER) && !waits(None, 41, LATER));
    }

    #[test]
    fn a_grace_never_reaches_beyond_the_deadline() {
        assert!(waits(Some(20), 20, LATER) && !waits(Some(20), 21, LATER));
        assert!(!waits(Some(5), 10, LATER));
    }
}
