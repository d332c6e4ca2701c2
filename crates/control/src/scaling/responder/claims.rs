//! What senders say of the start of a job, and whether to believe it; and who is raised with a
//! late container. The eBPF program of the node agent does the same in the kernel.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use crate::scaling::ContainerId;
use crate::time::Instant;

/// Containers that one decision raises, the late one among them. The paper's graphs have at most
/// ten of them.
pub const RAISED_MAX: usize = 16;

/// Why the start of a job is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unbelievable {
    /// There is none.
    Absent,
    /// It lies in the future: the sender's clock is ahead.
    Future,
    /// It is too long ago: nobody waits for that job any more, or the sender's clock is wrong.
    Stale,
}

/// `observedTimeFromStart` of a request that comes now (SurgeGuard equation 5). Both times are
/// nanoseconds of the wall clock; `start_ns` is what the request claims.
///
/// # Errors
///
/// When the claim cannot be believed.
pub fn observed(
    start_ns: u64,
    realtime_ns: u64,
    age_max: Duration,
) -> Result<Duration, Unbelievable> {
    if start_ns == 0 {
        return Err(Unbelievable::Absent);
    }
    let passed = realtime_ns.checked_sub(start_ns).ok_or(Unbelievable::Future)?;
    let passed = Duration::from_nanos(passed);
    if passed > age_max { Err(Unbelievable::Stale) } else { Ok(passed) }
}

/// Claims that were not believed, and late requests that were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Requests without a start.
    pub absent: u64,
    /// Requests whose start lies in the future.
    pub future: u64,
    /// Requests whose start is too long ago.
    pub stale: u64,
    /// Late requests, when all had been late for too long.
    pub disbelieved: u64,
}

impl Refused {
    /// One more.
    pub fn count(&mut self, claim: Unbelievable) {
        let count = match claim {
            Unbelievable::Absent => &mut self.absent,
            Unbelievable::Future => &mut self.future,
            Unbelievable::Stale => &mut self.stale,
        };
        *count = count.saturating_add(1);
    }
}

/// Whether a service's requests are believed to be late. Clocks that disagree make all of them
/// late, for ever; a surge ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trust {
    /// Since when all requests that could be judged were late.
    late_since: Option<Instant>,
}

impl Trust {
    /// A request was judged. Whether its lateness is to be believed: not if there was none in time
    /// for longer than `late_max`.
    pub fn on_judged(&mut self, now: Instant, is_late: bool, late_max: Duration) -> bool {
        if !is_late {
            self.late_since = None;
            return false;
        }
        now.since(*self.late_since.get_or_insert(now)) <= late_max
    }
}

/// All containers that `container` calls, directly or not, by who calls whom: those that are raised
/// with it, as far as they run on the same node. The nearest are first; itself is left out; and
/// there are no more than fit into one decision with it.
pub fn downstream(
    calls: &[(ContainerId, ContainerId)],
    container: ContainerId,
) -> Vec<ContainerId> {
    let mut seen = BTreeSet::from([container]);
    let mut found = Vec::new();
    let mut layer = alloc::vec![container];
    while !layer.is_empty() && found.len() < RAISED_MAX - 1 {
        let called = calls.iter().filter(|(from, _)| layer.contains(from)).map(|(_, to)| *to);
        layer = called.filter(|to| seen.insert(*to)).collect();
        found.extend(&layer);
    }
    found.truncate(RAISED_MAX - 1);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_cannot_be_is_told_apart_and_counted() {
        let max = Duration::from_secs(10);
        assert_eq!(observed(100, 350, max), Ok(Duration::from_nanos(250)));
        assert_eq!(observed(350, 350, max), Ok(Duration::ZERO));
        let mut refused = Refused::default();
        for (start, now) in [(0, 350), (351, 350), (1, 20_000_000_000)] {
            refused.count(observed(start, now, max).unwrap_err());
        }
        assert_eq!(refused, Refused { absent: 1, future: 1, stale: 1, disbelieved: 0 });
    }

    #[test]
    fn if_all_are_late_for_long_none_is_believed() {
        let mut trust = Trust::default();
        let mut judge = |second: u64, is_late| {
            let now = Instant::from_micros(second * 1_000_000);
            trust.on_judged(now, is_late, Duration::from_secs(10))
        };
        assert!((0..=10).all(|second| judge(second, true)));
        assert!(!judge(11, true));
        assert!(!judge(12, false));
        assert!(judge(12, true));
    }

    #[test]
    fn all_that_is_downstream_is_found_once_and_not_too_much() {
        let id = ContainerId;
        let calls = [(1, 2), (2, 3), (1, 4), (4, 3), (3, 1), (5, 6)];
        let calls = calls.map(|(from, to)| (id(from), id(to)));
        assert_eq!(downstream(&calls, id(1)), [id(2), id(4), id(3)]);
        assert_eq!(downstream(&calls, id(6)), []);
        let chain: Vec<_> = (0..100).map(|n| (id(n), id(n + 1))).collect();
        assert_eq!(downstream(&chain, id(0)).len(), RAISED_MAX - 1);
    }

    proptest! {
        #[test]
        fn any_clocks_give_an_answer(start: u64, now: u64, age_max: u64) {
            let age_max = Duration::from_nanos(age_max);
            match observed(start, now, age_max) {
                Ok(passed) => prop_assert!(passed <= age_max && start <= now),
                Err(Unbelievable::Absent) => prop_assert_eq!(start, 0),
                Err(Unbelievable::Future) => prop_assert!(start > now),
                Err(Unbelievable::Stale) => prop_assert!(now - start > 0),
            }
        }
    }
}
