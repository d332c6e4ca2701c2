//! The context itself: identity, deadline and budget, shared between the tasks of one request.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use super::{Class, Priority, RefusalReason, Rejected, Stage, Tenant};
use crate::standing::{self, Queues};
use crate::time::{Instant, nanos};

/// Stands for "no budget": no wait can use it up.
const UNLIMITED: u64 = u64::MAX;

/// What the sender of a request says about it. The listener has already struck out what it does not
/// believe (see the trust section of ARCHITECTURE.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Number of the request, unique within its session.
    pub id: u64,
    /// Number of the method called.
    pub method: u16,
    /// Business importance; lower is more important.
    pub priority: Priority,
    /// Whom the work is charged to.
    pub tenant: Tenant,
    /// 0 for the first try, then 1, 2, … at other replicas or later.
    pub attempt: u8,
    /// False for requests that no stage may refuse: a bounded privilege.
    pub droppable: bool,
    /// Time left until the reply is worthless; `None` when the client will wait for ever.
    pub deadline: Option<Duration>,
    /// Queueing delay that the request may still meet; `None` when nobody limits it.
    pub budget: Option<Duration>,
    /// Services downstream of this one that should be given more CPU (SurgeGuard §3).
    pub upscale_hops: u16,
    /// Which path through the service graph the request takes (SurgeGuard §4).
    pub path: u16,
    /// When the job began at its first service, nanoseconds of the realtime clock; 0 when unknown.
    pub start_time_ns: u64,
    /// Execution at the services before this one, without their waits for connections (the
    /// artifact of SurgeGuard adds it up); zero when unknown.
    pub upstream_exec: Duration,
    /// When the client sent this request, nanoseconds of its realtime clock; echoed in the reply.
    pub sent_at_ns: u64,
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            id: 0,
            method: 0,
            priority: Priority::default(),
            tenant: Tenant::default(),
            attempt: 0,
            droppable: true,
            deadline: None,
            budget: None,
            upscale_hops: 0,
            path: 0,
            start_time_ns: 0,
            upstream_exec: Duration::ZERO,
            sent_at_ns: 0,
        }
    }
}

/// One request on its way through a service.
///
/// Every stage asks [`admit`](Self::admit) before the request waits and calls
/// [`charge`](Self::charge) after it waited. What is left is the smaller of the queueing-delay
/// budget (Protego §3.2) and the remaining deadline (LIBROS §3). Share it by reference or `Arc`;
/// it never allocates.
///
/// ```
/// use core::time::Duration;
/// use seawall_control::request::{Claims, Context, Stage};
/// use seawall_control::Instant;
///
/// let now = Instant::ORIGIN;
/// let budget = Some(Duration::from_micros(100));
/// let ctx = Context::new(Claims { budget, ..Claims::default() }, now);
///
/// ctx.admit(Stage::RUN_QUEUE, now, Duration::from_micros(80)).unwrap();
/// ctx.charge(Duration::from_micros(80)); // it did wait that long
/// let refused = ctx.admit(Stage::RUN_QUEUE, now, Duration::from_micros(30)).unwrap_err();
/// assert_eq!(refused.remaining, Duration::from_micros(20));
/// ```
#[derive(Debug)]
pub struct Context {
    claims: Claims,
    class: Class,
    arrived: Instant,
    deadline: Instant,
    /// All that it may wait, the grace included.
    budget: AtomicU64,
    /// How much of that was granted beyond the budget.
    grace: AtomicU64,
    charged: AtomicU64,
    queues: Queues,
}

impl Context {
    /// A request that arrived at `arrived`, with the claims that the listener believes.
    pub fn new(claims: Claims, arrived: Instant) -> Self {
        Self {
            deadline: claims.deadline.map_or(Instant::NEVER, |left| arrived + left),
            budget: AtomicU64::new(claims.budget.map_or(UNLIMITED, nanos)),
            grace: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            class: Class::default(),
            queues: Queues::default(),
            claims,
            arrived,
        }
    }

    /// The same request measured as `class`.
    #[must_use]
    pub fn with_class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// The same request, at whose stages queues may be that long.
    #[must_use]
    pub fn with_queues(mut self, queues: Queues) -> Self {
        self.queues = queues;
        self
    }

    /// The same request with at most `budget` of queueing delay: the smaller of two budgets counts.
    #[must_use]
    pub fn with_budget_at_most(mut self, budget: Duration) -> Self {
        let most = nanos(budget).saturating_add(*self.charged.get_mut());
        let all = self.budget.get_mut();
        *all = (*all).min(most);
        self
    }

    /// Decides, where the request is about to wait, whether it still can.
    ///
    /// # Errors
    ///
    /// [`Rejected`] when `predicted` exceeds what the request has left. A request that is not
    /// droppable is never refused here; excess of that privilege was refused at entry.
    pub fn admit(&self, stage: Stage, now: Instant, predicted: Duration) -> Result<(), Rejected> {
        self.admit_waiting(stage, now, now, predicted)
    }

    /// The same for a request that has waited since `since`, of which nothing was charged yet:
    /// decides whether it can wait for `predicted` more.
    ///
    /// # Errors
    ///
    /// As [`admit`](Self::admit).
    pub fn admit_waiting(
        &self,
        stage: Stage,
        now: Instant,
        since: Instant,
        predicted: Duration,
    ) -> Result<(), Rejected> {
        if !self.claims.droppable {
            return Ok(());
        }
        let (remaining, reason) = self.limit(now, now.since(since));
        if predicted > remaining || remaining.is_zero() {
            return Err(Rejected::new(stage, predicted, remaining).with_reason(reason));
        }
        Ok(())
    }

    /// Decides whether it may join a queue of which so much is `ahead`, which should be at `most`
    /// so long ([`Standing`](crate::standing::Standing)).
    ///
    /// # Errors
    ///
    /// [`Rejected`] if the queue is longer than that.
    pub fn admit_to_queue(
        &self,
        stage: Stage,
        ahead: Duration,
        most: Duration,
    ) -> Result<(), Rejected> {
        if !self.claims.droppable || ahead <= most {
            return Ok(());
        }
        // While demand exceeds capacity somebody has to be refused, and whether it still does is
        // found out once in a window.
        Err(Rejected::new(stage, ahead, most).with_retry_after(ahead.max(standing::WINDOW)))
    }

    /// How long queues at its stages may be while more comes than can be served.
    pub fn queues(&self) -> Queues {
        self.queues
    }

    /// What it has left after `uncharged` more of waiting, and for want of what it is refused if
    /// that is too little.
    pub fn limit(&self, now: Instant, uncharged: Duration) -> (Duration, RefusalReason) {
        let budget = self.budget_left().saturating_sub(uncharged);
        match self.time_left(now) {
            Some(left) if left <= budget => (left, RefusalReason::Deadline),
            _ => (budget, RefusalReason::Budget),
        }
    }

    /// Takes a wait that really happened out of the budget.
    pub fn charge(&self, wait: Duration) {
        let wait = nanos(wait);
        // The closure never returns None, so the update cannot fail.
        let _ = self.charged.fetch_update(Relaxed, Relaxed, |all| Some(all.saturating_add(wait)));
    }

    /// Lets it wait for `grace` beyond its budget. Of several graces the largest counts, and none
    /// reaches beyond the deadline.
    pub fn grant_grace(&self, grace: Duration) {
        let grace = nanos(grace);
        if grace <= self.grace.load(Relaxed) {
            return;
        }
        let more = grace.saturating_sub(self.grace.fetch_max(grace, Relaxed));
        // The closure never returns None, so the update cannot fail; what is unlimited stays so.
        let _ =
            self.budget.fetch_update(Relaxed, Relaxed, |budget| Some(budget.saturating_add(more)));
    }

    /// What the request has left: the smaller of budget and time to the deadline;
    /// [`Duration::MAX`] when it has neither.
    pub fn remaining(&self, now: Instant) -> Duration {
        self.budget_left().min(self.time_left(now).unwrap_or(Duration::MAX))
    }

    /// Time until the deadline, zero once it has passed; `None` without a deadline.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        (self.deadline != Instant::NEVER).then(|| self.deadline.since(now))
    }

    /// All waits charged so far.
    pub fn charged(&self) -> Duration {
        Duration::from_nanos(self.charged.load(Relaxed))
    }

    /// What the sender said, as far as it is believed.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// The class under which the request is measured.
    pub fn class(&self) -> Class {
        self.class
    }

    /// When the request arrived at this service.
    pub fn arrived(&self) -> Instant {
        self.arrived
    }

    /// What is left of its delay budget; [`Duration::MAX`] when it has none.
    pub fn budget_left(&self) -> Duration {
        match self.budget.load(Relaxed) {
            UNLIMITED => Duration::MAX,
            budget => Duration::from_nanos(budget.saturating_sub(self.charged.load(Relaxed))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn context(deadline: Option<u64>, budget: Option<u64>) -> Context {
        let claims =
            Claims { deadline: deadline.map(us), budget: budget.map(us), ..Claims::default() };
        Context::new(claims, Instant::from_micros(1_000))
    }

    #[test]
    fn remaining_is_the_smaller_of_budget_and_deadline() {
        let at = Instant::from_micros;
        assert_eq!(context(None, None).remaining(at(9_000)), Duration::MAX);
        assert_eq!(context(Some(50), None).remaining(at(1_010)), us(40));
        assert_eq!(context(Some(50), Some(10)).remaining(at(1_010)), us(10));
        assert_eq!(context(Some(50), Some(100)).remaining(at(2_000)), us(0));
    }

    #[test]
    fn a_spent_budget_refuses_even_a_free_stage() {
        let ctx = context(None, Some(10));
        ctx.charge(us(10));
        let refused = ctx.admit(Stage::RUN_QUEUE, ctx.arrived(), us(0)).unwrap_err();
        let expected = Rejected::new(Stage::RUN_QUEUE, us(0), us(0));
        assert_eq!(refused, expected.with_reason(RefusalReason::Budget));
    }

    #[test]
    fn a_wait_that_lasts_counts_once_against_each() {
        let at = Instant::from_micros;
        let ask = |ctx: &Context, predicted| {
            ctx.admit_waiting(Stage::CPU, at(1_030), at(1_010), us(predicted))
        };
        let refused = |predicted, left, reason| {
            Err(Rejected::new(Stage::CPU, us(predicted), us(left)).with_reason(reason))
        };
        let budget = context(None, Some(50)); // 20 of it are used
        let for_budget = refused(31, 30, RefusalReason::Budget);
        assert_eq!((ask(&budget, 30), ask(&budget, 31)), (Ok(()), for_budget));
        let deadline = context(Some(50), None); // 30 of it are over
        let for_deadline = refused(21, 20, RefusalReason::Deadline);
        assert_eq!((ask(&deadline, 20), ask(&deadline, 21)), (Ok(()), for_deadline));
        // The smaller of the two is why.
        let both = |deadline, budget| ask(&context(Some(deadline), Some(budget)), 100);
        assert_eq!(both(50, 41), refused(100, 20, RefusalReason::Deadline));
        assert_eq!(both(50, 39), refused(100, 19, RefusalReason::Budget));
        assert_eq!(ask(&context(None, None), 3_600_000_000), Ok(()));
    }

    #[test]
    fn charges_add_up_and_never_wrap() {
        let ctx = context(None, Some(10));
        ctx.charge(us(4));
        ctx.charge(Duration::MAX);
        assert_eq!(ctx.remaining(ctx.arrived()), us(0));
        let unlimited = context(None, None);
        unlimited.charge(us(7));
        assert_eq!(unlimited.remaining(unlimited.arrived()), Duration::MAX);
        assert_eq!(unlimited.charged(), us(7));
    }

    #[test]
    fn what_may_not_be_dropped_is_admitted_anyway() {
        let claims = Claims { droppable: false, deadline: Some(us(5)), ..Claims::default() };
        let ctx = Context::new(claims, Instant::ORIGIN);
        assert_eq!(ctx.admit(Stage::RUN_QUEUE, Instant::from_micros(50), us(999)), Ok(()));
    }

    #[test]
    fn the_smaller_of_two_budgets_counts() {
        let now = Instant::from_micros(1_000);
        assert_eq!(context(None, Some(10)).with_budget_at_most(us(20)).remaining(now), us(10));
        assert_eq!(context(None, Some(30)).with_budget_at_most(us(20)).remaining(now), us(20));
        assert_eq!(context(None, None).with_budget_at_most(us(20)).remaining(now), us(20));
    }

    #[test]
    fn a_grace_is_granted_once_and_does_not_forgive_what_was_waited() {
        let ctx = context(None, Some(10));
        ctx.grant_grace(us(30));
        ctx.grant_grace(us(20));
        ctx.grant_grace(us(30));
        assert_eq!(ctx.remaining(ctx.arrived()), us(40));
        let late = context(None, Some(10));
        late.charge(us(50));
        late.grant_grace(us(30));
        assert_eq!(late.remaining(late.arrived()), us(0));
        let unlimited = context(None, None);
        unlimited.grant_grace(us(30));
        assert_eq!(unlimited.remaining(unlimited.arrived()), Duration::MAX);
    }
}
