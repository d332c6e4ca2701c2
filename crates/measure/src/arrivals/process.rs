//! How arrivals scatter around their mean rate.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::duration::Text;
use crate::spec::{Fields, SpecError, in_range, out_of_range, serde_as_text};

const FORMS: &str = "poisson, constant, bursts:FACTOR:PERIOD:LENGTH, surges:FACTOR:PERIOD:LENGTH";
/// The peak process is thinned, so that the factor is also the number of candidates per arrival.
const FACTOR_RANGE: &str = "1 to 1000";

/// An arrival process.
///
/// * `poisson`: independent clients, with exponential gaps.
/// * `constant`: even gaps.
/// * `bursts:4:10ms:2ms`: Poisson; in the last 2 ms of each 10 ms at 4 times the scheduled rate,
///   and in between so much below it that the scheduled rate is the mean.
/// * `surges:20:10s:100us`: Poisson; in the last 100 us of each 10 s at 20 times the scheduled
///   rate, and in between at the scheduled rate itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Process {
    /// Exponential gaps: many independent clients.
    #[default]
    Poisson,
    /// Even gaps, the first after one gap.
    Constant,
    /// A Poisson process that is switched between two rates.
    Bursts(Bursts),
}

impl Process {
    /// The highest rate over the scheduled rate.
    pub(super) fn peak(&self) -> f64 {
        match self {
            Self::Poisson | Self::Constant => 1.0,
            Self::Bursts(bursts) => bursts.factor,
        }
    }

    /// The rate `elapsed` after the start of the run over the peak rate, 0 to 1.
    pub(super) fn share_of_peak(&self, elapsed: Duration) -> f64 {
        match self {
            Self::Poisson | Self::Constant => 1.0,
            Self::Bursts(bursts) if bursts.contains(elapsed) => 1.0,
            Self::Bursts(bursts) => bursts.between / bursts.factor,
        }
    }

    /// The mean rate over the scheduled rate: 1 except for surges, which come on top.
    pub fn mean_factor(&self) -> f64 {
        match self {
            Self::Poisson | Self::Constant => 1.0,
            Self::Bursts(bursts) => {
                let duty = bursts.duty();
                duty * bursts.factor + (1.0 - duty) * bursts.between
            }
        }
    }
}

/// Bursts of one length that recur with one period, each at the end of its period, so that a run
/// begins calmly (as SurgeGuard's generator does: 10 s less the surge, then the surge).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    factor: f64,
    /// Rate between bursts over the scheduled rate.
    between: f64,
    period: Duration,
    length: Duration,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    KeepMean,
    OnTop,
}

impl Bursts {
    /// Bursts that keep the mean: `factor` times the scheduled rate for `length` of each `period`,
    /// and less in between.
    ///
    /// # Errors
    ///
    /// When `factor` is not in 1 to 1000, `length` not above zero and below `period`, or the bursts
    /// alone would exceed the mean (`factor * length > period`).
    pub fn keeping_mean(
        factor: f64,
        period: Duration,
        length: Duration,
    ) -> Result<Self, SpecError> {
        let mut bursts = Self::on_top(factor, period, length)?;
        let duty = bursts.duty();
        if factor * duty > 1.0 {
            let allowed = "at most PERIOD / LENGTH, so that the mean can be kept";
            return Err(out_of_range("factor", factor.to_string(), allowed));
        }
        bursts.kind = Kind::KeepMean;
        bursts.between = (1.0 - factor * duty) / (1.0 - duty);
        Ok(bursts)
    }

    /// Surges on top: `factor` times the scheduled rate for `length` of each `period`, and the
    /// scheduled rate in between.
    ///
    /// # Errors
    ///
    /// When `factor` is not in 1 to 1000, or `length` not above zero and below `period`.
    pub fn on_top(factor: f64, period: Duration, length: Duration) -> Result<Self, SpecError> {
        in_range("factor", factor, 1.0..=1e3, FACTOR_RANGE)?;
        if length.is_zero() || length >= period {
            let allowed = "above 0s and below the period";
            return Err(out_of_range("length", Text(length).to_string(), allowed));
        }
        Ok(Self { factor, between: 1.0, period, length, kind: Kind::OnTop })
    }

    /// The rate in a burst over the scheduled rate.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// From the end of one burst to the end of the next.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// How long each lasts.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Whether `elapsed` after the start of the run lies in a burst.
    pub fn contains(&self, elapsed: Duration) -> bool {
        elapsed.as_nanos() % self.period.as_nanos() >= (self.period - self.length).as_nanos()
    }

    fn duty(&self) -> f64 {
        self.length.as_secs_f64() / self.period.as_secs_f64()
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisson => f.write_str("poisson"),
            Self::Constant => f.write_str("constant"),
            Self::Bursts(bursts) => {
                let name = match bursts.kind {
                    Kind::KeepMean => "bursts",
                    Kind::OnTop => "surges",
                };
                let (period, length) = (Text(bursts.period), Text(bursts.length));
                write!(f, "{name}:{}:{period}:{length}", bursts.factor)
            }
        }
    }
}

impl FromStr for Process {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, rest) = Fields::split(text);
        let (process, fields) = match name {
            "poisson" => (Self::Poisson, Fields::new(rest, "poisson")),
            "constant" | "const" => (Self::Constant, Fields::new(rest, "constant")),
            "bursts" | "surges" => {
                let form = "bursts:FACTOR:PERIOD:LENGTH or surges:FACTOR:PERIOD:LENGTH";
                let mut fields = Fields::new(rest, form);
                let factor = fields.number("factor", FACTOR_RANGE)?;
                let period = fields.duration("period")?;
                let length = fields.duration("length")?;
                let bursts = match name {
                    "bursts" => Bursts::keeping_mean(factor, period, length)?,
                    _ => Bursts::on_top(factor, period, length)?,
                };
                (Self::Bursts(bursts), fields)
            }
            _ => {
                let (what, name) = ("arrival process", name.into());
                return Err(SpecError::UnknownName { what, name, allowed: FORMS });
            }
        };
        fields.end()?;
        Ok(process)
    }
}

serde_as_text!(Process);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mean_factor_is_one_unless_surges_come_on_top() {
        let mean = |text: &str| text.parse::<Process>().unwrap().mean_factor();
        assert_eq!(mean("poisson"), 1.0);
        assert_eq!(mean("constant"), 1.0);
        assert!((mean("bursts:4:10ms:2ms") - 1.0).abs() < 1e-12);
        assert!((mean("bursts:5:10ms:2ms") - 1.0).abs() < 1e-12);
        assert!((mean("surges:1.75:10s:2s") - 1.15).abs() < 1e-12);
    }

    #[test]
    fn bursts_come_at_the_end_of_each_period() {
        let bursts =
            Bursts::on_top(2.0, Duration::from_nanos(10), Duration::from_nanos(3)).unwrap();
        let on: Vec<bool> = (0..12).map(|n| bursts.contains(Duration::from_nanos(n))).collect();
        assert_eq!(on.iter().filter(|&&on| on).count(), 3);
        assert!(on[7] && on[8] && on[9]);
    }

    #[test]
    fn errors_name_the_field() {
        let message = |text: &str| text.parse::<Process>().unwrap_err().to_string();
        assert!(message("pareto").contains("allowed: poisson, constant, bursts:"));
        assert_eq!(message("poisson:3"), "`3` is left over; write poisson");
        assert!(message("bursts:4:10ms").starts_with("length is missing"));
        assert_eq!(message("bursts:0.5:10ms:2ms"), "factor is 0.5; allowed: 1 to 1000");
        assert!(message("bursts:6:10ms:2ms").contains("at most PERIOD / LENGTH"));
        assert!(message("surges:6:10ms:10ms").contains("length is 10ms"));
        assert!(message("surges:6:10ms:0s").contains("length is 0s"));
    }

    proptest! {
        #[test]
        fn text_reads_back(
            kind in 0..4,
            factor in 1.0..=1000.0,
            period in 2_u64..=1 << 40,
            share in 0.0_f64..1.0,
        ) {
            let length = Duration::from_nanos(((period as f64 * share) as u64).max(1));
            let period = Duration::from_nanos(period);
            let process = match kind {
                0 => Process::Poisson,
                1 => Process::Constant,
                2 => Bursts::on_top(factor, period, length)
                    .map_or(Process::Poisson, Process::Bursts),
                _ => Bursts::keeping_mean(1.0 / share.max(0.001), period, length)
                    .map_or(Process::Poisson, Process::Bursts),
            };
            prop_assert_eq!(process.to_string().parse(), Ok(process));
        }
    }
}
