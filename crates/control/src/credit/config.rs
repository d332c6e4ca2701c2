//! What can be set about the credit mechanism, whatever sizes the pool.

use serde::{Deserialize, Serialize};

use crate::config::ConfigError;

/// Parameters of the mechanism.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most credits one session may hold. Default 64, as in the released Breakwater. Raise it when
    /// few connections carry many slow requests; it also bounds the burst after an idle time
    /// to `window_max` × sessions.
    pub window_max: u32,
    /// How the server knows what clients have to send. Default `speculate`.
    pub demand: Demand,
    /// Which drained session gets a free credit first. Default `random`, as in Breakwater §3.2.2;
    /// `by-rate` prefers sessions that used their credits quickly, which pays off when few of very
    /// many sessions are active.
    pub wake: Wake,
    /// Credits issued beyond the pool, as a part of it, from which on idle sessions are asked by
    /// explicit messages to give theirs back. Default 1: so many are out that all idle sessions
    /// together could send two pools at once. With less, more messages are spent on taking back
    /// what most sessions would have used. With `inf` they keep them, and the next reply to them
    /// takes back what is too much: the cheapest while all sessions are active, but sessions that
    /// went silent then keep from the others what they will not use.
    pub revoke_beyond: f64,
    /// Explicit messages (grants to drained sessions, revocations from idle ones) that each reply
    /// pays for. Default 0.25: a busy server spends at most a quarter as many messages on them
    /// as on replies.
    pub messages_per_reply: f64,
    /// Explicit messages that may be saved up, and that an idle server may send at once. Default
    /// 16.
    pub message_burst: u32,
    /// Part of the pool that clients of protocols without credits may use while others hold all
    /// the rest. Default 0.25. What nobody holds they may use in any case.
    pub guest_share: f64,
    /// Requests in the server at once that may claim not to be droppable. Default 64; the excess
    /// is refused. Raise it only for senders that cannot retry.
    pub privileged_max: u32,
}

/// How a server knows what its clients have to send (Breakwater §3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Demand {
    /// It is told with requests, and guesses in between: every session may hold a credit more than
    /// it is known to need.
    Speculate,
    /// It is told of every change, and gives no credit that is not asked for. What Breakwater's
    /// evaluation compares with (§5.2, figure 8): a message for nearly every request, in both
    /// directions. Raise `messages_per_reply` with it.
    Synchronise,
}

/// The order in which drained sessions get free credits. Those with known demand always come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wake {
    /// Uniformly at random (Breakwater §3.2.2).
    Random,
    /// The highest recent request rate among a few random candidates.
    ByRate,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window_max: 64,
            demand: Demand::Speculate,
            wake: Wake::Random,
            revoke_beyond: 1.0,
            messages_per_reply: 0.25,
            message_burst: 16,
            guest_share: 0.25,
            privileged_max: 64,
        }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("credit.window_max", self.window_max, 1..=1 << 20)?;
        ConfigError::check_range("credit.revoke_beyond", self.revoke_beyond, 0.0..=f64::INFINITY)?;
        ConfigError::check_range("credit.messages_per_reply", self.messages_per_reply, 0.0..=64.0)?;
        ConfigError::check_range("credit.message_burst", self.message_burst, 1..=65_536)?;
        ConfigError::check_range("credit.guest_share", self.guest_share, 0.0..=1.0)?;
        ConfigError::check_range("credit.privileged_max", self.privileged_max, 0..=1 << 20)
    }
}
