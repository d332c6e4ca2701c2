//! Bandwidths as people write them: `7.5GB`, `800MB`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Units with their bytes, largest first.
const UNITS: [(&str, u64); 5] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("B", 1)];

/// Beyond this a `f64` does not hold every number of bytes.
const MAX: f64 = 1e15;

/// Bytes per second, from 0 to 1000 TB. As text it is a decimal number and a unit without a space:
/// B, kB, MB, GB or TB, each a thousand of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bandwidth(u64);

/// Why a text is no bandwidth.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bandwidth `{0}` is no number with a unit, up to 1000TB; write it as 7.5GB or 800MB")]
pub struct ParseBandwidthError(String);

impl Bandwidth {
    /// This many bytes per second.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Bytes per second.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Bandwidth {
    type Err = ParseBandwidthError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseBandwidthError(text.into());
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = UNITS.iter().find(|(name, _)| *name == &text[digits.len()..]);
        let (_, unit) = unit.ok_or_else(refused)?;
        if !digits.bytes().all(|c| c.is_ascii_digit() || c == b'.') {
            return Err(refused());
        }
        let bytes = digits.parse::<f64>().map_err(|_| refused())? * *unit as f64;
        if bytes <= MAX { Ok(Self(bytes.round() as u64)) } else { Err(refused()) }
    }
}

impl TryFrom<String> for Bandwidth {
    type Error = ParseBandwidthError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Bandwidth> for String {
    fn from(bandwidth: Bandwidth) -> Self {
        bandwidth.to_string()
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) = UNITS.iter().find(|(_, unit)| self.0 >= *unit).unwrap_or(&("B", 1));
        write!(f, "{}{name}", self.0 as f64 / *unit as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_and_written_alike() {
        for (text, bytes) in [
            ("7.5GB", 7_500_000_000),
            ("0.1GB", 100_000_000),
            ("180GB", 180_000_000_000),
            ("800MB", 800_000_000),
            ("3kB", 3_000),
            ("0B", 0),
            ("1000TB", 1_000_000_000_000_000),
        ] {
            let read: Bandwidth = text.parse().unwrap();
            assert_eq!(read.bytes(), bytes, "{text}");
            assert_eq!(read.to_string().parse(), Ok(read), "{text}");
        }
        assert_eq!(Bandwidth::from_bytes(100_000_000).to_string(), "100MB");
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["", "GB", "7.5", "7.5Gb", "-1GB", "1e3GB", "1..5GB", "1001TB", "7,5GB", "1 GB"]
        {
            let error = text.parse::<Bandwidth>().unwrap_err().to_string();
            assert!(error.contains("7.5GB"), "{text}: {error}");
        }
    }
}
