//! How badly latency missed its target: violation volume (SurgeGuard §II-D, Fig. 3), and what that
//! took in CPUs.
//!
//! ```text
//!  latency │        ▄▆▄            area: the part of the curve above the target, milliseconds
//!          │      ▄█████▆▄         of latency times seconds of time
//!  QoS ────┼─────█████████▆▄─────  excess: mean milliseconds above the target over all requests
//!          │▂▂▃▅███████████▇▅▃▂▂
//!          └──────────────────── time (of the requests' schedule)
//! ```
//!
//! The paper draws an area; the authors' load generator prints a mean excess. At one rate the two
//! are proportional. Where rates differ during a run they are not, since a busy second counts for
//! more requests but for no more time. Both are told.
//!
//! Latency counts from the scheduled time. A request that is never answered has waited to the end
//! of the run.
//!
//! ```
//! use std::time::Duration;
//!
//! use seawall_control::Instant;
//! use seawall_measure::{Violation, ViolationConfig, Window};
//!
//! let second = Duration::from_secs(1);
//! let window = Window::after_warm_up(Instant::ORIGIN, Duration::ZERO, second);
//! let config = ViolationConfig::new(Duration::from_millis(10), window);
//! let mut violation = Violation::new(config)?;
//! // One request in each tenth of a second. Two of them take 30 ms, the others 5 ms.
//! for n in 0..10 {
//!     let at = Instant::ORIGIN + second * n / 10;
//!     let latency = Duration::from_millis(if n < 2 { 30 } else { 5 });
//!     violation.record(at, at + latency);
//! }
//! let volume = violation.volume(window.end);
//! // 20 ms above the target for 0.2 s; 40 ms shared by ten requests.
//! assert_eq!((volume.area_ms_s, volume.excess_ms), (4.0, 4.0));
//! # Ok::<(), seawall_measure::violation::ViolationConfigError>(())
//! ```

use std::time::Duration;

use seawall_control::Instant;
use seawall_control::time::nanos;
use serde::{Deserialize, Serialize};

use crate::duration::Text;
use crate::recorder::Window;

/// Bins of a curve at most.
pub const BINS_MAX: u64 = 100_000;

/// The authors' generator takes longer latencies than so many targets for one less (`wrk.c`).
const CAP: u32 = 400;

/// What a violation is, and when it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViolationConfig {
    /// The latency that requests should not exceed, from the scheduled time. Above zero.
    pub qos: Duration,
    /// Requests that are scheduled in it count.
    pub window: Window,
    /// Width of the bins of which the curve is made, by default 100 ms. A request belongs to the
    /// bin of its scheduled time. A curve of wider bins is smoother, and what one bin evens out is
    /// no area. At most 100,000 bins.
    pub bin: Duration,
    /// What stands for the requests of a bin, by default their mean.
    pub statistic: Statistic,
}

impl ViolationConfig {
    /// The mean of each tenth of a second.
    pub fn new(qos: Duration, window: Window) -> Self {
        Self { qos, window, bin: Duration::from_millis(100), statistic: Statistic::Mean }
    }
}

/// What stands for the latencies of a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Statistic {
    /// Their mean.
    #[default]
    Mean,
    /// Their 98th percentile: the paper's tail.
    P98,
}

/// Why a [`ViolationConfig`] was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViolationConfigError {
    /// The target is zero.
    #[error("qos is 0s; allowed: above 0s")]
    Qos,
    /// The window is empty.
    #[error("window is 0s long; allowed: above 0s (end after start)")]
    Window,
    /// The bins are too narrow for the window, or have no width.
    #[error("bin is {bin}; allowed: above 0s and at most {BINS_MAX} bins in {window}")]
    Bin {
        /// The width that was asked for.
        bin: Text,
        /// The length of the window.
        window: Text,
    },
}

/// What came of a run. All numbers are of requests scheduled within the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Volume {
    /// The target, in milliseconds.
    pub qos_ms: f64,
    /// Area of the latency curve above the target, in milliseconds of latency times seconds
    /// (Fig. 3). Bins without requests have none. Nothing is capped.
    pub area_ms_s: f64,
    /// Mean excess of all requests over the target, in milliseconds: an excess of more than 400
    /// targets counts as 399 (the authors' generator).
    ///
    /// Deviation: that divides by answered requests alone, measures from the time of sending, and
    /// counts the warm-up, too.
    pub excess_ms: f64,
    /// Requests that were answered or never ended.
    pub requests: u64,
    /// Those of them that were above the target, unanswered ones included.
    pub violations: u64,
    /// Those of them that had no answer at the end; each has waited until then.
    pub unanswered: u64,
    /// Requests that were refused or failed: they have no latency, so they are in no volume. A run
    /// with many of them says little about the others.
    pub refused: u64,
}

/// One bin of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CurvePoint {
    /// Begin of the bin, in seconds since the start of the window.
    pub begin_seconds: f64,
    /// Its latency in milliseconds; `None` where no request was scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// Its requests.
    pub requests: u64,
}

/// Counts violations while a run goes on.
#[derive(Clone, Debug)]
pub struct Violation {
    config: ViolationConfig,
    cells: Vec<Cell>,
    excess_nanos: u128,
    requests: u64,
    violations: u64,
    /// Scheduled times of requests that had no answer.
    unanswered: Vec<Instant>,
    refused: u64,
}

/// The answered requests of one bin.
#[derive(Clone, Debug, Default)]
struct Cell {
    count: u64,
    sum_nanos: u128,
    /// Each of them, where a quantile is asked for.
    each: Vec<u64>,
}

impl Violation {
    /// Nothing has happened yet.
    ///
    /// # Errors
    ///
    /// Names the field that makes no sense, and what is allowed.
    pub fn new(config: ViolationConfig) -> Result<Self, ViolationConfigError> {
        if config.qos.is_zero() {
            return Err(ViolationConfigError::Qos);
        }
        let length = config.window.length();
        if length.is_zero() {
            return Err(ViolationConfigError::Window);
        }
        let bins = match nanos(config.bin) {
            0 => u64::MAX,
            bin => nanos(length).div_ceil(bin),
        };
        if bins > BINS_MAX {
            let (bin, window) = (Text(config.bin), Text(length));
            return Err(ViolationConfigError::Bin { bin, window });
        }
        Ok(Self {
            config,
            cells: vec![Cell::default(); bins as usize],
            excess_nanos: 0,
            requests: 0,
            violations: 0,
            unanswered: Vec::new(),
            refused: 0,
        })
    }

    /// A request was answered.
    pub fn record(&mut self, scheduled: Instant, completed: Instant) {
        if let Some(bin) = self.bin(scheduled) {
            self.count(completed.since(scheduled));
            let keep = self.config.statistic != Statistic::Mean;
            self.cells[bin].add(completed.since(scheduled), keep);
        }
    }

    /// A request was refused or failed.
    pub fn record_refused(&mut self, scheduled: Instant) {
        self.refused += u64::from(self.bin(scheduled).is_some());
    }

    /// A request has no answer, and nobody waits for one any more.
    pub fn record_unanswered(&mut self, scheduled: Instant) {
        if self.bin(scheduled).is_some() {
            self.unanswered.push(scheduled);
        }
    }

    /// Adds what another thread of the same run counted.
    ///
    /// # Panics
    ///
    /// If the configurations differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.config, other.config, "counts of one run have one configuration");
        for (cell, other) in self.cells.iter_mut().zip(&other.cells) {
            cell.count += other.count;
            cell.sum_nanos += other.sum_nanos;
            cell.each.extend(&other.each);
        }
        self.excess_nanos += other.excess_nanos;
        self.requests += other.requests;
        self.violations += other.violations;
        self.unanswered.extend(&other.unanswered);
        self.refused += other.refused;
    }

    /// The volume of a run that ended at `end`, when nobody waited for answers any more.
    pub fn volume(&self, end: Instant) -> Volume {
        let all = self.with_unanswered(end);
        let millis = |nanos: f64| nanos / 1e6;
        let qos = nanos(self.config.qos) as f64;
        let window = nanos(self.config.window.length());
        let bin = nanos(self.config.bin);
        let area = |(index, cell): (usize, &Cell)| {
            // The last bin may be cut off.
            let width = bin.min(window - index as u64 * bin) as f64 / 1e9;
            let latency = cell.latency(self.config.statistic)?;
            Some(millis((latency - qos).max(0.0)) * width)
        };
        Volume {
            qos_ms: millis(qos),
            area_ms_s: all.cells.iter().enumerate().filter_map(area).sum(),
            excess_ms: millis(all.excess_nanos as f64 / all.requests.max(1) as f64),
            requests: all.requests,
            violations: all.violations,
            unanswered: self.unanswered.len() as u64,
            refused: self.refused,
        }
    }

    /// The latency over time whose area above the target is [`Volume::area_ms_s`].
    pub fn curve(&self, end: Instant) -> Vec<CurvePoint> {
        let all = self.with_unanswered(end);
        let point = |(index, cell): (usize, &Cell)| CurvePoint {
            begin_seconds: (self.config.bin * index as u32).as_secs_f64(),
            latency_ms: cell.latency(self.config.statistic).map(|nanos| nanos / 1e6),
            requests: cell.count,
        };
        all.cells.iter().enumerate().map(point).collect()
    }

    /// The configuration.
    pub fn config(&self) -> &ViolationConfig {
        &self.config
    }

    /// The same where everybody who still waited has waited to `end`.
    fn with_unanswered(&self, end: Instant) -> Self {
        let mut all = self.clone();
        for scheduled in all.unanswered.clone() {
            all.record(scheduled, end);
        }
        all
    }

    fn count(&mut self, latency: Duration) {
        let qos = self.config.qos;
        let excess = latency.saturating_sub(qos);
        let counted =
            if latency > qos.saturating_mul(CAP) { qos.saturating_mul(CAP - 1) } else { excess };
        self.requests += 1;
        self.violations += u64::from(!excess.is_zero());
        self.excess_nanos += counted.as_nanos();
    }

    fn bin(&self, scheduled: Instant) -> Option<usize> {
        let window = self.config.window;
        let since = nanos(scheduled.since(window.start));
        window.contains(scheduled).then(|| (since / nanos(self.config.bin)) as usize)
    }
}

impl Cell {
    fn add(&mut self, latency: Duration, keep: bool) {
        self.count += 1;
        self.sum_nanos += latency.as_nanos();
        if keep {
            self.each.push(nanos(latency));
        }
    }

    /// Nanoseconds; `None` without any request.
    fn latency(&self, statistic: Statistic) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        Some(match statistic {
            Statistic::Mean => self.sum_nanos as f64 / self.count as f64,
            Statistic::P98 => {
                let mut each = self.each.clone();
                // The smallest that 98 of 100 do not exceed.
                let rank = (self.count * 98).div_ceil(100) as usize - 1;
                *each.select_nth_unstable(rank).1 as f64
            }
        })
    }
}

/// A quantity that changes in steps, and its mean over time: cores that containers have.
///
/// ```
/// use std::time::Duration;
///
/// use seawall_control::Instant;
/// use seawall_measure::Window;
/// use seawall_measure::violation::Steps;
///
/// let (start, second) = (Instant::ORIGIN, Duration::from_secs(1));
/// let mut cores = Steps::new(Window { start, end: start + second * 4 });
/// cores.set(start, 34.0);
/// cores.set(start + second * 3, 42.0);
/// assert_eq!(cores.mean(), Some(36.0));
/// ```
#[derive(Clone, Debug)]
pub struct Steps {
    window: Window,
    since: Option<(Instant, f64)>,
    /// Value times seconds up to there.
    sum: f64,
    seconds: f64,
}

impl Steps {
    /// Counts within a window.
    pub fn new(window: Window) -> Self {
        Self { window, since: None, sum: 0.0, seconds: 0.0 }
    }

    /// From `at` on it has this value. Times come in order.
    pub fn set(&mut self, at: Instant, value: f64) {
        (self.sum, self.seconds) = self.up_to(at);
        self.since = Some((at, value));
    }

    /// The mean within the window, weighted by time, from the first value on; `None` without any.
    pub fn mean(&self) -> Option<f64> {
        let (sum, seconds) = self.up_to(self.window.end);
        (seconds > 0.0).then(|| sum / seconds)
    }

    fn up_to(&self, at: Instant) -> (f64, f64) {
        let Some((since, value)) = self.since else { return (self.sum, self.seconds) };
        let Window { start, end } = self.window;
        let seconds = at.min(end).since(since.max(start)).as_secs_f64();
        (self.sum + value * seconds, self.seconds + seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_micros(1_000_000);

    fn at(ms: u64) -> Instant {
        START + Duration::from_millis(ms)
    }

    /// A target of 10 ms, and a second in which it counts.
    fn config() -> ViolationConfig {
        let window = Window { start: START, end: at(1_000) };
        ViolationConfig::new(Duration::from_millis(10), window)
    }

    fn recorded(config: ViolationConfig, latencies: &[(u64, u64)]) -> Violation {
        let mut violation = Violation::new(config).unwrap();
        for &(scheduled, latency) in latencies {
            violation.record(at(scheduled), at(scheduled + latency));
        }
        violation
    }

    #[test]
    fn volumes_are_what_a_hand_computes() {
        // First bin: mean (5 + 45) / 2 = 25 ms, 15 above. Second bin: mean 8 ms, none above, though
        // one request is. Tenth bin: 110 ms, 100 above.
        let violation = recorded(config(), &[(0, 5), (99, 45), (100, 2), (199, 14), (950, 110)]);
        let volume = violation.volume(at(2_000));
        assert!((volume.area_ms_s - (15.0 * 0.1 + 100.0 * 0.1)).abs() < 1e-9, "{volume:?}");
        // 35 + 4 + 100 ms of excess, five requests.
        assert!((volume.excess_ms - 139.0 / 5.0).abs() < 1e-9, "{volume:?}");
        assert_eq!((volume.requests, volume.violations, volume.unanswered), (5, 3, 0));
        let curve = violation.curve(at(2_000));
        assert_eq!(curve.len(), 10);
        assert_eq!((curve[0].latency_ms, curve[0].requests), (Some(25.0), 2));
        assert_eq!((curve[2].latency_ms, curve[2].requests), (None, 0));
        assert_eq!(curve[9].begin_seconds, 0.9);
    }

    /// Two surges of one shape at different rates: twice the requests are no more area, and twice
    /// the excess only as far as they are more of all requests.
    #[test]
    fn the_two_differ_where_rates_do() {
        let calm: Vec<_> = (0..10).map(|n| (n * 100, 5)).collect();
        let surge = |each: u64| (0..each).map(move |n| (500 + n, 30));
        let volume = |each| {
            let all: Vec<_> = calm.iter().copied().chain(surge(each)).collect();
            recorded(config(), &all).volume(at(1_000))
        };
        let (one, many) = (volume(9), volume(90));
        // The surge's bin has one calm request, too: (9 * 30 + 5) / 10 - 10.
        assert!((one.area_ms_s - 1.75).abs() < 1e-9, "{one:?}");
        assert!((many.area_ms_s - 0.1 * (2_705.0 / 91.0 - 10.0)).abs() < 1e-9, "{many:?}");
        assert!((one.excess_ms - 180.0 / 19.0).abs() < 1e-9, "{one:?}");
        assert!((many.excess_ms - 1_800.0 / 100.0).abs() < 1e-9, "{many:?}");
    }

    #[test]
    fn requests_without_answer_have_waited_to_the_end() {
        let mut violation = recorded(config(), &[(0, 10)]);
        violation.record_unanswered(at(600));
        violation.record_refused(at(650));
        let volume = violation.volume(at(1_100));
        // 500 ms of wait, 490 above the target, in one bin.
        assert!((volume.area_ms_s - 49.0).abs() < 1e-9, "{volume:?}");
        assert!((volume.excess_ms - 245.0).abs() < 1e-9, "{volume:?}");
        let counts = (volume.requests, volume.violations, volume.unanswered, volume.refused);
        assert_eq!(counts, (2, 1, 1, 1));
        assert_eq!(violation.volume(at(1_100)), volume, "asking changes nothing");
    }

    #[test]
    fn the_mean_excess_is_capped_and_the_area_is_not() {
        let volume = recorded(config(), &[(0, 4_000), (1, 4_001)]).volume(at(9_000));
        // 399 targets for one that took just 400, and as many for the longer one.
        assert!((volume.excess_ms - 3_990.0).abs() < 1e-9, "{volume:?}");
        assert!((volume.area_ms_s - 399.05).abs() < 1e-9, "{volume:?}");
    }

    #[test]
    fn only_the_window_counts_and_its_last_bin_may_be_cut_off() {
        let window = Window { start: START, end: at(250) };
        let config = ViolationConfig { window, ..config() };
        let mut violation = recorded(config, &[(249, 30), (250, 500)]);
        let before = START - Duration::from_millis(1);
        violation.record(before, at(900));
        violation.record_unanswered(at(250));
        violation.record_refused(before);
        let volume = violation.volume(at(900));
        assert!((volume.area_ms_s - 20.0 * 0.05).abs() < 1e-9, "{volume:?}");
        assert_eq!((volume.requests, volume.unanswered, volume.refused), (1, 0, 0));
    }

    #[test]
    fn a_tail_may_stand_for_a_bin() {
        let config = ViolationConfig { statistic: Statistic::P98, ..config() };
        // Of 50 requests one may be slower than the 98th percentile.
        let all: Vec<_> = (0..50).map(|n| (n, if n < 48 { 5 } else { n })).collect();
        let volume = recorded(config, &all).volume(at(1_000));
        assert!((volume.area_ms_s - 3.8).abs() < 1e-9, "{volume:?}");
    }

    #[test]
    fn parts_of_a_run_add_up() {
        let all = [(0, 5), (99, 45), (100, 2), (950, 110)];
        let (mut left, right) = (recorded(config(), &all[..1]), recorded(config(), &all[1..]));
        left.merge(&right);
        assert_eq!(left.volume(at(1_000)), recorded(config(), &all).volume(at(1_000)));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let message = |config| Violation::new(config).unwrap_err().to_string();
        let zero = Duration::ZERO;
        assert_eq!(
            message(ViolationConfig { qos: zero, ..config() }),
            "qos is 0s; allowed: above 0s"
        );
        let window = Window { start: START, end: START };
        assert!(message(ViolationConfig { window, ..config() }).starts_with("window is 0s long"));
        for bin in [zero, Duration::from_nanos(9_999)] {
            let message = message(ViolationConfig { bin, ..config() });
            assert!(message.ends_with("above 0s and at most 100000 bins in 1s"), "{message}");
        }
    }

    #[test]
    fn means_over_time_are_of_the_window() {
        let mut cores = Steps::new(Window { start: at(1_000), end: at(2_000) });
        assert_eq!(cores.mean(), None);
        cores.set(at(0), 10.0);
        cores.set(at(1_250), 20.0);
        cores.set(at(1_500), 14.0);
        cores.set(at(5_000), 99.0);
        // A quarter at 10, a quarter at 20, half at 14.
        assert_eq!(cores.mean(), Some(14.5));
        let mut late = Steps::new(Window { start: at(1_000), end: at(2_000) });
        late.set(at(1_500), 7.0);
        assert_eq!(late.mean(), Some(7.0), "nothing is made up for the time before");
    }
}
