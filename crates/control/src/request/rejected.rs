//! A refusal: where, why, and what the client can do next.

use core::fmt;
use core::time::Duration;

use super::{RefusalReason, Stage};

/// A request was refused because it could not have been served in time.
///
/// It travels unchanged from the stage that refused to the client, which may try another replica at
/// once or come back after `retry_after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejected {
    /// The place that refused.
    pub stage: Stage,
    /// The wait that the stage predicted.
    pub predicted_delay: Duration,
    /// The longest that would have done: what the request had left, the smaller of its delay budget
    /// and its remaining deadline, or less where the queue is only to be as long as is of use.
    pub remaining: Duration,
    /// How long the stage expects to stay congested; zero when it cannot say.
    pub retry_after: Duration,
    /// Why. It does not travel: of what another server refused it is
    /// [`Overload`](RefusalReason::Overload).
    pub reason: RefusalReason,
}

impl Rejected {
    /// A refusal at `stage`, which predicted a wait that exceeds what was left, for
    /// [`Overload`](RefusalReason::Overload).
    pub const fn new(stage: Stage, predicted_delay: Duration, remaining: Duration) -> Self {
        let (retry_after, reason) = (Duration::ZERO, RefusalReason::Overload);
        Self { stage, predicted_delay, remaining, retry_after, reason }
    }

    /// A refusal at entry for `reason`, with the wait that was predicted.
    pub const fn at_entry(reason: RefusalReason, predicted_delay: Duration) -> Self {
        Self::new(Stage::ADMISSION, predicted_delay, Duration::MAX).with_reason(reason)
    }

    /// A refusal at `stage`, whose queue delays requests by `delay`; by then it should have
    /// drained.
    pub const fn overload(stage: Stage, delay: Duration) -> Self {
        Self::new(stage, delay, Duration::MAX).with_retry_after(delay)
    }

    /// The same refusal for another reason.
    #[must_use]
    pub const fn with_reason(mut self, reason: RefusalReason) -> Self {
        self.reason = reason;
        self
    }

    /// The same refusal with a hint when to come back.
    #[must_use]
    pub const fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = retry_after;
        self
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused at {}: predicted wait {:?}", self.stage, self.predicted_delay)?;
        if self.remaining != Duration::MAX {
            write!(f, ", at most {:?}", self.remaining)?;
        }
        if !self.retry_after.is_zero() {
            write!(f, ", retry after {:?}", self.retry_after)?;
        }
        Ok(())
    }
}

impl core::error::Error for Rejected {}
