//! How a run went over time: goodput, tail and drops in bins of fixed width.
//!
//! Breakwater samples load shifts every 20 ms (OSDI '20, section 5.2, figure 7). What is asked of a
//! shift is how long the service takes to settle, which [`Series::stable_after`] answers.
//!
//! Each number belongs to the time at which it became true: a request is *offered* in the bin of
//! its scheduled time, and everything about its end (success, latency, refusal, drop at the client)
//! is in the bin of its completion. During a shift the two therefore need not add up within a bin:
//! a request that waited 100 ms is offered five bins before it completes.

mod stability;

use std::time::Duration;

use hdrhistogram::Histogram;
use seawall_control::Instant;
use seawall_control::time::nanos;
use serde::{Deserialize, Serialize};

use crate::duration::Text;
use crate::latency::LONGEST;
use crate::outcome::Outcome;

pub use stability::{Settled, Stability};

/// Bins that a series may have: half an hour of 20 ms; each takes some kilobytes once it is used.
pub const MAX_BINS: u64 = 100_000;

/// Significant digits of a bin's percentile, which is for plots: at most 1 % above the true value.
const DIGITS: u8 = 2;

/// Configuration of a [`Series`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesConfig {
    /// Begin of the first bin: usually that of the run.
    pub start: Instant,
    /// End of the run. After `start`. What is left of it behind the last whole bin is not told:
    /// the rates of a moment are noise.
    pub end: Instant,
    /// Width of a bin, by default 20 ms. At least so wide that at most 100,000 bins suffice, and
    /// wide enough for some thousand completions, or chance alone moves goodput by a tenth.
    pub bin: Duration,
    /// The latency up to which a success is goodput. Above zero.
    pub slo: Duration,
}

impl SeriesConfig {
    /// Bins of 20 ms, as in the paper's figure 7.
    pub fn new(start: Instant, end: Instant, slo: Duration) -> Self {
        Self { start, end, bin: Duration::from_millis(20), slo }
    }
}

/// Why a [`SeriesConfig`] was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeriesConfigError {
    /// The SLO is zero.
    #[error("slo is 0s; allowed: above 0s")]
    Slo,
    /// The end does not come after the start.
    #[error("end is not after start; allowed: a run of more than 0s")]
    Empty,
    /// The bins are too narrow for the run, or have no width.
    #[error("bin is {bin}; allowed: above 0s and at most {MAX_BINS} bins in a run of {run}")]
    Bin {
        /// The width that was asked for.
        bin: Text,
        /// The length of the run.
        run: Text,
    },
}

/// The numbers of one bin. Rates are per second, delays in microseconds; a delay is `None` when
/// nothing was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Bin {
    /// Begin of the bin since the start of the series, in seconds.
    pub begin_seconds: f64,
    /// Requests per second scheduled in this bin and offered.
    pub offered: f64,
    /// Successes per second within the SLO that completed in this bin.
    pub goodput: f64,
    /// Successes per second that completed in this bin.
    pub throughput: f64,
    /// Requests per second given up unsent at the client in this bin.
    pub client_drops: f64,
    /// Refusals by the server per second that arrived in this bin.
    pub server_drops: f64,
    /// 99th percentile of the latency of the successes that completed in this bin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// Mean delay, from the scheduled time, of the refusals that arrived in this bin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reject_mean_us: Option<f64>,
}

/// A time series of outcomes; see the [module](self) for which bin a request belongs to.
#[derive(Clone, Debug)]
pub struct Series {
    config: SeriesConfig,
    cells: Vec<Cell>,
}

/// What is counted in one bin.
#[derive(Clone, Debug, Default)]
struct Cell {
    offered: u64,
    good: u64,
    successes: u64,
    client_drops: u64,
    server_drops: u64,
    reject_nanos: u128,
    /// Latencies of successes; made when the first one comes, since most of a long series may
    /// never be used. It grows with the longest latency.
    latency: Option<Histogram<u32>>,
}

impl Series {
    /// A series that has seen nothing.
    ///
    /// # Errors
    ///
    /// When the configuration makes no sense; the error names the field.
    pub fn new(config: SeriesConfig) -> Result<Self, SeriesConfigError> {
        if config.slo.is_zero() {
            return Err(SeriesConfigError::Slo);
        }
        let run = config.end.since(config.start);
        if run.is_zero() {
            return Err(SeriesConfigError::Empty);
        }
        let bins = match nanos(config.bin) {
            0 => u64::MAX,
            bin => nanos(run) / bin,
        };
        if bins > MAX_BINS {
            let (bin, run) = (Text(config.bin), Text(run));
            return Err(SeriesConfigError::Bin { bin, run });
        }
        Ok(Self { config, cells: vec![Cell::default(); bins as usize] })
    }

    /// Records how an offered request ended; the arguments are those of
    /// [`Recorder::record`](crate::Recorder::record).
    ///
    /// What lies before the start or after the last whole bin is not counted.
    pub fn record(&mut self, scheduled: Instant, finished: Instant, outcome: Outcome) {
        if let Some(cell) = self.cell(scheduled) {
            cell.offered += 1;
        }
        let slo = self.config.slo;
        if let Some(cell) = self.cell(finished) {
            cell.finish(finished.since(scheduled), outcome, slo);
        }
    }

    /// Adds what another series of the same run has seen.
    ///
    /// # Panics
    ///
    /// If the two have different configurations.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.config, other.config, "series of one run have one configuration");
        for (cell, other) in self.cells.iter_mut().zip(&other.cells) {
            cell.merge(other);
        }
    }

    /// The bins in order of time.
    pub fn bins(&self) -> impl Iterator<Item = Bin> + '_ {
        let width = self.config.bin.as_secs_f64();
        self.cells.iter().enumerate().map(move |(index, cell)| Bin {
            begin_seconds: self.begin(index).since(self.config.start).as_secs_f64(),
            offered: cell.offered as f64 / width,
            goodput: cell.good as f64 / width,
            throughput: cell.successes as f64 / width,
            client_drops: cell.client_drops as f64 / width,
            server_drops: cell.server_drops as f64 / width,
            p99_us: cell.p99_us(),
            reject_mean_us: cell.reject_mean_us(),
        })
    }

    /// How long after `shift` the run became stable as [`Stability::default`] has it, judged up to
    /// the end of the run.
    pub fn stable_after(&self, shift: Instant) -> Settled {
        self.stable_between(shift, self.config.end, &Stability::default())
    }

    /// How long after `shift` the run met `rule`, judged up to `until`: the end of the run or the
    /// next shift.
    ///
    /// Only bins that lie wholly between the two count, so that a shift inside a bin is judged from
    /// the next bin on.
    pub fn stable_between(&self, shift: Instant, until: Instant, rule: &Stability) -> Settled {
        let bin = self.config.bin;
        let whole = |index: &usize| {
            let begin = self.begin(*index);
            begin >= shift && begin + bin <= until
        };
        let indices: Vec<usize> = (0..self.cells.len()).filter(whole).collect();
        let cells: Vec<&Cell> = indices.iter().map(|&index| &self.cells[index]).collect();
        let needed = rule.bins(bin);
        if cells.len() < needed {
            return Settled::TooShort;
        }
        match rule.first_stable(&cells, needed) {
            Some(first) => Settled::After(self.begin(indices[first]).since(shift)),
            None => Settled::Never,
        }
    }

    /// The configuration.
    pub fn config(&self) -> &SeriesConfig {
        &self.config
    }

    fn begin(&self, index: usize) -> Instant {
        self.config.start + Duration::from_nanos(nanos(self.config.bin) * index as u64)
    }

    fn cell(&mut self, at: Instant) -> Option<&mut Cell> {
        if at < self.config.start {
            return None;
        }
        let index = nanos(at.since(self.config.start)) / nanos(self.config.bin);
        self.cells.get_mut(index as usize)
    }
}

impl Cell {
    fn finish(&mut self, latency: Duration, outcome: Outcome, slo: Duration) {
        match outcome {
            Outcome::Success => {
                self.successes += 1;
                self.good += u64::from(latency <= slo);
                let latency = nanos(latency.min(LONGEST));
                let histogram = self.latency.get_or_insert_with(empty_histogram);
                histogram.record(latency).expect("it grows as needed");
            }
            Outcome::Rejected => {
                self.server_drops += 1;
                self.reject_nanos += latency.as_nanos();
            }
            Outcome::DroppedAtClient(_) => self.client_drops += 1,
            Outcome::Cancelled | Outcome::Failed | Outcome::Unanswered => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        self.offered += other.offered;
        self.good += other.good;
        self.successes += other.successes;
        self.client_drops += other.client_drops;
        self.server_drops += other.server_drops;
        self.reject_nanos += other.reject_nanos;
        if let Some(latency) = &other.latency {
            let histogram = self.latency.get_or_insert_with(empty_histogram);
            histogram.add(latency).expect("it grows as needed");
        }
    }

    fn p99_us(&self) -> Option<f64> {
        let histogram = self.latency.as_ref()?;
        Some(histogram.value_at_quantile(0.99) as f64 / 1_000.0)
    }

    fn reject_mean_us(&self) -> Option<f64> {
        let drops = self.server_drops;
        (drops > 0).then(|| self.reject_nanos as f64 / drops as f64 / 1_000.0)
    }
}

fn empty_histogram() -> Histogram<u32> {
    Histogram::new(DIGITS).expect("a constant precision is valid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::DropReason;

    const SLO: Duration = Duration::from_micros(200);

    fn at(ms: u64) -> Instant {
        Instant::from_micros(1_000 * ms)
    }

    fn series() -> Series {
        Series::new(SeriesConfig::new(at(100), at(190), SLO)).unwrap()
    }

    #[test]
    fn each_number_is_in_its_bin() {
        let mut series = series();
        let fast = Duration::from_micros(150);
        series.record(at(100), at(100) + fast, Outcome::Success);
        // Offered in the first bin, done in the third and too late for goodput.
        series.record(at(119), at(140), Outcome::Success);
        series.record(at(121), at(123), Outcome::Rejected);
        series.record(at(121), at(125), Outcome::Rejected);
        let drop = Outcome::DroppedAtClient(DropReason::Expired);
        series.record(at(122), at(161), drop);
        series.record(at(122), at(162), Outcome::Unanswered);
        let bins: Vec<Bin> = series.bins().collect();
        assert_eq!(bins.len(), 4, "90 ms are four whole bins");
        let column = |f: fn(&Bin) -> f64| bins.iter().map(f).collect::<Vec<_>>();
        assert_eq!(column(|bin| bin.offered), [100.0, 200.0, 0.0, 0.0]);
        assert_eq!(column(|bin| bin.goodput), [50.0, 0.0, 0.0, 0.0]);
        assert_eq!(column(|bin| bin.throughput), [50.0, 0.0, 50.0, 0.0]);
        assert_eq!(column(|bin| bin.server_drops), [0.0, 100.0, 0.0, 0.0]);
        assert_eq!(column(|bin| bin.client_drops), [0.0, 0.0, 0.0, 50.0]);
        assert_eq!(column(|bin| bin.begin_seconds), [0.0, 0.02, 0.04, 0.06]);
        assert_eq!(bins[1].reject_mean_us, Some(3_000.0));
        assert_eq!(bins[1].p99_us, None);
        let p99 = bins[2].p99_us.unwrap();
        assert!((21_000.0..21_210.0).contains(&p99), "{p99}");
    }

    #[test]
    fn what_lies_outside_is_not_counted() {
        let mut series = series();
        series.record(at(99), at(99), Outcome::Success);
        series.record(at(180), at(189), Outcome::Success);
        series.record(at(200), at(300), Outcome::Success);
        assert!(series.bins().all(|bin| bin.offered == 0.0 && bin.throughput == 0.0));
        series.record(at(99), at(100), Outcome::Success);
        assert_eq!(series.bins().next().unwrap().throughput, 50.0);
    }

    #[test]
    fn merged_equals_recorded_together() {
        let (mut left, mut right, mut both) = (series(), series(), series());
        for n in 0..900_u64 {
            let scheduled = at(100) + Duration::from_micros(n * 100);
            let finished = scheduled + Duration::from_micros(n);
            let outcome = if n % 7 == 0 { Outcome::Rejected } else { Outcome::Success };
            let part = if n % 3 == 0 { &mut left } else { &mut right };
            part.record(scheduled, finished, outcome);
            both.record(scheduled, finished, outcome);
        }
        left.merge(&right);
        assert_eq!(left.bins().collect::<Vec<_>>(), both.bins().collect::<Vec<_>>());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let config = SeriesConfig::new(at(0), at(1_000), SLO);
        let message = |config| Series::new(config).unwrap_err().to_string();
        assert!(message(SeriesConfig { slo: Duration::ZERO, ..config }).starts_with("slo is 0s"));
        assert!(message(SeriesConfig { end: at(0), ..config }).starts_with("end is not after"));
        let bin = Duration::ZERO;
        assert!(message(SeriesConfig { bin, ..config }).starts_with("bin is 0s; allowed: above"));
        let bin = Duration::from_micros(1);
        let error = message(SeriesConfig { bin, ..config });
        assert_eq!(error, "bin is 1us; allowed: above 0s and at most 100000 bins in a run of 1s");
        let bin = Duration::from_micros(10);
        assert_eq!(Series::new(SeriesConfig { bin, ..config }).unwrap().bins().count(), 100_000);
    }
}
