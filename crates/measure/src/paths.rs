//! Which locks the requests of a synthetic service need: the two services with which Protego and
//! its successors are measured.
//!
//! | text | first path | second path | third path |
//! |---|---|---|---|
//! | `none` | no lock | – | – |
//! | `two:0.2` | a mutex, for a fifth | another mutex, for the rest | – |
//! | `hot:0.5` | the only mutex, for half | no lock, for the rest | – |
//! | `three:0.4:0.4` | the only mutex, for two fifths | no lock, for as many | CPU, for the rest |
//!
//! `two` is the application of Protego's figure 1: seemingly equal requests of which one part meets
//! a bottleneck long before the other.

use std::fmt;
use std::str::FromStr;

use crate::spec::{Fields, SpecError, in_range, serde_as_text};

const FORMS: &str = "none, two:SHARE, hot:SHARE, three:SHARE:SHARE";
const SHARE_RANGE: &str = "0 to 1";

/// The data paths of a synthetic service.
///
/// ```
/// use seawall_measure::Paths;
///
/// let paths: Paths = "two:0.2".parse().unwrap();
/// assert_eq!((paths.of(0.1), paths.of(0.3), paths.locks()), (0, 1, 2));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Paths {
    /// One path without a lock.
    #[default]
    None,
    /// Two paths, each through a mutex of its own.
    Two {
        /// Part of the requests that take the first one, 0 to 1.
        first: f64,
    },
    /// A path through a mutex, and one without.
    Hot {
        /// Part of the requests that need the mutex, 0 to 1.
        first: f64,
    },
    /// A path through a mutex, one without, and one whose requests spend CPU time.
    Three {
        /// Part of the requests that need the mutex, 0 to 1.
        first: f64,
        /// Part of the requests that take the second path, 0 to what is left.
        second: f64,
    },
}

impl Paths {
    /// The path, from 0 on, of a request that drew `uniform` between 0 and 1.
    pub fn of(self, uniform: f64) -> usize {
        let (first, second) = match self {
            Self::None => (1.0, 0.0),
            Self::Two { first } | Self::Hot { first } => (first, 1.0 - first),
            Self::Three { first, second } => (first, second),
        };
        usize::from(uniform >= first) + usize::from(uniform >= first + second)
    }

    /// How many paths there are.
    pub const fn count(self) -> usize {
        match self {
            Self::None => 1,
            Self::Two { .. } | Self::Hot { .. } => 2,
            Self::Three { .. } => 3,
        }
    }

    /// How many mutexes there are: each belongs to the path of its number.
    pub const fn locks(self) -> usize {
        match self {
            Self::None => 0,
            Self::Two { .. } => 2,
            Self::Hot { .. } | Self::Three { .. } => 1,
        }
    }
}

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Two { first } => write!(f, "two:{first}"),
            Self::Hot { first } => write!(f, "hot:{first}"),
            Self::Three { first, second } => write!(f, "three:{first}:{second}"),
        }
    }
}

impl FromStr for Paths {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, rest) = Fields::split(text);
        let form = match name {
            "none" => "none",
            "two" => "two:SHARE",
            "hot" => "hot:SHARE",
            "three" => "three:SHARE:SHARE",
            _ => {
                let (what, name) = ("paths", name.into());
                return Err(SpecError::UnknownName { what, name, allowed: FORMS });
            }
        };
        let mut fields = Fields::new(rest, form);
        let mut share = |most: f64, range: &'static str| {
            let share = fields.number("share", range)?;
            in_range("share", share, 0.0..=most, range)
        };
        let paths = match name {
            "two" => Self::Two { first: share(1.0, SHARE_RANGE)? },
            "hot" => Self::Hot { first: share(1.0, SHARE_RANGE)? },
            "three" => {
                let first = share(1.0, SHARE_RANGE)?;
                Self::Three { first, second: share(1.0 - first, "0 to what the first leaves")? }
            }
            _ => Self::None,
        };
        fields.end()?;
        Ok(paths)
    }
}

serde_as_text!(Paths);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_reads_back() {
        for text in ["none", "two:0.2", "hot:0.5", "hot:1", "three:0.25:0.5"] {
            let paths: Paths = text.parse().unwrap();
            assert_eq!(paths.to_string(), text);
            let json = serde_json::to_string(&paths).unwrap();
            assert_eq!(serde_json::from_str::<Paths>(&json).unwrap(), paths);
        }
    }

    #[test]
    fn requests_are_divided_as_the_shares_say() {
        let of = |text: &str| {
            let paths: Paths = text.parse().unwrap();
            [0.0, 0.25, 0.5, 0.999].map(|uniform| paths.of(uniform))
        };
        assert_eq!(of("none"), [0, 0, 0, 0]);
        assert_eq!(of("two:0.3"), [0, 0, 1, 1]);
        assert_eq!(of("hot:0"), [1, 1, 1, 1]);
        assert_eq!(of("three:0.25:0.25"), [0, 1, 2, 2]);
    }

    #[test]
    fn errors_name_the_field() {
        let message = |text: &str| text.parse::<Paths>().unwrap_err().to_string();
        assert_eq!(message("four:1"), format!("unknown paths `four`; allowed: {FORMS}"));
        assert_eq!(message("two"), "share is missing; write two:SHARE");
        assert_eq!(message("hot:2"), "share is 2; allowed: 0 to 1");
        let beyond = "share is 0.5; allowed: 0 to what the first leaves";
        assert_eq!(message("three:0.75:0.5"), beyond);
        assert_eq!(message("none:1"), "`1` is left over; write none");
    }
}
