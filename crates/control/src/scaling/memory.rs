//! What a scaler has learned, as plain data: so that an agent which restarts does not forget.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// Containers of which something is remembered; those beyond are refused. As many as fit on a very
/// large node, ten times.
pub const CONTAINERS_MAX: usize = 10_000;

/// What was learned of all containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// One entry for each container of which anything is known, at most [`CONTAINERS_MAX`].
    pub containers: Vec<Remembered>,
}

/// What was learned of one container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Remembered {
    /// Its [`ContainerId`](super::ContainerId). Whoever numbers containers anew after a restart
    /// renumbers these.
    pub id: u64,
    /// Mean execution at low load, without waits for connections, nanoseconds.
    pub exec_ns: Option<f64>,
    /// Mean time from the start of the job at low load, nanoseconds.
    pub time_from_start_ns: Option<f64>,
    /// `queueBuildup` at low load.
    pub queue_buildup: Option<f64>,
    /// Delay at low load that no execution explains, for each service before, nanoseconds.
    pub residual_ns: Option<f64>,
    /// Average execution time in nanoseconds at each number of units that it has had: a row of
    /// `execAvg` (SurgeGuard §III-C).
    pub exec_avg: Vec<(u32, f64)>,
}

impl Remembered {
    /// Whether it is something that can have been learned.
    pub(super) fn is_sound(&self) -> bool {
        let Self { exec_ns, time_from_start_ns, queue_buildup, residual_ns, .. } = self;
        let is_time = |value: &f64| value.is_finite() && *value >= 0.0;
        [exec_ns, time_from_start_ns, queue_buildup, residual_ns]
            .into_iter()
            .all(|value| value.as_ref().is_none_or(is_time))
            && self.exec_avg.iter().all(|(_, average)| is_time(average))
    }

    /// Whether it says anything.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self { id: self.id, ..Self::default() }
    }
}
