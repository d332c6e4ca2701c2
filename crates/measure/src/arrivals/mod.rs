//! When requests are due: open-loop arrival processes over a schedule of rates.
//!
//! Two things are kept apart. A [`Schedule`] says how the *mean* rate goes over time: piecewise
//! constant, with shifts such as Breakwater's from 0.5 to 0.9 to 1.4 times capacity (OSDI '20,
//! section 5.2, figure 7). A [`Process`] says how arrivals scatter around that mean: as a Poisson
//! process, evenly, or in bursts.
//!
//! ```text
//!  Schedule "0s:0.5x,2s:1.4x" ──rates(capacity)──► Rates ─┐
//!                                                          ├──► Arrivals ──► (at, session), …
//!  Process "poisson" ─────────────────────────────────────┘
//! ```
//!
//! [`Arrivals`] is endless as long as the last rate is above zero: the caller stops at the end of
//! its run.

mod process;
mod schedule;

use std::time::Duration;

use seawall_control::{Instant, Rng};

pub use process::{Bursts, Process};
pub use schedule::{Load, MAX_RATE, MAX_STEPS, Rates, Schedule, ScheduleError};

const NANOS_PER_SECOND: f64 = 1e9;

/// One request that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// When it is due; latency counts from here.
    pub at: Instant,
    /// Which session (client) sends it: below the number of sessions.
    pub session: u32,
}

/// The arrivals of one run, in order of time.
///
/// The same arguments give the same sequence on every machine. The number of sessions does not
/// change the times, only who sends.
///
/// ```
/// use seawall_control::Instant;
/// use seawall_measure::{Arrivals, Process, Rates};
///
/// let arrivals = Arrivals::new(Process::Constant, Rates::constant(1e6), Instant::ORIGIN, 1);
/// let times: Vec<u64> = arrivals.take(3).map(|arrival| arrival.at.as_nanos()).collect();
/// assert_eq!(times, [1_000, 2_000, 3_000]);
/// ```
#[derive(Clone, Debug)]
pub struct Arrivals {
    process: Process,
    rates: Rates,
    start: Instant,
    /// Index of the rate in force at `at`.
    step: usize,
    /// The last candidate, in whole nanoseconds, and what lies beyond them, below one. At seven
    /// million requests per second a rounded gap would be off by a thousandth, always to one side.
    at: Instant,
    fraction: f64,
    times: Rng,
    senders: Rng,
    sessions: u32,
}

impl Arrivals {
    /// Arrivals of `process` with mean `rates`, which begin at `start`; all from one session.
    pub fn new(process: Process, rates: Rates, start: Instant, seed: u64) -> Self {
        let mut times = Rng::new(seed);
        let senders = times.fork();
        Self {
            process,
            rates,
            start,
            step: 0,
            at: start,
            fraction: 0.0,
            times,
            senders,
            sessions: 1,
        }
    }

    /// Spreads the arrivals over `sessions` clients, each chosen with equal chance for each
    /// arrival.
    ///
    /// A Poisson process split at random is as many independent Poisson processes, so that this is
    /// Breakwater's load, where each of 1,000 clients generates an open-loop Poisson process
    /// (section 5.2).
    ///
    /// # Panics
    ///
    /// If `sessions` is zero: nobody could send.
    #[must_use]
    pub fn over_sessions(mut self, sessions: u32) -> Self {
        assert!(sessions > 0, "an arrival needs a session that sends it");
        self.sessions = sessions;
        self
    }

    /// Moves to the next arrival of a process whose rate is the peak rate of ours.
    ///
    /// The distance to the next arrival, in units of the mean gap, is exponential (or 1 for even
    /// arrivals) whatever the rate; crossing a change of rate uses up the part of it that lies
    /// before the change. This is exact on both sides of a step.
    fn advance(&mut self) -> Option<()> {
        let mut distance = match self.process {
            Process::Constant => 1.0,
            Process::Poisson | Process::Bursts(_) => self.times.exponential(),
        };
        loop {
            let rate = self.rates.per_second(self.step) * self.process.peak() / NANOS_PER_SECOND;
            let change = self.rates.begin(self.step + 1).map(|offset| self.start + offset);
            if rate > 0.0 {
                let gap = distance / rate;
                let left = change.map_or(f64::INFINITY, |change| {
                    (change.since(self.at).as_nanos() as f64 - self.fraction).max(0.0)
                });
                if gap < left {
                    return self.move_by(gap);
                }
                distance = (distance - left * rate).max(0.0);
            }
            self.at = change?;
            self.fraction = 0.0;
            self.step += 1;
        }
    }

    /// Moves by `gap` nanoseconds; `None` beyond the end of the clock.
    fn move_by(&mut self, gap: f64) -> Option<()> {
        let total = self.fraction + gap;
        let whole = libm::floor(total);
        self.fraction = total - whole;
        self.at = self.at + Duration::from_nanos(whole as u64);
        (self.at < Instant::NEVER).then_some(())
    }
}

impl Iterator for Arrivals {
    type Item = Scheduled;

    /// The next arrival; `None` once the rate is zero for ever.
    fn next(&mut self) -> Option<Scheduled> {
        loop {
            self.advance()?;
            // Thinning (Lewis and Shedler, 1979): of a Poisson process with the peak rate, keep
            // each arrival with the chance that its instant has of that rate.
            let keep = self.process.share_of_peak(self.at.since(self.start));
            if keep >= 1.0 || self.times.chance(keep) {
                let session = self.senders.below(self.sessions.into()) as u32;
                return Some(Scheduled { at: self.at, session });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(12_345);

    fn arrivals(process: &str, schedule: &str, seed: u64) -> Arrivals {
        let schedule: Schedule = schedule.parse().unwrap();
        let rates = schedule.rates(Some(1e6)).unwrap();
        Arrivals::new(process.parse().unwrap(), rates, START, seed)
    }

    /// How many arrivals lie in `[from, until)` milliseconds after the start.
    fn count(arrivals: &Arrivals, from: u64, until: u64) -> f64 {
        let offset = |ms| START + Duration::from_millis(ms);
        arrivals
            .clone()
            .take_while(|arrival| arrival.at < offset(until))
            .filter(|arrival| arrival.at >= offset(from))
            .count() as f64
    }

    /// Whether `counted` is within four deviations of a Poisson count with the mean `expected`.
    fn plausible(counted: f64, expected: f64) -> bool {
        (counted - expected).abs() <= 4.0 * expected.sqrt()
    }

    #[test]
    fn poisson_rate_is_right_on_both_sides_of_a_step() {
        let arrivals = arrivals("poisson", "0s:0.5x,100ms:2x,200ms:0.1x", 1);
        for (from, until, expected) in [
            (0, 100, 50_000.0),
            (90, 100, 5_000.0),
            (100, 110, 20_000.0),
            (100, 200, 200_000.0),
            (200, 300, 10_000.0),
            (200, 210, 1_000.0),
        ] {
            let counted = count(&arrivals, from, until);
            assert!(plausible(counted, expected), "{from}..{until} ms: {counted}, {expected}");
        }
    }

    #[test]
    fn a_step_does_not_distort_the_gap_across_it() {
        // From 100 to 1,000,000 per second after 1 ms: without rescaling, the first arrival after
        // the step would come some 10 ms late.
        let mut sum = 0.0;
        for seed in 0..2_000 {
            let mut arrivals = arrivals("poisson", "0s:100,1ms:1x", seed);
            let step = START + Duration::from_millis(1);
            let first = arrivals.find(|arrival| arrival.at >= step).unwrap();
            sum += first.at.since(step).as_secs_f64();
        }
        let mean_us = sum / 2_000.0 * 1e6;
        assert!((mean_us - 1.0).abs() < 0.1, "{mean_us} us");
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let mut last = START;
        let (mut sum, mut squares) = (0.0, 0.0);
        for arrival in arrivals("poisson", "1x", 3).take(200_000) {
            let gap = arrival.at.since(last).as_secs_f64() * 1e6;
            (sum, squares) = (sum + gap, squares + gap * gap);
            last = arrival.at;
        }
        let mean = sum / 200_000.0;
        let variance = squares / 200_000.0 - mean * mean;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn zero_rate_is_silent_and_the_end_when_it_lasts() {
        let silent = arrivals("poisson", "0s:0x,50ms:1x,100ms:0x", 4);
        assert_eq!(count(&silent, 0, 50), 0.0);
        assert!(plausible(count(&silent, 50, 100), 50_000.0));
        let last = silent.clone().last().unwrap();
        assert!(last.at < START + Duration::from_millis(100));
        assert_eq!(arrivals("constant", "0x", 4).next(), None);
        assert_eq!(arrivals("bursts:2:10ms:5ms", "0x", 4).next(), None);
    }

    #[test]
    fn constant_rate_does_not_drift() {
        // 3 ns and a third between arrivals: rounding each gap would lose a tenth of the load.
        let nanos: Vec<u64> = arrivals("constant", "300000k", 5)
            .take(300_000)
            .map(|arrival| arrival.at.since(START).as_nanos() as u64)
            .collect();
        assert_eq!(nanos[..4], [3, 6, 10, 13]);
        assert!((999_999..=1_000_000).contains(&nanos[299_999]));
    }

    #[test]
    fn constant_rate_keeps_its_phase_over_a_step() {
        // Half a gap is used up at the old rate, the other half at the new one.
        let at: Vec<u128> = arrivals("constant", "0s:100k,15us:1x", 5)
            .take(3)
            .map(|arrival| arrival.at.since(START).as_nanos())
            .collect();
        assert_eq!(at, [10_000, 15_500, 16_500]);
    }

    #[test]
    fn bursts_keep_the_mean_and_surges_add_to_it() {
        let bursts = arrivals("bursts:4:10ms:2ms", "1x", 6);
        assert!(plausible(count(&bursts, 0, 500), 500_000.0));
        // Calm first, at a quarter: (10 - 4 * 2) / 8 of the mean.
        assert!(plausible(count(&bursts, 0, 8), 2_000.0));
        assert!(plausible(count(&bursts, 8, 10), 8_000.0));
        let surges = arrivals("surges:4:10ms:2ms", "1x", 6);
        assert!(plausible(count(&surges, 0, 8), 8_000.0));
        assert!(plausible(count(&surges, 8, 10), 8_000.0));
        assert!(plausible(count(&surges, 0, 500), 800_000.0));
    }

    #[test]
    fn same_seed_same_sequence_whatever_the_sessions() {
        for process in ["poisson", "constant", "bursts:3:1ms:100us"] {
            let run = |seed, sessions| {
                arrivals(process, "0s:0.5x,1ms:2x", seed)
                    .over_sessions(sessions)
                    .take(5_000)
                    .collect::<Vec<_>>()
            };
            assert_eq!(run(7, 10), run(7, 10));
            let times = |run: Vec<Scheduled>| run.iter().map(|s| s.at).collect::<Vec<_>>();
            assert_eq!(times(run(7, 1)), times(run(7, 1_000)));
            if process != "constant" {
                assert_ne!(times(run(7, 1)), times(run(8, 1)));
            }
        }
    }

    #[test]
    fn sessions_share_alike() {
        let mut counts = [0_u32; 20];
        for arrival in arrivals("poisson", "1x", 8).over_sessions(20).take(100_000) {
            counts[arrival.session as usize] += 1;
        }
        assert!(counts.iter().all(|&n| plausible(n.into(), 5_000.0)), "{counts:?}");
    }

    #[test]
    fn time_never_goes_back_and_ends_with_the_clock() {
        let mut last = START;
        for arrival in arrivals("bursts:9:1us:100ns", "0s:900x,1us:1x", 9).take(10_000) {
            assert!(arrival.at >= last);
            last = arrival.at;
        }
        let rates = Rates::constant(1e-9);
        let mut late = Arrivals::new(Process::Constant, rates, Instant::NEVER, 1);
        assert_eq!(late.next(), None);
    }

    /// Pins the sequence: a recorded seed must keep its meaning.
    #[test]
    fn sequence_is_pinned() {
        let nanos: Vec<u128> = arrivals("poisson", "1x", 42)
            .take(3)
            .map(|arrival| arrival.at.since(START).as_nanos())
            .collect();
        assert_eq!(nanos, [383, 4_512, 5_720]);
    }
}
