//! What claims, figures and tables ask of a run, wherever it was measured.

use seawall_measure::latency::Slower;
use seawall_measure::{Bin, ClassSummary};

use super::case::Params;
use crate::outcome;

/// One run of a plan: simulated, or on a live server.
pub trait Measured {
    /// Which case of the plan it is.
    fn params(&self) -> &Params;

    /// Tells it from other runs of the same case. Runs of different cases with equal seeds are
    /// compared with each other: they have equal arrivals.
    fn seed(&self) -> u64;

    /// The SLO, in microseconds.
    fn slo_us(&self) -> f64;

    /// A number by its name; `None` when there is no such, or nothing was measured.
    fn metric(&self, name: &str) -> Option<f64>;

    /// The numbers of each class of requests.
    fn classes(&self) -> &[ClassSummary];

    /// The run over time; empty when that was not asked for.
    fn series(&self) -> &[Bin];

    /// A number over time by its name: seconds since the start, and the number.
    fn over_time(&self, name: &str) -> Vec<(f64, f64)> {
        outcome::over_time(self.series(), name)
    }

    /// The complementary distribution of the latencies; empty when that was not asked for.
    fn ccdf(&self) -> &[Slower];

    /// Whether the load was really offered. If not, the numbers describe the generator rather than
    /// the server. Default: a simulated one always is.
    fn is_valid(&self) -> bool {
        true
    }
}
