//! How the mean rate goes over time: as written ([`Schedule`]) and in requests per second
//! ([`Rates`]).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::duration::{self, ParseDurationError, Text};
use crate::spec::serde_as_text;

/// Steps that a schedule may have: a day in steps of 10 s fits, and a mistaken file does not grow
/// without end.
pub const MAX_STEPS: usize = 10_000;

/// The highest rate, in requests per second: one for each tick of the clock.
pub const MAX_RATE: f64 = 1e9;

/// A rate as written: a multiple of a capacity that is known later, or a number.
///
/// Texts: `0.9x`, `850000`, `850k`, `1.2M`; the numbers also with `/s` at their end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many times the capacity.
    OfCapacity(f64),
    /// So many requests per second.
    PerSecond(f64),
}

/// Why a schedule was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A load is no number, negative or too high.
    #[error(
        "load `{0}` must be a multiple of the capacity such as 0.9x, or requests per second such \
         as 850k; allowed: 0 to 1000000000 per second"
    )]
    Load(String),
    /// A step's time is no duration.
    #[error("time of step `{step}`: {source}")]
    Time {
        /// The step as written.
        step: String,
        /// What was wrong with its time.
        source: ParseDurationError,
    },
    /// A step among several has no time.
    #[error("step `{0}` must be written as TIME:LOAD, such as 2s:0.9x")]
    Form(String),
    /// The first step leaves the time before it open.
    #[error("the first step begins at {0}; it must begin at 0s (0s:0x for a silent start)")]
    FirstStep(Text),
    /// Steps are not in order of time.
    #[error("the step at {later} must come after the step at {earlier}")]
    Order {
        /// Time of the step before.
        earlier: Text,
        /// Time of the step that should be later.
        later: Text,
    },
    /// There are too many steps.
    #[error("the schedule has {0} steps; allowed: 1 to {MAX_STEPS}")]
    Steps(usize),
    /// A multiple of the capacity was used and the capacity is not known.
    #[error("load `{0}` is a multiple of the capacity, which is not known here; give a capacity")]
    NoCapacity(Load),
    /// The capacity makes no sense.
    #[error("capacity is {0} requests per second; allowed: above 0 to 1000000000")]
    Capacity(f64),
}

impl Load {
    fn per_second(self, capacity: Option<f64>) -> Result<f64, ScheduleError> {
        let rate = match (self, capacity) {
            (Self::PerSecond(rate), _) => rate,
            (Self::OfCapacity(factor), Some(capacity)) => factor * capacity,
            (Self::OfCapacity(_), None) => return Err(ScheduleError::NoCapacity(self)),
        };
        // Written so that a NaN is refused too.
        if (0.0..=MAX_RATE).contains(&rate) {
            Ok(rate)
        } else {
            Err(ScheduleError::Load(self.to_string()))
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OfCapacity(factor) => write!(f, "{factor}x"),
            Self::PerSecond(rate) if rate >= 1e3 && rate % 1e3 == 0.0 => {
                write!(f, "{}k", rate / 1e3)
            }
            Self::PerSecond(rate) => write!(f, "{rate}"),
        }
    }
}

impl FromStr for Load {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let text = text.trim();
        let refused = || ScheduleError::Load(text.into());
        let number = |digits: &str| match digits.parse::<f64>() {
            Ok(value) if (0.0..=MAX_RATE).contains(&value) => Ok(value),
            _ => Err(refused()),
        };
        if let Some(factor) = text.strip_suffix('x') {
            return number(factor).map(Self::OfCapacity);
        }
        let digits = text.strip_suffix("/s").unwrap_or(text);
        // An exponent rather than a product, which would print 1.005M as 1004999.9999999999.
        let rate = match digits.as_bytes().last() {
            Some(b'k') => number(&format!("{}e3", &digits[..digits.len() - 1])),
            Some(b'M') => number(&format!("{}e6", &digits[..digits.len() - 1])),
            _ => number(digits),
        };
        rate.map(Self::PerSecond)
    }
}

/// Rates over time as written: steps that each hold until the next one begins, the last for ever.
///
/// The text is a list of steps `TIME:LOAD` with times since the start of the run, such as
/// Breakwater's load shift `0s:0.5x,2s:0.9x,4s:1.4x,6s:0.9x,8s:0.5x`; a single load such as `0.9x`
/// holds from the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    steps: Vec<(Duration, Load)>,
}

impl Schedule {
    /// The same load all the time.
    pub fn constant(load: Load) -> Self {
        Self { steps: vec![(Duration::ZERO, load)] }
    }

    /// Steps of (time since the start, load).
    ///
    /// # Errors
    ///
    /// When there is no step or more than [`MAX_STEPS`], the first does not begin at zero, or times
    /// do not grow from step to step. Loads are checked by [`rates`](Self::rates).
    pub fn new(steps: Vec<(Duration, Load)>) -> Result<Self, ScheduleError> {
        if steps.is_empty() || steps.len() > MAX_STEPS {
            return Err(ScheduleError::Steps(steps.len()));
        }
        if !steps[0].0.is_zero() {
            return Err(ScheduleError::FirstStep(Text(steps[0].0)));
        }
        for pair in steps.windows(2) {
            if pair[0].0 >= pair[1].0 {
                let (earlier, later) = (Text(pair[0].0), Text(pair[1].0));
                return Err(ScheduleError::Order { earlier, later });
            }
        }
        Ok(Self { steps })
    }

    /// The schedule in requests per second, for a server of the given capacity (requests per
    /// second; needed only for multiples of it).
    ///
    /// # Errors
    ///
    /// When the capacity is needed and missing or not in (0, [`MAX_RATE`]], or a load comes out
    /// negative, undefined or above [`MAX_RATE`].
    pub fn rates(&self, capacity: Option<f64>) -> Result<Rates, ScheduleError> {
        if let Some(capacity) = capacity
            && !(capacity > 0.0 && capacity <= MAX_RATE)
        {
            return Err(ScheduleError::Capacity(capacity));
        }
        let step = |&(begin, load): &(Duration, Load)| Ok((begin, load.per_second(capacity)?));
        let steps = self.steps.iter().map(step).collect::<Result<_, _>>()?;
        Ok(Rates { steps })
    }

    /// The steps: time since the start, and load.
    pub fn steps(&self) -> &[(Duration, Load)] {
        &self.steps
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(_, load)] = self.steps[..] {
            return write!(f, "{load}");
        }
        for (index, &(begin, load)) in self.steps.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}:{load}", Text(begin))?;
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        if !text.contains([':', ',']) {
            return text.parse().map(Self::constant);
        }
        let step = |step: &str| {
            let step = step.trim();
            let Some((time, load)) = step.split_once(':') else {
                return Err(ScheduleError::Form(step.into()));
            };
            let time = duration::parse(time)
                .map_err(|source| ScheduleError::Time { step: step.into(), source })?;
            Ok((time, load.parse()?))
        };
        // One step more than allowed is enough to refuse the text.
        let steps = text.split(',').take(MAX_STEPS + 1).map(step).collect::<Result<_, _>>()?;
        Self::new(steps)
    }
}

serde_as_text!(Load, Schedule);

/// Rates over time in requests per second: what a [`Schedule`] means for one capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Begin since the start of the run, and rate; the first begins at zero.
    steps: Vec<(Duration, f64)>,
}

impl Rates {
    /// The same rate all the time, in requests per second.
    ///
    /// # Panics
    ///
    /// If `per_second` is not in 0 to [`MAX_RATE`]; a rate that comes from outside goes through
    /// [`Schedule::rates`].
    pub fn constant(per_second: f64) -> Self {
        let allowed = (0.0..=MAX_RATE).contains(&per_second);
        assert!(allowed, "rate is {per_second}; allowed: 0 to {MAX_RATE} per second");
        Self { steps: vec![(Duration::ZERO, per_second)] }
    }

    /// One of `parts` equal shares, for a load that several threads generate with a seed each.
    ///
    /// Together they give the whole for Poisson arrivals; even arrivals would coincide.
    ///
    /// # Panics
    ///
    /// If `parts` is zero.
    #[must_use]
    pub fn share(&self, parts: u32) -> Self {
        assert!(parts > 0, "a load is shared by at least one");
        let share = |&(begin, rate)| (begin, rate / f64::from(parts));
        Self { steps: self.steps.iter().map(share).collect() }
    }

    /// The rate in force at `elapsed` since the start, in requests per second.
    pub fn at(&self, elapsed: Duration) -> f64 {
        let after = self.steps.partition_point(|&(begin, _)| begin <= elapsed);
        self.steps[after - 1].1
    }

    /// When the rate changes, since the start: the shifts after which one asks for stability.
    pub fn shifts(&self) -> impl Iterator<Item = Duration> + '_ {
        self.steps.iter().skip(1).map(|&(begin, _)| begin)
    }

    /// The highest rate, in requests per second.
    pub fn peak(&self) -> f64 {
        self.steps.iter().map(|&(_, rate)| rate).fold(0.0, f64::max)
    }

    /// The rate of the step with this index.
    pub(super) fn per_second(&self, step: usize) -> f64 {
        self.steps[step].1
    }

    /// The begin of the step with this index, if there is one.
    pub(super) fn begin(&self, step: usize) -> Option<Duration> {
        self.steps.get(step).map(|&(begin, _)| begin)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHIFT: &str = "0s:0.5x,2s:0.9x,4s:1.4x,6s:0.9x,8s:0.5x";

    #[test]
    fn shifts_of_the_paper() {
        let schedule: Schedule = SHIFT.parse().unwrap();
        assert_eq!(schedule.to_string(), SHIFT);
        let rates = schedule.rates(Some(850e3)).unwrap();
        let second = Duration::from_secs;
        assert_eq!(rates.at(Duration::ZERO), 425e3);
        assert_eq!(rates.at(second(4) - Duration::from_nanos(1)), 765e3);
        assert_eq!(rates.at(second(4)), 1190e3);
        assert_eq!(rates.at(second(100)), 425e3);
        assert_eq!(rates.peak(), 1190e3);
        assert_eq!(rates.shifts().collect::<Vec<_>>(), [2, 4, 6, 8].map(second));
        assert_eq!(rates.share(2).at(second(4)), 595e3);
    }

    #[test]
    fn loads_read_in_all_their_forms() {
        let load = |text: &str| text.parse::<Load>();
        assert_eq!(load("0.9x"), Ok(Load::OfCapacity(0.9)));
        assert_eq!(load("850000"), Ok(Load::PerSecond(850e3)));
        assert_eq!(load("850k"), Ok(Load::PerSecond(850e3)));
        assert_eq!(load("1.2M/s"), Ok(Load::PerSecond(1.2e6)));
        assert_eq!(load("1.005M"), Ok(Load::PerSecond(1_005_000.0)));
        assert_eq!(Load::PerSecond(1.2e6).to_string(), "1200k");
        assert_eq!("400k".parse(), Ok(Schedule::constant(Load::PerSecond(400e3))));
        let rates = "0s:100,1s:2k".parse::<Schedule>().unwrap().rates(None).unwrap();
        assert_eq!(rates.at(Duration::from_secs(1)), 2e3);
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let message = |text: &str| text.parse::<Schedule>().unwrap_err().to_string();
        assert!(message("fast").starts_with("load `fast` must be a multiple"));
        assert!(message("").starts_with("load `` must be"));
        assert!(message("-1x").starts_with("load `-1x`"));
        assert!(message("NaN").starts_with("load `NaN`"));
        assert!(message("2000M").starts_with("load `2000M`"));
        assert!(message("1x,2s:2x").contains("`1x` must be written as TIME:LOAD"));
        assert!(message("0s:1x,2:2x").starts_with("time of step `2:2x`: duration `2` has no unit"));
        assert!(message("1s:1x").contains("must begin at 0s"));
        assert!(message("0s:1x,2s:2x,2s:3x").contains("step at 2s must come after the step at 2s"));
        let many = vec!["0s:1x"; MAX_STEPS + 5].join(",");
        assert!(message(&many).contains("allowed: 1 to 10000"));
        let schedule: Schedule = "2x".parse().unwrap();
        let message = |capacity| schedule.rates(capacity).unwrap_err().to_string();
        assert!(message(None).contains("give a capacity"));
        assert!(message(Some(0.0)).contains("allowed: above 0"));
        assert!(message(Some(f64::NAN)).contains("allowed: above 0"));
        assert!(message(Some(9e8)).starts_with("load `2x`"));
    }

    proptest! {
        #[test]
        fn text_reads_back(
            gaps in proptest::collection::vec((1_u64..1 << 40, 0.0..1e6, any::<bool>()), 1..10),
            rate in 0_u32..2_000_000,
        ) {
            let mut at = Duration::ZERO;
            let mut steps = vec![(at, Load::PerSecond(rate.into()))];
            for (gap, value, multiple) in gaps {
                at += Duration::from_nanos(gap);
                let load = if multiple { Load::OfCapacity(value) } else { Load::PerSecond(value) };
                steps.push((at, load));
            }
            let schedule = Schedule::new(steps).unwrap();
            prop_assert_eq!(schedule.to_string().parse(), Ok(schedule.clone()));
            let json = serde_json::to_string(&schedule).unwrap();
            prop_assert_eq!(serde_json::from_str::<Schedule>(&json).unwrap(), schedule);
        }
    }
}
