//! What clients of several servers sent again.

use seawall_control::retry::Counts;
use serde::{Deserialize, Serialize};

/// What clients of several servers did in the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Retries {
    /// Requests that they were given.
    pub(crate) calls: u64,
    /// Requests that went to another server because one refused them.
    pub(crate) retries: u64,
    /// Requests that went to another server because one gave them no credit in time.
    pub(crate) moves: u64,
    /// Requests that another server might have served, but for the retry budget.
    pub(crate) forbidden: u64,
    /// Copies of requests that another server had not answered.
    pub(crate) hedges: u64,
    /// Requests that all servers had refused, and that were sent to one of them once more.
    pub(crate) last_resorts: u64,
    /// What was sent beside the first attempts, as a part of the requests.
    pub(crate) sent_again_share: f64,
}

impl From<Counts> for Retries {
    fn from(counts: Counts) -> Self {
        let Counts { calls, retries, moves, forbidden, hedges, last_resorts, .. } = counts;
        let sent_again_share = counts.sent_again_share();
        Self { calls, retries, moves, forbidden, hedges, last_resorts, sent_again_share }
    }
}
