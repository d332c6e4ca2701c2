//! What became of a call to a service with several replicas, and what was tried for it.

use std::net::SocketAddr;
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::retry::{End, Failed, Why};

use super::call::{CallError, CallResult, Unsent};

/// The result of a call, and its way there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// What the last replica said.
    pub result: CallResult,
    /// How often the request was sent; 0 if it never left.
    pub attempts: u8,
    /// Why the call was not made again, if it has failed; nothing if there was nobody to call.
    pub given_up: Option<Why>,
    /// Earlier attempts, in their order: who did not serve it, and why.
    pub failures: Vec<Failure>,
}

/// An attempt after which another replica was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The replica.
    pub replica: SocketAddr,
    /// Why it did not serve the request; of a refusal, with the stage and the predicted delay.
    pub error: CallError,
}

/// A call of which not all attempts are known yet.
#[derive(Debug)]
pub(super) struct Attempts {
    /// The replicas that were tried, by number.
    pub(super) tried: Vec<usize>,
    /// How often it was sent, as far as that is known.
    pub(super) sent: u8,
    failures: Vec<Failure>,
    /// Of the replicas that refused it, the one that predicted to be free first, and when.
    soonest: Option<(usize, Instant)>,
}

impl Attempts {
    pub(super) fn new() -> Self {
        Self { tried: Vec::new(), sent: 0, failures: Vec::new(), soonest: None }
    }

    /// What the policy is told about the newest attempt.
    pub(super) fn failed(
        &self,
        error: &CallError,
        others: usize,
        idempotent: bool,
        (deadline, rtt): (Instant, Duration),
    ) -> Failed {
        let sent = self.sent;
        Failed { sent, others, idempotent, rtt, ..Failed::new(end(error), deadline) }
    }

    /// An attempt at the replica of this number has ended at `now`.
    pub(super) fn on_end(&mut self, now: Instant, index: usize, result: &CallResult) {
        let was_sent = result.as_ref().err().is_none_or(CallError::was_sent);
        self.sent = self.sent.saturating_add(u8::from(was_sent));
        if let Err(CallError::Rejected(rejected)) = result {
            let free_at = now + rejected.predicted_delay;
            if self.soonest.is_none_or(|(_, soonest)| free_at < soonest) {
                self.soonest = Some((index, free_at));
            }
        }
    }

    /// True if nothing has failed yet.
    pub(super) fn is_first(&self) -> bool {
        self.failures.is_empty()
    }

    /// The replica that refused it and may soonest have time for it.
    pub(super) fn soonest(&self) -> Option<usize> {
        self.soonest.map(|(index, _)| index)
    }

    pub(super) fn push(&mut self, replica: SocketAddr, error: CallError) {
        self.failures.push(Failure { replica, error });
    }

    pub(super) fn answer(self, result: CallResult, given_up: Option<Why>) -> Answer {
        Answer { result, attempts: self.sent, given_up, failures: self.failures }
    }
}

impl CallError {
    /// True if the request has left, whatever became of it.
    pub(super) fn was_sent(&self) -> bool {
        !matches!(self, Self::NotSent(_))
    }
}

fn end(error: &CallError) -> End {
    match error {
        CallError::Rejected(_) => End::Refused,
        CallError::NotSent(Unsent::Disconnected(_)) => End::Unreachable,
        CallError::NotSent(Unsent::Dropped(_)) => End::NoCredit,
        CallError::ConnectionLost(_) => End::Unknown,
        _ => End::Final,
    }
}
