//! The decision: once more, or enough.

use core::iter::Sum;
use core::time::Duration;

use super::hedge::Timing;
use super::{Budget, Config};
use crate::time::Instant;

/// How an attempt ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum End {
    /// It did not leave, because there was no connection any more.
    Unreachable,
    /// It did not leave, because there was no credit for it in time.
    NoCredit,
    /// A stage of the server refused it: it has had no effect.
    Refused,
    /// It was sent, and nobody knows whether it ran: its connection was lost.
    Unknown,
    /// It ran, and the application failed it, or it was given up on purpose.
    Final,
}

/// What is known of a call whose newest attempt has failed.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// How.
    pub end: End,
    /// Attempts that were sent so far.
    pub sent: u8,
    /// Replicas that can be reached and were not tried for this call.
    pub others: usize,
    /// The request may run twice without harm.
    pub idempotent: bool,
    /// A result after this is worthless.
    pub deadline: Instant,
    /// What a round trip takes: no reply comes sooner.
    pub rtt: Duration,
}

/// What becomes of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It goes to another replica, now.
    Again,
    /// Its caller is told of the failure.
    Enough(Why),
}

/// Why a call is not made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Why {
    /// It may have had an effect.
    Effect,
    /// It was sent as often as it may.
    Attempts,
    /// There is no other replica that could be tried.
    Replicas,
    /// No reply could come in time.
    Deadline,
    /// The retry budget is spent.
    Budget,
}

/// How often what was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Calls begun.
    pub calls: u64,
    /// Requests sent again.
    pub retries: u64,
    /// Requests that went to another replica because one gave them no credit in time, or was gone.
    pub moves: u64,
    /// Copies sent although the request before had not failed.
    pub hedges: u64,
    /// Requests that were refused everywhere and sent once more, to wait as long as it takes.
    pub last_resorts: u64,
    /// Calls that another replica might have served, and the retry budget forbade.
    pub forbidden: u64,
}

impl Counts {
    /// Requests sent beside the first ones, as a part of the calls.
    pub fn sent_again_share(&self) -> f64 {
        let extra = self.retries + self.hedges + self.last_resorts;
        if self.calls == 0 { 0.0 } else { extra as f64 / self.calls as f64 }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            calls: sum.calls + one.calls,
            retries: sum.retries + one.retries,
            moves: sum.moves + one.moves,
            hedges: sum.hedges + one.hedges,
            last_resorts: sum.last_resorts + one.last_resorts,
            forbidden: sum.forbidden + one.forbidden,
        })
    }
}

/// Decides for all calls of one client, which share its [`Budget`].
///
/// Report each call with [`on_call`](Self::on_call) when it begins, and each attempt that fails
/// with [`on_failure`](Self::on_failure).
#[derive(Clone, Debug)]
pub struct Policy {
    attempts: u8,
    budget: Budget,
    timing: Timing,
    last_resort: bool,
    counts: Counts,
}

impl Failed {
    /// A call that was not sent and has nowhere else to go.
    pub fn new(end: End, deadline: Instant) -> Self {
        Self { end, sent: 0, others: 0, idempotent: false, deadline, rtt: Duration::ZERO }
    }
}

impl Policy {
    /// A policy with a full budget.
    pub fn new(config: &Config) -> Self {
        let budget = Budget::new(config.budget, config.burst);
        let (attempts, timing) = (config.attempts, Timing::new(config.hedge));
        let last_resort = config.last_resort;
        Self { attempts, budget, timing, last_resort, counts: Counts::default() }
    }

    /// A call begins.
    pub fn on_call(&mut self) {
        self.counts.calls += 1;
        self.budget.on_call();
    }

    /// An attempt has failed. A retry is paid for when this allows it.
    pub fn on_failure(&mut self, now: Instant, failed: &Failed) -> Verdict {
        if let Some(why) = self.objection(now, failed) {
            return Verdict::Enough(why);
        }
        // What no server has seen adds nothing to anybody's load; if it was sent before, what let
        // it go on then has paid for the next server that gets it.
        if matches!(failed.end, End::NoCredit | End::Unreachable) {
            self.counts.moves += 1;
            return Verdict::Again;
        }
        if !self.pay() {
            return Verdict::Enough(Why::Budget);
        }
        self.counts.retries += 1;
        Verdict::Again
    }

    /// A request that has a budget of its own was refused, and no other replica may be tried, for
    /// this reason. True if it is to be sent once more, without that budget.
    pub fn on_refused_everywhere(&mut self, why: Why) -> bool {
        let again =
            self.last_resort && matches!(why, Why::Attempts | Why::Replicas) && self.budget.take();
        self.counts.last_resorts += u64::from(again);
        again
    }

    /// After how long without a reply [`on_slow`](Self::on_slow) should be asked; `None` for never.
    pub fn hedge_after(&self) -> Option<Duration> {
        self.timing.after().filter(|_| self.attempts > 1)
    }

    /// The newest attempt is not answered yet. A copy is paid for when this allows it; its `end` is
    /// [`End::Unknown`].
    pub fn on_slow(&mut self, now: Instant, slow: &Failed) -> Verdict {
        if let Some(why) = self.objection(now, slow) {
            return Verdict::Enough(why);
        }
        if !self.pay() {
            return Verdict::Enough(Why::Budget);
        }
        self.counts.hedges += 1;
        Verdict::Again
    }

    /// A first attempt was answered after this time, or given up then for the answer to a copy.
    pub fn on_latency(&mut self, latency: Duration) {
        self.timing.observe(latency);
    }

    /// Takes a retry from the budget, if that allows one.
    fn pay(&mut self) -> bool {
        let paid = self.budget.take();
        self.counts.forbidden += u64::from(!paid);
        paid
    }

    fn objection(&self, now: Instant, failed: &Failed) -> Option<Why> {
        let harmless = match failed.end {
            End::Unreachable | End::NoCredit | End::Refused => true,
            End::Unknown => failed.idempotent,
            End::Final => false,
        };
        if !harmless {
            Some(Why::Effect)
        } else if failed.sent >= self.attempts || self.attempts == 1 && failed.end == End::NoCredit
        {
            Some(Why::Attempts)
        } else if failed.others == 0 {
            Some(Why::Replicas)
        } else if failed.deadline != Instant::NEVER && now + failed.rtt >= failed.deadline {
            Some(Why::Deadline)
        } else {
            None
        }
    }

    /// How often what was decided so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Retries that the budget allows now.
    pub fn left(&self) -> u64 {
        self.budget.left()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Hedge;
    use super::*;

    const NOW: Instant = Instant::from_micros(1_000);

    fn policy(attempts: u8, budget: f64, burst: u32) -> Policy {
        Policy::new(&Config { attempts, budget, burst, ..Config::default() })
    }

    fn failed(end: End) -> Failed {
        Failed { sent: 1, others: 1, ..Failed::new(end, Instant::NEVER) }
    }

    #[test]
    fn what_may_have_run_is_sent_again_only_if_that_does_no_harm() {
        let mut policy = policy(2, 1.0, 10);
        let mut verdict = |failed: Failed| policy.on_failure(NOW, &failed);
        assert_eq!(verdict(failed(End::Refused)), Verdict::Again);
        assert_eq!(verdict(failed(End::Unknown)), Verdict::Enough(Why::Effect));
        let idempotent = |end| Failed { idempotent: true, ..failed(end) };
        assert_eq!(verdict(idempotent(End::Unknown)), Verdict::Again);
        assert_eq!(verdict(idempotent(End::Final)), Verdict::Enough(Why::Effect));
    }

    #[test]
    fn each_bound_ends_it_with_its_own_reason() {
        let mut policy = policy(3, 1.0, 1);
        let refused = failed(End::Refused);
        let enough = |why| Verdict::Enough(why);
        let mut verdict = |failed: Failed| policy.on_failure(NOW, &failed);
        assert_eq!(verdict(Failed { sent: 3, ..refused }), enough(Why::Attempts));
        assert_eq!(verdict(Failed { others: 0, ..refused }), enough(Why::Replicas));
        let us = Duration::from_micros;
        let due = |left| Failed { deadline: NOW + us(left), rtt: us(10), ..refused };
        assert_eq!(verdict(due(10)), enough(Why::Deadline));
        assert_eq!(verdict(due(11)), Verdict::Again);
        assert_eq!(verdict(refused), enough(Why::Budget));
        let counts = policy.counts();
        assert_eq!((counts.retries, counts.forbidden), (1, 1));
    }

    #[test]
    fn without_a_deadline_no_round_trip_is_too_long() {
        let endless = Failed { rtt: Duration::MAX, ..failed(End::Refused) };
        assert_eq!(policy(2, 1.0, 1).on_failure(NOW, &endless), Verdict::Again);
        let due = Failed { deadline: NOW + Duration::from_secs(1 << 30), ..endless };
        let verdict = policy(2, 1.0, 1).on_failure(NOW, &due);
        assert_eq!(verdict, Verdict::Enough(Why::Deadline));
    }

    #[test]
    fn what_never_left_moves_for_nothing() {
        let mut policy = policy(1, 0.0, 0);
        let unsent = Failed { sent: 0, ..failed(End::Unreachable) };
        assert!((0..100).all(|_| policy.on_failure(NOW, &unsent) == Verdict::Again));
        let no_credit = Failed { end: End::NoCredit, ..unsent };
        assert_eq!(policy.on_failure(NOW, &no_credit), Verdict::Enough(Why::Attempts));
        assert_eq!(policy.counts().moves, 100);
    }

    #[test]
    fn a_retry_is_paid_for_once_however_many_replicas_do_not_take_it() {
        let mut policy = policy(2, 0.0, 1);
        assert_eq!(policy.on_failure(NOW, &failed(End::Refused)), Verdict::Again);
        for end in [End::NoCredit, End::Unreachable] {
            assert_eq!(policy.on_failure(NOW, &failed(end)), Verdict::Again);
        }
        let counts = policy.counts();
        assert_eq!((counts.retries, counts.moves, policy.left()), (1, 2, 0));
        let sent_twice = Failed { sent: 2, ..failed(End::NoCredit) };
        assert_eq!(policy.on_failure(NOW, &sent_twice), Verdict::Enough(Why::Attempts));
    }

    #[test]
    fn a_copy_is_sent_if_it_may_run_twice_and_is_paid_for() {
        let hedge = Hedge::After(Duration::from_millis(8));
        let mut policy = Policy::new(&Config { burst: 1, hedge, ..Config::default() });
        assert_eq!(policy.hedge_after(), Some(Duration::from_millis(8)));
        let slow = failed(End::Unknown);
        assert_eq!(policy.on_slow(NOW, &slow), Verdict::Enough(Why::Effect));
        let slow = Failed { idempotent: true, ..slow };
        assert_eq!(policy.on_slow(NOW, &slow), Verdict::Again);
        assert_eq!(policy.on_slow(NOW, &slow), Verdict::Enough(Why::Budget));
        let counts = policy.counts();
        assert_eq!((counts.hedges, counts.retries, counts.forbidden), (1, 0, 1));
        let once = Policy::new(&Config { attempts: 1, hedge, ..Config::default() });
        assert_eq!(once.hedge_after(), None);
    }

    #[test]
    fn refused_everywhere_is_sent_once_more_where_that_is_wanted() {
        let config = Config { attempts: 3, burst: 1, ..Config::default() };
        let mut never = Policy::new(&config);
        assert!(!never.on_refused_everywhere(Why::Replicas));
        let mut policy = Policy::new(&Config { last_resort: true, ..config });
        for why in [Why::Effect, Why::Deadline, Why::Budget] {
            assert!(!policy.on_refused_everywhere(why), "{why:?}");
        }
        assert!(policy.on_refused_everywhere(Why::Attempts));
        assert!(!policy.on_refused_everywhere(Why::Replicas), "the budget is spent");
        assert_eq!(policy.counts().last_resorts, 1);
    }

    proptest! {
        /// However calls fail, what is sent stays within calls × (1 + ratio) + burst, and no call
        /// is sent more often than it may.
        #[test]
        fn no_storm(
            attempts in 1_u8..6,
            ratio in 0.0..1.0,
            burst in 0_u32..20,
            fates in proptest::collection::vec(proptest::collection::vec(0_usize..5, 8), 1..400),
        ) {
            let mut policy = policy(attempts, ratio, burst);
            let mut sent_in_all = 0_u32;
            for fate in &fates {
                policy.on_call();
                let mut sent = 0;
                for &step in fate {
                    use End::{Final, NoCredit, Refused, Unknown, Unreachable};
                    let end = [Unreachable, NoCredit, Refused, Unknown, Final][step];
                    sent += u8::from(step > 1);
                    let failed = Failed { sent, idempotent: true, ..failed(end) };
                    if policy.on_failure(NOW, &failed) != Verdict::Again {
                        break;
                    }
                }
                prop_assert!(sent <= attempts);
                sent_in_all += u32::from(sent);
            }
            let calls = fates.len() as f64;
            prop_assert!(f64::from(sent_in_all) <= calls * (1.0 + ratio) + f64::from(burst) + 1e-3);
            prop_assert_eq!(policy.counts().calls, fates.len() as u64);
        }
    }
}
