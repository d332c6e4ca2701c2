//! What the agent orders, and what a service believes of it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::layout::{Agent, SIZE};

/// The speed of a service that nobody has boosted, in thousandths.
pub const SPEED_BASE: u32 = 1000;

/// Orders in which a boost is faster than this, in thousandths, are obeyed as this.
pub const SPEED_MAX: u32 = 100_000;

/// Longest lease that is believed: a minute.
pub const LEASE_MAX_NS: u64 = 60_000_000_000;

/// The agent's orders to one service.
///
/// Each is a word of its own: after a change a service may for a moment see some of the old and
/// some of the new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orders {
    /// When the agent last said that it lives, [`monotonic_ns`](crate::clock::monotonic_ns); 0 if
    /// it never did.
    pub heartbeat_ns: u64,
    /// How long orders count after that; at most [`LEASE_MAX_NS`].
    pub lease_ns: u64,
    /// Hops of the upscale hint to put on requests that are sent downstream (SurgeGuard §III-B).
    pub hint: u16,
    /// CPU that the service has been given, in thousandths of one; 0 while nobody gives any.
    pub granted_milli: u32,
    /// Its speed, in thousandths of the base; for services whose CPU is counted in virtual cores.
    pub speed_permille: u32,
    /// Its speed while boosted.
    pub boost_permille: u32,
    /// The agent boosts until then, monotonic nanoseconds.
    pub boosted_until_ns: u64,
    /// From the start of a job to its arrival here, when all is well, times two; 0 while unknown
    /// (SurgeGuard §IV-A, `expectedTimeFromStart`).
    pub expected_time_from_start_ns: u64,
    /// For so long after a late request of a path, others of that path change nothing.
    pub freeze_ns: u64,
    /// More CPU may come until then, monotonic nanoseconds.
    pub growing_until_ns: u64,
}

impl Default for Orders {
    /// Those of an agent that has nothing to say.
    fn default() -> Self {
        Self {
            heartbeat_ns: 0,
            lease_ns: 0,
            hint: 0,
            granted_milli: 0,
            speed_permille: SPEED_BASE,
            boost_permille: SPEED_BASE,
            boosted_until_ns: 0,
            expected_time_from_start_ns: 0,
            freeze_ns: 0,
            growing_until_ns: 0,
        }
    }
}

impl Orders {
    /// Whether they count at `now_ns`: the agent lived within its lease. Where not, the service
    /// behaves as without an agent.
    pub fn hold(&self, now_ns: u64) -> bool {
        self.heartbeat_ns != 0
            // A heartbeat from the future is one that was not written on this machine's clock.
            && self.heartbeat_ns <= now_ns.saturating_add(self.lease_ns)
            && now_ns.saturating_sub(self.heartbeat_ns) < self.lease_ns
    }

    /// These, if they count at `now_ns`, else those of an agent that has nothing to say.
    #[must_use]
    pub fn standing(self, now_ns: u64) -> Self {
        if self.hold(now_ns) { self } else { Self::default() }
    }

    /// Speed at `now_ns`, in thousandths of the base: boosted by the agent or not.
    pub fn speed(&self, now_ns: u64) -> u32 {
        if now_ns < self.boosted_until_ns {
            self.boost_permille.max(self.speed_permille)
        } else {
            self.speed_permille
        }
    }

    /// What a service sees.
    pub(super) fn load(agent: &Agent) -> Self {
        // Whoever sees this heartbeat sees at least the orders that were written before it.
        let heartbeat_ns = agent.heartbeat_ns.load(Acquire);
        let word = |word: &AtomicU64| word.load(Relaxed);
        Self {
            heartbeat_ns,
            lease_ns: word(&agent.lease_ns).min(LEASE_MAX_NS),
            boosted_until_ns: word(&agent.boosted_until_ns),
            boost_permille: speed(word(&agent.boost_permille)),
            speed_permille: speed(word(&agent.speed_permille)),
            granted_milli: narrow(word(&agent.granted_milli)),
            hint: hops(word(&agent.hint)),
            expected_time_from_start_ns: word(&agent.expected_time_from_start_ns),
            freeze_ns: word(&agent.freeze_ns),
            growing_until_ns: word(&agent.growing_until_ns),
        }
    }

    /// As [`load`](Self::load), of a page that was read.
    pub(super) fn parse(page: &[u8; SIZE]) -> Self {
        Self::load(&Agent::copied(page))
    }

    /// The words from `agent.boost_permille` on, as they lie.
    pub(super) fn to_bytes(self) -> [u8; 7 * 8] {
        let words = [
            u64::from(self.boost_permille),
            u64::from(self.speed_permille),
            u64::from(self.granted_milli),
            u64::from(self.hint),
            self.expected_time_from_start_ns,
            self.freeze_ns,
            self.growing_until_ns,
        ];
        let mut bytes = [0; 7 * 8];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// A speed that was never written is that of the base; one beyond what makes sense is brought back.
fn speed(permille: u64) -> u32 {
    if permille == 0 { SPEED_BASE } else { narrow(permille).min(SPEED_MAX) }
}

fn narrow(word: u64) -> u32 {
    u32::try_from(word).unwrap_or(u32::MAX)
}

fn hops(word: u64) -> u16 {
    u16::try_from(word).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_expire_with_the_lease() {
        let orders = Orders { heartbeat_ns: 1_000, lease_ns: 100, hint: 3, ..Orders::default() };
        assert!(orders.hold(1_000) && orders.hold(1_099));
        assert!(!orders.hold(1_100));
        assert_eq!(orders.standing(1_100).hint, 0);
        assert_eq!(orders.standing(1_099).hint, 3);
    }

    #[test]
    fn nobody_has_ordered_anything_in_a_new_page() {
        assert!(!Orders::default().hold(0));
        assert!(!Orders::default().hold(u64::MAX));
    }

    #[test]
    fn a_heartbeat_of_another_clock_does_not_hold_for_ever() {
        let orders = Orders { heartbeat_ns: u64::MAX, lease_ns: 100, ..Orders::default() };
        assert!(!orders.hold(1_000));
    }

    #[test]
    fn a_boost_ends_and_never_slows() {
        let orders = Orders { boost_permille: 2000, boosted_until_ns: 10, ..Orders::default() };
        assert_eq!((orders.speed(9), orders.speed(10)), (2000, 1000));
        let slow = Orders { boost_permille: 500, ..orders };
        assert_eq!(slow.speed(9), 1000);
    }
}
