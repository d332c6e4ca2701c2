//! How a service settles after a shift of its load.

use std::time::Duration;

use seawall_control::time::nanos;

use super::Cell;

/// How a service took a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was stable from so long after the shift on.
    After(Duration),
    /// It never was.
    Never,
    /// The end came before anything could be stable: there are fewer bins than have to hold.
    TooShort,
}

/// What it means to be stable after a shift: from some time on, every bin for the length of `hold`
/// has a goodput of at least `goodput_share` of the final mean, and a 99th percentile within the
/// SLO.
///
/// The *final mean* is the mean goodput over the last `final_share` of the time from the shift to
/// the end. It is the service's own final level, so that this measures how fast a service settles,
/// not how well: one that settles at half of its capacity is stable too.
///
/// A bin of some hundred completions misses nine tenths of its mean, or has two late ones in a
/// hundred, by chance alone and often. So neighbouring bins are judged together, as many as it
/// takes for `sample` completions at the final mean, but at most those of one `hold`; at the
/// rates of the paper's evaluation that is each bin by itself.
///
/// A bin without any success is never stable, nor is a run whose final mean is zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stability {
    /// How long the bins must hold, by default 500 ms; at least one bin.
    pub hold: Duration,
    /// Least goodput of a bin over the final mean, by default 0.9.
    pub goodput_share: f64,
    /// Completions that are judged together at least, by default 2,000: then chance moves goodput
    /// by some percent and not by a tenth.
    pub sample: u64,
    /// Whether the 99th percentile has to be within the SLO too; by default it has.
    pub tail: bool,
    /// Which part of the time from the shift to the end gives the final mean, by default the last
    /// quarter: long enough to average, and late enough that a slow service has settled. Above 0
    /// to 1.
    pub final_share: f64,
}

impl Default for Stability {
    fn default() -> Self {
        Self {
            hold: Duration::from_millis(500),
            goodput_share: 0.9,
            sample: 2_000,
            tail: true,
            final_share: 0.25,
        }
    }
}

impl Stability {
    /// The same rule with every bin judged by itself, however few requests complete in it.
    #[must_use]
    pub fn bin_by_bin(self) -> Self {
        Self { sample: 1, ..self }
    }

    /// The same rule for goodput alone.
    #[must_use]
    pub fn goodput_alone(self) -> Self {
        Self { tail: false, ..self }
    }

    /// How many bins of this width must hold.
    pub(super) fn bins(&self, bin: Duration) -> usize {
        nanos(self.hold).div_ceil(nanos(bin)).max(1) as usize
    }

    /// The index of the first cell from which on the rule holds, for as many as `needed`; `cells`
    /// reach from the shift to the end.
    pub(super) fn first_stable(&self, cells: &[&Cell], needed: usize) -> Option<usize> {
        let mean = self.final_mean(cells)?;
        let together = ((self.sample as f64 / mean).ceil() as usize).clamp(1, needed);
        let least = self.goodput_share * mean * together as f64;
        let holds = |group: &[&Cell]| {
            let alive = group.iter().all(|cell| cell.successes > 0);
            let good: u64 = group.iter().map(|cell| cell.good).sum();
            let successes: u64 = group.iter().map(|cell| cell.successes).sum();
            // Exact: the rounded percentile of a histogram may lie on the wrong side.
            let in_time = good * 100 >= successes * 99 || !self.tail;
            alive && good as f64 >= least && in_time
        };
        let mut run = 0;
        for (index, group) in cells.windows(together).enumerate() {
            run = if holds(group) { run + 1 } else { 0 };
            if run == needed - together + 1 {
                return Some(index + 1 - run);
            }
        }
        None
    }

    /// Mean count of good requests in a bin of the final part; `None` when there were none.
    fn final_mean(&self, cells: &[&Cell]) -> Option<f64> {
        let length = (cells.len() as f64 * self.final_share).ceil() as usize;
        let length = length.max(1).min(cells.len());
        let tail = &cells[cells.len() - length..];
        let good: u64 = tail.iter().map(|cell| cell.good).sum();
        (good > 0).then(|| good as f64 / tail.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use seawall_control::Instant;

    use super::*;
    use crate::outcome::Outcome;
    use crate::series::{Series, SeriesConfig};

    const SLO: Duration = Duration::from_micros(200);
    const BIN: Duration = Duration::from_millis(20);

    fn at(ms: u64) -> Instant {
        Instant::from_micros(1_000 * ms)
    }

    /// A series of two seconds whose bin `n` completes `bins(n)`: (good, late) successes.
    fn series(bins: impl Fn(u64) -> (u64, u64)) -> Series {
        let mut series = Series::new(SeriesConfig::new(at(0), at(2_000), SLO)).unwrap();
        for n in 0..100 {
            let done = at(20 * n + 10);
            let (good, late) = bins(n);
            for _ in 0..good {
                series.record(done - SLO, done, Outcome::Success);
            }
            for _ in 0..late {
                series.record(done - SLO * 2, done, Outcome::Success);
            }
        }
        series
    }

    fn stable_after(series: &Series, shift: Instant) -> Settled {
        series.stable_between(shift, at(2_000), &Stability::default().bin_by_bin())
    }

    fn ms(ms: u64) -> Settled {
        Settled::After(Duration::from_millis(ms))
    }

    #[test]
    fn stable_at_once() {
        let series = series(|_| (100, 0));
        assert_eq!(stable_after(&series, at(0)), ms(0));
        assert_eq!(stable_after(&series, at(400)), ms(0));
        // A shift inside a bin is judged from the next one on.
        assert_eq!(stable_after(&series, at(390)), ms(10));
    }

    #[test]
    fn low_goodput_delays_stability() {
        // From 400 ms: collapsed for ten bins, then back at 91 of 100.
        let series = series(|n| match n {
            20..30 => (20, 0),
            30..60 => (91, 0),
            _ => (100, 0),
        });
        assert_eq!(stable_after(&series, at(400)), ms(200));
    }

    #[test]
    fn a_tail_beyond_the_slo_delays_stability() {
        // One of a hundred may be late, two may not.
        let series = series(|n| if n < 40 { (98, 2) } else { (99, 1) });
        assert_eq!(stable_after(&series, at(0)), ms(800));
        let goodput_alone = Stability::default().bin_by_bin().goodput_alone();
        assert_eq!(series.stable_between(at(0), at(2_000), &goodput_alone), ms(0));
    }

    #[test]
    fn a_relapse_within_the_hold_starts_anew() {
        let series = series(|n| if n == 24 { (50, 0) } else { (100, 0) });
        assert_eq!(stable_after(&series, at(0)), ms(500));
        // After the hold, a relapse no longer matters.
        let series = self::series(|n| if n == 25 { (50, 0) } else { (100, 0) });
        assert_eq!(stable_after(&series, at(0)), ms(0));
    }

    #[test]
    fn never_stable() {
        let oscillating = series(|n| if n % 20 < 10 { (100, 0) } else { (10, 0) });
        assert_eq!(stable_after(&oscillating, at(0)), Settled::Never);
        let dead = series(|n| if n < 50 { (100, 0) } else { (0, 0) });
        assert_eq!(stable_after(&dead, at(1_000)), Settled::Never);
        let late = series(|_| (50, 50));
        assert_eq!(stable_after(&late, at(0)), Settled::Never);
    }

    #[test]
    fn too_little_time_for_the_hold_is_no_judgement() {
        let good = series(|_| (100, 0));
        assert_eq!(stable_after(&good, at(1_500)), ms(0));
        let dead = series(|_| (0, 0));
        assert_eq!(stable_after(&dead, at(1_500)), Settled::Never);
        for series in [good, dead] {
            // 500 ms, of which only 480 are whole bins.
            let rule = Stability::default();
            assert_eq!(series.stable_between(at(990), at(1_490), &rule), Settled::TooShort);
            assert_eq!(stable_after(&series, at(1_520)), Settled::TooShort);
            assert_eq!(stable_after(&series, at(5_000)), Settled::TooShort);
        }
    }

    #[test]
    fn the_rule_and_the_end_can_be_chosen() {
        // A second shift at 1,000 ms halves the load.
        let series = series(|n| match n {
            0..5 => (80, 0),
            5..50 => (100, 0),
            _ => (50, 0),
        });
        let rule = Stability { hold: BIN, ..Stability::default().bin_by_bin() };
        assert_eq!(series.stable_between(at(0), at(1_000), &rule), ms(100));
        let lenient = Stability { goodput_share: 0.8, ..rule };
        assert_eq!(series.stable_between(at(0), at(1_000), &lenient), ms(0));
        // Over the whole time, the mean of the last quarter is the halved load.
        assert_eq!(stable_after(&series, at(0)), ms(0));
    }

    #[test]
    fn few_completions_are_judged_together() {
        // Every fourth bin has 80 of 100 and one in ten late: chance, not instability.
        let noisy = series(|n| match n {
            0..20 => (40, 0),
            _ if n % 4 == 0 => (80, 2),
            _ => (107, 0),
        });
        assert_eq!(stable_after(&noisy, at(0)), Settled::Never);
        // Twenty bins hold 2,000; the first group without a collapsed bin too many begins at 320
        // ms.
        let settled = noisy.stable_after(at(0));
        let Settled::After(after) = settled else { panic!("{settled:?}") };
        assert!((300..=400).contains(&after.as_millis()), "{after:?}");
        let dead = series(|n| if n == 50 { (0, 0) } else { (110, 0) });
        assert_eq!(dead.stable_after(at(600)), ms(420));
    }
}
