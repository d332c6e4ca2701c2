//! Durations as people write them: `80us`, `1.5ms`, `2s`.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::time::nanos;

/// Units from large to small, in nanoseconds.
const UNITS: [(&str, u64); 5] =
    [("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDurationError {
    text: String,
}

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not a duration: write a number and ns, us, ms, s or m, like 1.5ms",
            self.text
        )
    }
}

impl core::error::Error for ParseDurationError {}

/// Reads a duration such as `150ns`, `80us`, `1.5ms`, `2s` or `1m`.
///
/// # Errors
///
/// Quotes the text and says what is allowed. Negative and endless durations are not.
pub fn parse(text: &str) -> Result<Duration, ParseDurationError> {
    let error = || ParseDurationError { text: text.into() };
    let trimmed = text.trim();
    let unit_at = trimmed.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').ok_or_else(error)?;
    let (number, unit) = trimmed.split_at(unit_at);
    let unit = if unit == "µs" { "us" } else { unit };
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
    let number: f64 = number.trim().parse().map_err(|_| error())?;
    let nanos = libm::round(number * *scale as f64);
    if nanos.is_finite() && (0.0..u64::MAX as f64).contains(&nanos) {
        Ok(Duration::from_nanos(nanos as u64))
    } else {
        Err(error())
    }
}

/// Writes a duration in the largest unit that keeps it exact in at most three decimals, else in
/// nanoseconds; [`parse`] reads it back unchanged.
pub fn format(duration: Duration) -> String {
    let nanos = nanos(duration);
    for (name, scale) in UNITS.iter().skip(1) {
        let step = (scale / 1_000).max(1);
        if nanos >= *scale && nanos.is_multiple_of(step) {
            let (whole, thousandths) = (nanos / scale, (nanos % scale) / step);
            if thousandths == 0 {
                return format!("{whole}{name}");
            }
            let digits = format!("{thousandths:03}");
            return format!("{whole}.{}{name}", digits.trim_end_matches('0'));
        }
    }
    format!("{nanos}ns")
}

/// `#[serde(with = "duration")]`.
pub fn serialize<S: serde::Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*value))
}

/// `#[serde(with = "duration")]`.
///
/// # Errors
///
/// What [`parse`] says.
pub fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = <String as serde::Deserialize>::deserialize(from)?;
    parse(&text).map_err(serde::de::Error::custom)
}

/// `#[serde(with = "duration::option")]`: an absent value is `None`.
pub mod option {
    use super::{Duration, String, format, parse};

    /// Writes the duration, or nothing.
    pub fn serialize<S: serde::Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(duration) => serializer.serialize_some(&format(*duration)),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a duration if there is one.
    ///
    /// # Errors
    ///
    /// What [`parse`] says.
    pub fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = <Option<String> as serde::Deserialize>::deserialize(from)?;
        text.map(|text| parse(&text).map_err(serde::de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn reads_every_unit() {
        let cases = [("150ns", 150), ("80us", 80_000), ("80µs", 80_000), ("1.5ms", 1_500_000)];
        for (text, expected) in cases {
            assert_eq!(parse(text).map(nanos), Ok(expected), "{text}");
        }
        assert_eq!(parse(" 2 s "), Ok(Duration::from_secs(2)));
        assert_eq!(parse("1m"), Ok(Duration::from_secs(60)));
    }

    #[test]
    fn says_what_is_wrong_and_what_is_allowed() {
        for text in ["", "5", "us", "-3us", "1e400s", "3 hours", "NaNus", "99999999999m"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(text.trim()) && error.contains("1.5ms"), "{error}");
        }
    }

    #[test]
    fn prints_the_shortest_exact_form() {
        let cases = [(0, "0ns"), (150, "150ns"), (80_000, "80us"), (1_500_000, "1.5ms")];
        for (nanos, expected) in cases {
            assert_eq!(format(Duration::from_nanos(nanos)), expected);
        }
        assert_eq!(format(Duration::from_nanos(1_234_567)), "1234.567us");
    }

    proptest::proptest! {
        #[test]
        fn what_is_printed_reads_back(nanos in 0u64..1 << 50) {
            let duration = Duration::from_nanos(nanos);
            proptest::prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }
    }
}
