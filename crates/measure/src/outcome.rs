//! What became of an offered request.

use seawall_control::controller;
use serde::{Deserialize, Serialize};

/// How an offered request ended. Every offered request has exactly one outcome.
///
/// A request is *offered* when its generator produced it at (or after) its scheduled time, whatever
/// became of it. It *reached the server* unless it was dropped at the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A reply with a result arrived. Whether it counts as goodput depends on its latency.
    Success,
    /// The server refused it, at its entry or at a later stage. Never a success, however quick.
    Rejected,
    /// It was never sent: the client gave it up. A request that was sent and then given up is
    /// [`Cancelled`](Self::Cancelled).
    DroppedAtClient(DropReason),
    /// It was sent, and abandoned by its client or as a consequence of its deadline.
    Cancelled,
    /// It was sent, and ended in an error that is no refusal: a handler that failed, a connection
    /// that broke.
    Failed,
    /// It was sent, and nothing had come back when the run ended.
    Unanswered,
}

/// Why a client never sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// It waited for a credit or a rate longer than a request may wait at the client.
    Expired,
    /// The client's queue was full.
    QueueFull,
    /// The client's controller refused it at once, for example because its priority is below the
    /// level that the server asked for.
    Policy,
    /// There was no session to send it on.
    Disconnected,
}

impl DropReason {
    /// All reasons, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Expired, Self::QueueFull, Self::Policy, Self::Disconnected];

    /// The name in reports and metric labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::QueueFull => "queue_full",
            Self::Policy => "policy",
            Self::Disconnected => "disconnected",
        }
    }
}

impl From<controller::DropReason> for DropReason {
    fn from(reason: controller::DropReason) -> Self {
        match reason {
            controller::DropReason::Expired => Self::Expired,
            controller::DropReason::QueueFull => Self::QueueFull,
            _ => Self::Policy,
        }
    }
}

impl Outcome {
    /// The name in reports and metric labels; the reason of a client drop is apart.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Rejected => "rejected",
            Self::DroppedAtClient(_) => "dropped_at_client",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Unanswered => "unanswered",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_with_serde_and_indices_with_the_list() {
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            let json = serde_json::to_string(&reason).unwrap();
            assert_eq!(json, format!("\"{}\"", reason.name()));
        }
    }
}
