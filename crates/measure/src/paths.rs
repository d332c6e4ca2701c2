//! Which locks the requests of a synthetic service need: the two services with which Protego and
//! its successors are measured.
//!
//! | text | first path | second path |
//! |---|---|---|
//! | `none` | no lock | there is none |
//! | `two:0.2` | a mutex, for a fifth of the requests | another mutex, for the rest |
//! | `hot:0.5` | the only mutex, for half of the requests | no lock |
//!
//! `two` is the application of Protego's figure 1: seemingly equal requests of which one part meets
//! a bottleneck long before the other.

use std::fmt;
use std::str::FromStr;

use crate::spec::{Fields, SpecError, in_range, serde_as_text};

const FORMS: &str = "none, two:SHARE, hot:SHARE";
const SHARE_RANGE: &str = "0 to 1";

/// The data paths of a synthetic service.
///
/// ```
/// use seawall_measure::Paths;
///
/// let paths: Paths = "two:0.2".parse().unwrap();
/// assert_eq!((paths.first_share(), paths.locks()), (0.2, 2));
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
}

impl Paths {
    /// The part of the requests that take the first path, 0 to 1.
    pub const fn first_share(self) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Two { first } | Self::Hot { first } => first,
        }
    }

    /// How many mutexes there are: each belongs to the path of its number.
    pub const fn locks(self) -> usize {
        match self {
            Self::None => 0,
            Self::Two { .. } => 2,
            Self::Hot { .. } => 1,
        }
    }
}

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Two { first } => write!(f, "two:{first}"),
            Self::Hot { first } => write!(f, "hot:{first}"),
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
            _ => {
                let (what, name) = ("paths", name.into());
                return Err(SpecError::UnknownName { what, name, allowed: FORMS });
            }
        };
        let mut fields = Fields::new(rest, form);
        let paths = if name == "none" {
            Self::None
        } else {
            let first = fields.number("share", SHARE_RANGE)?;
            let first = in_range("share", first, 0.0..=1.0, SHARE_RANGE)?;
            if name == "two" { Self::Two { first } } else { Self::Hot { first } }
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
        for text in ["none", "two:0.2", "hot:0.5", "hot:1"] {
            let paths: Paths = text.parse().unwrap();
            assert_eq!(paths.to_string(), text);
            let json = serde_json::to_string(&paths).unwrap();
            assert_eq!(serde_json::from_str::<Paths>(&json).unwrap(), paths);
        }
    }

    #[test]
    fn errors_name_the_field() {
        let message = |text: &str| text.parse::<Paths>().unwrap_err().to_string();
        assert_eq!(message("three:1"), format!("unknown paths `three`; allowed: {FORMS}"));
        assert_eq!(message("two"), "share is missing; write two:SHARE");
        assert_eq!(message("hot:2"), "share is 2; allowed: 0 to 1");
        assert_eq!(message("none:1"), "`1` is left over; write none");
    }
}
