//! Escalator: more CPU for the container that is the cause (SurgeGuard §IV-B).
//!
//! Execution time without waits for connections says whether a container itself is slow; these
//! waits say that those behind it are. A matrix of execution time over units says to whom a unit is
//! worth most, and who would not miss one.
//!
//! [`Variant::Paper`] is what the paper describes, [`Variant::Released`] what its artifact does.

mod paper;
mod released;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use self::paper::Paper;
use self::released::Released;
use super::hint::HOPS_MAX;
use super::intake::{self, check_duration};
use super::scaler::Policy;
use crate::config::{ConfigError, duration};

/// The paper's interval between decisions (SurgeGuard table I).
const INTERVAL_PAPER: Duration = Duration::from_micros(200);

/// The artifact's.
const INTERVAL_RELEASED: Duration = Duration::from_millis(100);

/// Parameters of Escalator. The released variant uses `interval`, and its own constants for the
/// rest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whose rules. Default the paper's.
    pub variant: Variant,
    /// From one decision to the next. Default: the variant's, 200us in the paper and 100ms in the
    /// artifact. 1us to 1m.
    #[serde(with = "duration::option")]
    pub interval: Option<Duration>,
    /// Whether waits for connections are told apart, and hints sent and obeyed. Without that,
    /// execution counts as a whole, as for Parties (ablation, figure 15). Default true.
    pub metrics: bool,
    /// Whether the sensitivity orders candidates and revokes units. Without that, the slowest is
    /// first (ablation, figure 15). Default true.
    pub sensitivity: bool,
    /// Whether a container that refuses requests for want of CPU is a candidate. Default true.
    pub shed: bool,
    /// In which form containers learn that those before them wait for them. Default the counter.
    pub hint: HintForm,
    /// Hops that a new hint goes. Default 3: the paper gives no value, and an earlier version of
    /// its artifact raises the next three containers. 1 to 16. As long as the chain behind a pool,
    /// if that is longer: what lies behind the last hop is not seen.
    pub hint_start: u16,
    /// A container's requests wait for connections if its queue buildup is more than so many times
    /// that at low load (`QUEUE_TH`). Default 4: the paper gives no value, and an earlier version
    /// of its artifact has this one. 1.01 to 1000.
    pub queue_threshold: f64,
    /// And they do so until it is less than so many times that. Default 1.5. 1 to
    /// `queue_threshold`.
    pub queue_ok: f64,
    /// A container is slow if its execution is more than so many times what is expected
    /// (`EXEC_TH`). Default 1.05. 0.1 to 100.
    pub exec_threshold: f64,
    /// And at ease if it is less than so many times that. Default 0.95. 0.01 to `exec_threshold`.
    pub exec_ok: f64,
    /// In the residual form, requests are late if the unexplained delay is more than so many times
    /// that at low load. Default 1.236, the artifact's 1.03 × 1.2. 1.01 to 1000.
    pub residual_threshold: f64,
    /// Weight of the older average in the sensitivity matrix (α). Default 0.5. 0 to 0.99.
    pub alpha: f64,
    /// Requests of one observation in it. Default 100: sensitivities of a few per cent drown in the
    /// noise of fewer. 1 to 1,000,000.
    pub matrix_samples: u64,
    /// A unit whose worth is less is revoked. Default 0.02. -1 to 1.
    pub revoke_below: f64,
    /// Unless it is less than this: more units that make a container slower are noise. Default
    /// -0.05. -1 to `revoke_below`.
    pub revoke_above: f64,
    /// Whether units are revoked from a container whose requests bring a hint, too. Default false;
    /// true is the paper's letter.
    pub revoke_hinted: bool,
    /// After a change, a container gets no more before this many times its expected execution time
    /// has passed, and the averaging window. Default 2. 0 to 1000; 0 gives a unit in every
    /// interval.
    pub settle: f64,
    /// A container that is at ease gives up one step in this time. Default 100ms, the interval of
    /// Parties, whose rule that is. 1us to 1h.
    #[serde(with = "duration")]
    pub lower_every: Duration,
    /// A unit that is worth nothing is revoked once in this time. Default 300ms, as in the
    /// artifact. 1us to 1h.
    #[serde(with = "duration")]
    pub revoke_every: Duration,
    /// How often a change is one of frequency rather than of units, where both are possible.
    /// Default 0.5, the coin of Parties in the artifact. 0 to 1.
    pub frequency_chance: f64,
}

/// Whose rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Scores, order, revocation and downscaling of SurgeGuard §III-C and §IV-B.
    #[default]
    Paper,
    /// Those of the artifact (tag v1.0): scores that start at 1 and that fast execution sets to 0,
    /// order by execution time, revocation at every third sample, downscaling when all scores are
    /// 0.
    Released,
}

/// In which form containers learn that those before them wait for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HintForm {
    /// Hops on the requests, counted down (SurgeGuard §IV).
    #[default]
    Counter,
    /// The delay since the job's start that no execution before explains, seen by the receiver: the
    /// artifact's.
    Residual,
    /// Either.
    Both,
}

impl HintForm {
    fn counts(self) -> bool {
        matches!(self, Self::Counter | Self::Both)
    }

    fn measures(self) -> bool {
        matches!(self, Self::Residual | Self::Both)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            variant: Variant::Paper,
            interval: None,
            metrics: true,
            sensitivity: true,
            shed: true,
            hint: HintForm::Counter,
            hint_start: 3,
            queue_threshold: 4.0,
            queue_ok: 1.5,
            exec_threshold: 1.05,
            exec_ok: 0.95,
            residual_threshold: 1.236,
            alpha: 0.5,
            matrix_samples: 100,
            revoke_below: 0.02,
            revoke_above: -0.05,
            revoke_hinted: false,
            settle: 2.0,
            lower_every: Duration::from_millis(100),
            revoke_every: Duration::from_millis(300),
            frequency_chance: 0.5,
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
        use ConfigError as E;
        let (us, minute, hour) =
            (Duration::from_micros(1), Duration::from_mins(1), Duration::from_hours(1));
        check_duration("escalator.interval", self.interval(), us, minute)?;
        E::check_range("escalator.hint_start", self.hint_start, 1..=HOPS_MAX)?;
        E::check_range("escalator.queue_threshold", self.queue_threshold, 1.01..=1e3)?;
        E::check_range("escalator.queue_ok", self.queue_ok, 1.0..=self.queue_threshold)?;
        E::check_range("escalator.exec_threshold", self.exec_threshold, 0.1..=100.0)?;
        E::check_range("escalator.exec_ok", self.exec_ok, 0.01..=self.exec_threshold)?;
        E::check_range("escalator.residual_threshold", self.residual_threshold, 1.01..=1e3)?;
        E::check_range("escalator.alpha", self.alpha, 0.0..=0.99)?;
        E::check_range("escalator.matrix_samples", self.matrix_samples, 1..=1_000_000)?;
        E::check_range("escalator.revoke_below", self.revoke_below, -1.0..=1.0)?;
        E::check_range("escalator.revoke_above", self.revoke_above, -1.0..=self.revoke_below)?;
        E::check_range("escalator.settle", self.settle, 0.0..=1e3)?;
        check_duration("escalator.lower_every", self.lower_every, us, hour)?;
        check_duration("escalator.revoke_every", self.revoke_every, us, hour)?;
        E::check_range("escalator.frequency_chance", self.frequency_chance, 0.0..=1.0)
    }

    /// From one decision to the next.
    pub fn interval(&self) -> Duration {
        self.interval.unwrap_or(match self.variant {
            Variant::Paper => INTERVAL_PAPER,
            Variant::Released => INTERVAL_RELEASED,
        })
    }

    pub(super) fn policy(&self, intake: intake::Config, seed: u64) -> Box<dyn Policy> {
        match self.variant {
            Variant::Paper => Box::new(Paper::new(*self, intake.window, seed)),
            Variant::Released => Box::new(Released::new()),
        }
    }
}
