//! How much work a request is: distributions of service time.
//!
//! A [`ServiceTime`] is a [`Shape`] and a mean. Every shape keeps the mean, so that changing the
//! shape changes the variance and nothing else: the capacity of a server stays where it was, and
//! what is left of the difference is due to the tail (Breakwater, OSDI '20, section 5.2, figure 4).
//!
//! | text | shape | squared coefficient of variation |
//! |---|---|---|
//! | `const:10us` | every request takes the mean | 0 |
//! | `exp:10us` | exponential | 1 |
//! | `bimodal:10us[:FRACTION:RATIO]` | a few slow requests, many fast ones | 2.25 by default |
//! | `lognormal:10us[:SIGMA]` | log-normal | e^(sigma^2) - 1; 1.72 by default |

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use seawall_control::Rng;

use crate::duration::{Text, scaled};
use crate::spec::{Fields, SpecError, in_range, serde_as_text};

const FORMS: &str = "const:MEAN, exp:MEAN, bimodal:MEAN[:FRACTION:RATIO], lognormal:MEAN[:SIGMA]";
const FRACTION_RANGE: &str = "0 to 1";
const RATIO_RANGE: &str = "1 to 1000000";
/// Beyond this, the mean of even 10^9 samples is far from the mean of the distribution.
const SIGMA_RANGE: &str = "0 to 5";
const DEFAULT_SIGMA: f64 = 1.0;

/// How service times spread around their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Shape {
    /// Every request takes the mean: a value fetched from memory or flash.
    Constant,
    /// Exponential: a wait for a shared resource.
    Exponential,
    /// Two values: a cache that hits and misses.
    Bimodal {
        /// Share of requests that are slow, 0 to 1.
        slow_fraction: f64,
        /// Service time of a slow request over that of a fast one, 1 to 1,000,000.
        slow_ratio: f64,
    },
    /// Log-normal: many small influences that multiply.
    LogNormal {
        /// Deviation of the logarithm, 0 to 5.
        sigma: f64,
    },
}

impl Shape {
    /// Breakwater's bimodal distribution (section 5.2, after the Pareto principle): 20 % of
    /// requests take four times the mean, 80 % a quarter of it, so that a slow one takes 16 fast
    /// ones.
    pub const BIMODAL: Self = Self::Bimodal { slow_fraction: 0.2, slow_ratio: 16.0 };
}

/// A distribution of service times.
///
/// ```
/// use seawall_measure::ServiceTime;
///
/// let service: ServiceTime = "bimodal:10us".parse().unwrap();
/// assert_eq!(service.mean().as_micros(), 10);
/// assert_eq!(service.to_string(), "bimodal:10us");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceTime {
    shape: Shape,
    mean: Duration,
}

impl ServiceTime {
    /// A distribution of the given shape and mean.
    ///
    /// # Errors
    ///
    /// When a parameter of the shape lies outside the range given at its field.
    pub fn new(shape: Shape, mean: Duration) -> Result<Self, SpecError> {
        match shape {
            Shape::Constant | Shape::Exponential => {}
            Shape::Bimodal { slow_fraction, slow_ratio } => {
                in_range("slow_fraction", slow_fraction, 0.0..=1.0, FRACTION_RANGE)?;
                in_range("slow_ratio", slow_ratio, 1.0..=1e6, RATIO_RANGE)?;
            }
            Shape::LogNormal { sigma } => {
                in_range("sigma", sigma, 0.0..=5.0, SIGMA_RANGE)?;
            }
        }
        Ok(Self { shape, mean })
    }

    /// Every request takes `mean`.
    pub const fn constant(mean: Duration) -> Self {
        Self { shape: Shape::Constant, mean }
    }

    /// Exponential service times.
    pub const fn exponential(mean: Duration) -> Self {
        Self { shape: Shape::Exponential, mean }
    }

    /// Breakwater's bimodal service times; see [`Shape::BIMODAL`].
    pub const fn bimodal(mean: Duration) -> Self {
        Self { shape: Shape::BIMODAL, mean }
    }

    /// The service time of one request, rounded to the nanosecond.
    pub fn sample(&self, rng: &mut Rng) -> Duration {
        let factor = match self.shape {
            Shape::Constant => return self.mean,
            Shape::Exponential => rng.exponential(),
            Shape::Bimodal { slow_fraction, slow_ratio } => {
                let (fast, slow) = bimodal_factors(slow_fraction, slow_ratio);
                if rng.chance(slow_fraction) { slow } else { fast }
            }
            // The mean of exp(X) for a normal X is exp(mu + sigma^2 / 2), which must be 1.
            Shape::LogNormal { sigma } => libm::exp(sigma * rng.normal() - sigma * sigma / 2.0),
        };
        scaled(self.mean, factor)
    }

    /// The mean.
    pub const fn mean(&self) -> Duration {
        self.mean
    }

    /// The shape.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Variance over the square of the mean: what queueing formulas such as Pollaczek and
    /// Khinchine's ask of a distribution.
    pub fn squared_variation(&self) -> f64 {
        match self.shape {
            Shape::Constant => 0.0,
            Shape::Exponential => 1.0,
            Shape::Bimodal { slow_fraction, slow_ratio } => {
                let (fast, slow) = bimodal_factors(slow_fraction, slow_ratio);
                slow_fraction * slow * slow + (1.0 - slow_fraction) * fast * fast - 1.0
            }
            Shape::LogNormal { sigma } => libm::expm1(sigma * sigma),
        }
    }
}

/// Fast and slow service time over the mean, so that the mean is 1.
fn bimodal_factors(slow_fraction: f64, slow_ratio: f64) -> (f64, f64) {
    let fast = 1.0 / (slow_fraction * slow_ratio + (1.0 - slow_fraction));
    (fast, fast * slow_ratio)
}

impl fmt::Display for ServiceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = Text(self.mean);
        match self.shape {
            Shape::Constant => write!(f, "const:{mean}"),
            Shape::Exponential => write!(f, "exp:{mean}"),
            shape if shape == Shape::BIMODAL => write!(f, "bimodal:{mean}"),
            Shape::Bimodal { slow_fraction, slow_ratio } => {
                write!(f, "bimodal:{mean}:{slow_fraction}:{slow_ratio}")
            }
            Shape::LogNormal { sigma } => write!(f, "lognormal:{mean}:{sigma}"),
        }
    }
}

impl FromStr for ServiceTime {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, rest) = Fields::split(text);
        let form = match name {
            "const" | "constant" => "const:MEAN",
            "exp" | "exponential" => "exp:MEAN",
            "bimodal" => "bimodal:MEAN[:FRACTION:RATIO]",
            "lognormal" => "lognormal:MEAN[:SIGMA]",
            _ => {
                let (what, name) = ("service time", name.into());
                return Err(SpecError::UnknownName { what, name, allowed: FORMS });
            }
        };
        let mut fields = Fields::new(rest, form);
        let mean = fields.duration("mean")?;
        let shape = match name {
            "const" | "constant" => Shape::Constant,
            "exp" | "exponential" => Shape::Exponential,
            "bimodal" => match fields.optional_number("slow_fraction", FRACTION_RANGE)? {
                None => Shape::BIMODAL,
                Some(slow_fraction) => {
                    let slow_ratio = fields.number("slow_ratio", RATIO_RANGE)?;
                    Shape::Bimodal { slow_fraction, slow_ratio }
                }
            },
            _ => {
                let sigma = fields.optional_number("sigma", SIGMA_RANGE)?;
                Shape::LogNormal { sigma: sigma.unwrap_or(DEFAULT_SIGMA) }
            }
        };
        fields.end()?;
        Self::new(shape, mean)
    }
}

serde_as_text!(ServiceTime);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seawall_control::Rng;

    use super::*;

    const MEAN: Duration = Duration::from_micros(10);

    fn moments(service: ServiceTime, samples: u32) -> (f64, f64) {
        let mut rng = Rng::new(11);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..samples {
            let x = service.sample(&mut rng).as_secs_f64() / service.mean().as_secs_f64();
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(samples);
        (mean, squares / f64::from(samples) - mean * mean)
    }

    #[test]
    fn moments_match_theory() {
        for text in [
            "const:10us",
            "exp:10us",
            "bimodal:10us",
            "bimodal:10us:0.01:100",
            "lognormal:10us:0.5",
            "lognormal:10us",
        ] {
            let service: ServiceTime = text.parse().unwrap();
            let (mean, variance) = moments(service, 400_000);
            let expected = service.squared_variation();
            assert!((mean - 1.0).abs() < 0.01, "{text}: mean {mean}");
            let error = (variance - expected).abs();
            assert!(error <= 0.06 * expected, "{text}: {variance} against {expected}");
        }
    }

    #[test]
    fn bimodal_is_that_of_the_paper() {
        let service = ServiceTime::bimodal(MEAN);
        let mut rng = Rng::new(3);
        let samples = 100_000;
        let mut slow = 0;
        for _ in 0..samples {
            match service.sample(&mut rng).as_nanos() {
                40_000 => slow += 1,
                2_500 => {}
                other => panic!("{other} ns is neither four times nor a quarter of 10 us"),
            }
        }
        assert!((f64::from(slow) / f64::from(samples) - 0.2).abs() < 0.005);
        assert!((service.squared_variation() - 2.25).abs() < 1e-12);
    }

    #[test]
    fn same_seed_same_sequence() {
        let service: ServiceTime = "lognormal:10us:1.5".parse().unwrap();
        let sequence = |seed| {
            let mut rng = Rng::new(seed);
            (0..1_000).map(|_| service.sample(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(sequence(5), sequence(5));
        assert_ne!(sequence(5), sequence(6));
    }

    #[test]
    fn extremes_do_not_panic() {
        let mut rng = Rng::new(1);
        for shape in [Shape::Exponential, Shape::BIMODAL, Shape::LogNormal { sigma: 5.0 }] {
            for mean in [Duration::ZERO, Duration::MAX] {
                ServiceTime::new(shape, mean).unwrap().sample(&mut rng);
            }
        }
    }

    #[test]
    fn errors_name_the_field() {
        let message = |text: &str| text.parse::<ServiceTime>().unwrap_err().to_string();
        assert!(
            message("pareto:1us").starts_with("unknown service time `pareto`; allowed: const:")
        );
        assert_eq!(message("exp"), "mean is missing; write exp:MEAN");
        assert!(message("exp:10").starts_with("mean: duration `10` has no unit"));
        assert_eq!(message("bimodal:1us:2:4"), "slow_fraction is 2; allowed: 0 to 1");
        assert!(message("bimodal:1us:0.2").starts_with("slow_ratio is missing"));
        assert_eq!(message("bimodal:1us:0.2:0.5"), "slow_ratio is 0.5; allowed: 1 to 1000000");
        assert_eq!(message("lognormal:1us:9"), "sigma is 9; allowed: 0 to 5");
        assert_eq!(message("const:1us:2"), "`2` is left over; write const:MEAN");
    }

    proptest! {
        #[test]
        fn text_reads_back(
            nanos: u32,
            kind in 0..5,
            slow_fraction in 0.0..=1.0,
            slow_ratio in 1.0..=1e6,
            sigma in 0.0..=5.0,
        ) {
            let shape = match kind {
                0 => Shape::Constant,
                1 => Shape::Exponential,
                2 => Shape::BIMODAL,
                3 => Shape::Bimodal { slow_fraction, slow_ratio },
                _ => Shape::LogNormal { sigma },
            };
            let mean = Duration::from_nanos(nanos.into());
            let service = ServiceTime::new(shape, mean).unwrap();
            prop_assert_eq!(service.to_string().parse(), Ok(service));
            let json = serde_json::to_string(&service).unwrap();
            prop_assert_eq!(serde_json::from_str::<ServiceTime>(&json).unwrap(), service);
        }
    }
}
