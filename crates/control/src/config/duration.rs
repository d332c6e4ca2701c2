//! Durations as people write them: `10us`, `1.5ms`, `2s`, `150ns`, `1m`.
//!
//! A text is a decimal number and a unit, without a space. Reading is exact: integer arithmetic,
//! and what does not fit whole nanoseconds is an error rather than rounded. Printing takes the
//! largest unit that leaves a number of at least one and is exact too, so that reading it back
//! gives the same duration.
//!
//! In a configuration struct, name this module in the field's attribute:
//!
//! ```
//! use std::time::Duration;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Config {
//!     #[serde(with = "seawall_control::config::duration")]
//!     slo: Duration,
//!     #[serde(default, with = "seawall_control::config::duration::option")]
//!     timeout: Option<Duration>,
//! }
//!
//! let config: Config = toml::from_str("slo = '200us'").unwrap();
//! assert_eq!(config.slo, Duration::from_micros(200));
//! assert_eq!(config.timeout, None);
//! ```

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::time::nanos;

/// Units with their length in nanoseconds, longest first. `µs` is read in both its spellings.
const UNITS: [(&str, u64); 7] = [
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ns", 1),
];

/// Digits after the point beyond which even a minute has no whole nanoseconds left.
const MAX_FRACTION_DIGITS: usize = 18;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseDurationError {
    /// Nothing was written.
    Empty,
    /// The text does not start with a digit.
    NoNumber(String),
    /// The number has several points, or nothing before or after its point.
    MalformedNumber(String),
    /// A number stands alone.
    NoUnit(String),
    /// The unit is not one of ours.
    UnknownUnit {
        /// The whole text.
        text: String,
        /// What follows the number.
        unit: String,
    },
    /// The value has a fraction of a nanosecond.
    TooFine(String),
    /// The value does not fit the clock.
    TooLong(String),
}

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => {
                f.write_str("duration is empty; write a number and a unit, such as 10us")
            }
            Self::NoNumber(text) => {
                write!(f, "duration `{text}` must start with a number (not negative), such as 10us")
            }
            Self::MalformedNumber(text) => {
                write!(f, "duration `{text}` has a malformed number; write it as 10 or 1.5")
            }
            Self::NoUnit(text) => {
                write!(f, "duration `{text}` has no unit; add ns, us, ms, s or m")
            }
            Self::UnknownUnit { text, unit } => write!(
                f,
                "duration `{text}` has the unknown unit `{unit}`; allowed: ns, us, ms, s, m"
            ),
            Self::TooFine(text) => {
                write!(f, "duration `{text}` is not a whole number of nanoseconds")
            }
            Self::TooLong(text) => write!(
                f,
                "duration `{text}` is too long; the clock holds at most 18446744073s (584 years)"
            ),
        }
    }
}

impl core::error::Error for ParseDurationError {}

/// Reads a duration such as `10us`, `1.5ms`, `2s`, `150ns` or `1m`.
///
/// # Errors
///
/// When the text has no number, no unit or an unknown one, a fraction of a nanosecond, or more
/// nanoseconds than a `u64` holds.
pub fn parse(text: &str) -> Result<Duration, ParseDurationError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ParseDurationError::Empty);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if number.is_empty() {
        return Err(ParseDurationError::NoNumber(text.into()));
    }
    if unit.is_empty() {
        return Err(ParseDurationError::NoUnit(text.into()));
    }
    let Some(&(_, unit)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(ParseDurationError::UnknownUnit { text: text.into(), unit: unit.into() });
    };
    let (whole, fraction) = match number.split_once('.') {
        None => (number, "0"),
        Some((whole, fraction)) => (whole, fraction),
    };
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(ParseDurationError::MalformedNumber(text.into()));
    }
    let nanos = whole_nanos(text, whole, unit)? + fraction_nanos(text, fraction, unit)?;
    u64::try_from(nanos)
        .map(Duration::from_nanos)
        .map_err(|_| ParseDurationError::TooLong(text.into()))
}

fn whole_nanos(text: &str, digits: &str, unit: u64) -> Result<u128, ParseDurationError> {
    // Only digits are left here, so that the only possible failure is a number beyond 64 bits.
    let whole: u64 = digits.parse().map_err(|_| ParseDurationError::TooLong(text.into()))?;
    Ok(u128::from(whole) * u128::from(unit))
}

fn fraction_nanos(text: &str, digits: &str, unit: u64) -> Result<u128, ParseDurationError> {
    let too_fine = || ParseDurationError::TooFine(text.into());
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    if digits.len() > MAX_FRACTION_DIGITS {
        return Err(too_fine());
    }
    let fraction: u64 = digits.parse().map_err(|_| too_fine())?;
    let scaled = u128::from(fraction) * u128::from(unit);
    let denominator = 10_u128.pow(digits.len() as u32);
    if scaled % denominator == 0 { Ok(scaled / denominator) } else { Err(too_fine()) }
}

/// A duration that reads and prints as text; use it where a bare [`Duration`] cannot say so itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(pub Duration);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if nanos == 0 {
            return f.pad("0s");
        }
        // Minutes only when whole: people write 90s, not 1.5m.
        let (name, unit) = UNITS
            .iter()
            .map(|&(name, unit)| (name, u128::from(unit)))
            .find(|&(name, unit)| nanos >= unit && (name != "m" || nanos.is_multiple_of(unit)))
            .expect("one nanosecond is a unit");
        let (whole, rest) = (nanos / unit, nanos % unit);
        if rest == 0 {
            return f.pad(&format!("{whole}{name}"));
        }
        let digits = unit.ilog10() as usize;
        let fraction = format!("{rest:0digits$}");
        f.pad(&format!("{whole}.{}{name}", fraction.trim_end_matches('0')))
    }
}

impl FromStr for Text {
    type Err = ParseDurationError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Self)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Written)
    }
}

/// Reads a text, and says of anything else what it should be.
struct Written;

impl de::Visitor<'_> for Written {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time: a number and a unit in quotes, such as \"100ms\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
        text.parse().map_err(E::custom)
    }
}

/// `duration` as text.
pub fn format(duration: Duration) -> String {
    Text(duration).to_string()
}

/// For `#[serde(with = "seawall_control::config::duration")]`: writes the duration as text.
///
/// # Errors
///
/// Those of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    Serialize::serialize(&Text(*duration), serializer)
}

/// For `#[serde(with = "seawall_control::config::duration")]`: reads the duration from text.
///
/// # Errors
///
/// Those of the deserializer and of [`parse`].
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    <Text as Deserialize>::deserialize(deserializer).map(|text| text.0)
}

/// The same for `Option<Duration>`; combine it with `#[serde(default)]` so that a field may be left
/// out.
pub mod option {
    use super::{Deserializer, Duration, Serializer, Text};

    /// For `#[serde(with = "seawall_control::config::duration::option")]`: writes text or none.
    ///
    /// # Errors
    ///
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        super::Serialize::serialize(&duration.map(Text), serializer)
    }

    /// For `#[serde(with = "seawall_control::config::duration::option")]`: reads text or none.
    ///
    /// # Errors
    ///
    /// Those of the deserializer and of [`parse`](super::parse).
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = <Option<Text> as super::Deserialize>::deserialize(deserializer)?;
        Ok(text.map(|text| text.0))
    }
}

/// `duration` times `factor`, rounded to the nanosecond; negative and undefined factors give zero,
/// and what exceeds the clock saturates at `u64::MAX` nanoseconds.
pub fn scaled(duration: Duration, factor: f64) -> Duration {
    let nanos = nanos(duration) as f64 * factor;
    // A cast from float to integer saturates, and takes a NaN to zero.
    Duration::from_nanos(libm::round(nanos) as u64)
}

/// `duration` in microseconds as a fraction: the unit of reports.
pub fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_the_documented_forms() {
        let nanos = |text| parse(text).map(|d| d.as_nanos());
        assert_eq!(nanos("10us"), Ok(10_000));
        assert_eq!(nanos("10\u{b5}s"), Ok(10_000));
        assert_eq!(nanos("1.5ms"), Ok(1_500_000));
        assert_eq!(nanos("2s"), Ok(2_000_000_000));
        assert_eq!(nanos("150ns"), Ok(150));
        assert_eq!(nanos("1m"), Ok(60_000_000_000));
        assert_eq!(nanos(" 0s "), Ok(0));
        assert_eq!(nanos("1.500000000000000000000s"), Ok(1_500_000_000));
        assert_eq!(nanos("18446744073.709551615s"), Ok(u128::from(u64::MAX)));
    }

    #[test]
    fn says_what_is_wrong_and_what_is_allowed() {
        let message = |text| parse(text).unwrap_err().to_string();
        assert!(message("").contains("empty"));
        assert!(message("-5us").contains("not negative"));
        assert!(message("ms").contains("must start with a number"));
        assert!(message("10").contains("add ns, us, ms, s or m"));
        assert!(message("10 us").contains("unknown unit ` us`"));
        assert!(message("1h").contains("unknown unit `h`; allowed: ns, us, ms, s, m"));
        assert!(message("1.2.3s").contains("malformed"));
        assert!(message(".5s").contains("malformed"));
        assert!(message("5.s").contains("malformed"));
        assert!(message("0.5ns").contains("whole number of nanoseconds"));
        assert!(message("0.0000000000000000001m").contains("whole number of nanoseconds"));
        assert!(message("18446744074s").contains("584 years"));
        assert!(message("99999999999999999999s").contains("584 years"));
    }

    #[test]
    fn prints_the_largest_fitting_unit() {
        let text = |nanos| Text(Duration::from_nanos(nanos)).to_string();
        assert_eq!(text(0), "0s");
        assert_eq!(text(150), "150ns");
        assert_eq!(text(10_000), "10us");
        assert_eq!(text(1_500_000), "1.5ms");
        assert_eq!(text(1_000_001), "1.000001ms");
        assert_eq!(text(90_000_000_000), "90s");
        assert_eq!(text(120_000_000_000), "2m");
        assert_eq!(format!("{:>6}|", Text(Duration::from_micros(10))), "  10us|");
    }

    #[test]
    fn scaling_rounds_and_saturates() {
        let ten = Duration::from_nanos(10);
        assert_eq!(scaled(ten, 0.26), Duration::from_nanos(3));
        assert_eq!(scaled(ten, -1.0), Duration::ZERO);
        assert_eq!(scaled(ten, f64::NAN), Duration::ZERO);
        assert_eq!(scaled(ten, f64::INFINITY), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn serde_reads_and_writes_text_and_names_the_fault() {
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        struct Config {
            #[serde(with = "crate::config::duration")]
            slo: Duration,
            #[serde(default, with = "crate::config::duration::option")]
            timeout: Option<Duration>,
        }
        let config: Config = toml::from_str("slo = '200us'\ntimeout = '1s'").unwrap();
        assert_eq!(config.slo, Duration::from_micros(200));
        assert_eq!(config.timeout, Some(Duration::from_secs(1)));
        let text = toml::to_string(&config).unwrap();
        assert_eq!(text, "slo = \"200us\"\ntimeout = \"1s\"\n");
        let error = toml::from_str::<Config>("slo = '200'").unwrap_err();
        assert!(error.to_string().contains("has no unit"), "{error}");
        for text in ["slo = 200", "slo = 0.2", "slo = '1s'\ntimeout = 1"] {
            let error = toml::from_str::<Config>(text).unwrap_err().to_string();
            let expected = "a number and a unit in quotes, such as \"100ms\"";
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn printed_durations_read_back(nanos: u64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&Text(duration).to_string()), Ok(duration));
        }

        #[test]
        fn short_durations_read_back(nanos in 0_u64..200_000_000_000) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&Text(duration).to_string()), Ok(duration));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,30}") {
            let _ = parse(&text);
        }
    }
}
