//! What the entry says about one request, before anybody has asked what the request has left.

use core::time::Duration;

use crate::controller::Verdict;
use crate::request::{Claims, Class, Context, RefusalReason, Rejected, Stage};
use crate::standing::Queues;
use crate::time::Instant;

/// All that the lock was needed for. The rest is worked out without it.
#[derive(Clone, Copy, Debug)]
pub struct Judgement {
    /// When it was made.
    pub now: Instant,
    /// What the algorithm says.
    pub verdict: Verdict,
    /// The wait that the controller was told of.
    pub queue_delay: Duration,
    /// The wait in the run queue that is predicted.
    pub predicted: Duration,
    /// The longest queue that is worth having in front of the workers.
    pub queue_max: Duration,
    /// How long the request's bytes waited to be read.
    pub waited: Duration,
    /// How long the request may wait at all stages together, by the server's own configuration.
    pub budget: Option<Duration>,
    /// How long it might wait without its client's deadline: what the server can be blamed for.
    pub own_budget: Duration,
    /// How much longer it may wait because more CPU is to come.
    pub grace: Duration,
    /// How long queues at its stages may be.
    pub queues: Queues,
    pub(super) excess: bool,
    pub(super) draining: bool,
}

impl Judgement {
    /// The request's context: with the server's budget, and charged for the wait to be read.
    pub fn context(&self, claims: &Claims, class: Class) -> Context {
        // The deadline has run since the request's bytes came.
        let deadline = claims.deadline.map(|left| left.saturating_sub(self.waited));
        let context = Context::new(Claims { deadline, ..*claims }, self.now);
        let context = context.with_class(class).with_queues(self.queues);
        let context = match self.budget {
            Some(budget) => context.with_budget_at_most(budget),
            None => context,
        };
        context.charge(self.waited);
        context.grant_grace(self.grace);
        context
    }

    /// The decision: the algorithm's, the bounds of the server, and the one rule of all stages for
    /// those `stages` at which a wait is predicted before the handler runs.
    ///
    /// # Errors
    ///
    /// The refusal that the client is told.
    pub fn decide(
        &self,
        context: &Context,
        stages: impl IntoIterator<Item = (Stage, Duration)>,
    ) -> Result<(), Rejected> {
        if let Verdict::Refuse(rejected) = self.verdict {
            return Err(rejected);
        }
        if self.excess {
            return Err(Rejected::at_entry(RefusalReason::WindowExceeded, self.queue_delay));
        }
        if self.draining {
            return Err(Rejected::at_entry(RefusalReason::Shutdown, Duration::ZERO));
        }
        for (stage, predicted) in stages {
            let admitted = context.admit(stage, self.now, predicted);
            admitted.map_err(|rejected| rejected.with_retry_after(predicted))?;
        }
        context.admit_to_queue(Stage::RUN_QUEUE, self.waited + self.predicted, self.queue_max)
    }

    /// True if [`decide`](Self::decide) asked what the request has left: if it refused all the
    /// same, that was too little.
    pub fn asked(&self) -> bool {
        self.verdict == Verdict::Admit && !self.excess && !self.draining
    }
}
