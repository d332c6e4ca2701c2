//! Short texts that describe a workload, such as `bimodal:10us` or `zipf:100000:0.99`.
//!
//! All of them have one form, a name and then fields separated by colons, so that a plan file, a
//! command line and a report say the same thing in the same words. One reader serves them all, and
//! one error names the field that is wrong and what would be right.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::duration::{self, ParseDurationError};

/// Why a text does not describe what it should, or why a parameter was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The part before the first colon is not a known name.
    #[error("unknown {what} `{name}`; allowed: {allowed}")]
    UnknownName {
        /// What was to be described.
        what: &'static str,
        /// The name as written.
        name: String,
        /// The forms that exist.
        allowed: &'static str,
    },
    /// The text ends before a field that it needs.
    #[error("{field} is missing; write {form}")]
    Missing {
        /// The field's name.
        field: &'static str,
        /// The whole form.
        form: &'static str,
    },
    /// The text goes on after its last field.
    #[error("`{rest}` is left over; write {form}")]
    Surplus {
        /// What was left.
        rest: String,
        /// The whole form.
        form: &'static str,
    },
    /// A field that should be a number is none.
    #[error("{field} `{text}` is not a number; allowed: {allowed}")]
    NotANumber {
        /// The field's name.
        field: &'static str,
        /// The field as written.
        text: String,
        /// The allowed range.
        allowed: &'static str,
    },
    /// A number lies outside the range that makes sense.
    #[error("{field} is {value}; allowed: {allowed}")]
    OutOfRange {
        /// The field's name.
        field: &'static str,
        /// The value that was refused.
        value: String,
        /// The allowed range.
        allowed: &'static str,
    },
    /// A field that should be a duration is none.
    #[error("{field}: {source}")]
    Duration {
        /// The field's name.
        field: &'static str,
        /// What was wrong with it.
        source: ParseDurationError,
    },
}

/// Refuses `value` unless it lies in `range`; `allowed` is the range in words.
pub(crate) fn in_range(
    field: &'static str,
    value: f64,
    range: RangeInclusive<f64>,
    allowed: &'static str,
) -> Result<f64, SpecError> {
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(out_of_range(field, value.to_string(), allowed))
    }
}

pub(crate) fn out_of_range(field: &'static str, value: String, allowed: &'static str) -> SpecError {
    SpecError::OutOfRange { field, value, allowed }
}

/// Reads the fields of `name:field:field` one by one.
pub(crate) struct Fields<'a> {
    form: &'static str,
    /// What is still to be read; `None` once the last field was taken.
    rest: Option<&'a str>,
}

impl<'a> Fields<'a> {
    /// The name before the first colon, and what follows it.
    pub(crate) fn split(text: &'a str) -> (&'a str, Option<&'a str>) {
        match text.trim().split_once(':') {
            None => (text.trim(), None),
            Some((name, rest)) => (name, Some(rest)),
        }
    }

    /// A reader of `rest`, whose errors show `form` as what to write.
    pub(crate) fn new(rest: Option<&'a str>, form: &'static str) -> Self {
        Self { form, rest }
    }

    pub(crate) fn duration(&mut self, field: &'static str) -> Result<Duration, SpecError> {
        let text = self.required(field)?;
        duration::parse(text).map_err(|source| SpecError::Duration { field, source })
    }

    pub(crate) fn number(
        &mut self,
        field: &'static str,
        allowed: &'static str,
    ) -> Result<f64, SpecError> {
        let text = self.required(field)?;
        text.parse().map_err(|_| not_a_number(field, text, allowed))
    }

    pub(crate) fn integer(
        &mut self,
        field: &'static str,
        allowed: &'static str,
    ) -> Result<u64, SpecError> {
        let text = self.required(field)?;
        text.parse().map_err(|_| not_a_number(field, text, allowed))
    }

    /// A number, or `None` when the text ends here.
    pub(crate) fn optional_number(
        &mut self,
        field: &'static str,
        allowed: &'static str,
    ) -> Result<Option<f64>, SpecError> {
        match self.rest {
            None => Ok(None),
            Some(_) => self.number(field, allowed).map(Some),
        }
    }

    /// Refuses a text that goes on.
    pub(crate) fn end(self) -> Result<(), SpecError> {
        match self.rest {
            None => Ok(()),
            Some(rest) => Err(SpecError::Surplus { rest: rest.into(), form: self.form }),
        }
    }

    fn required(&mut self, field: &'static str) -> Result<&'a str, SpecError> {
        let form = self.form;
        let rest = self.rest.take().ok_or(SpecError::Missing { field, form })?;
        let (text, rest) = match rest.split_once(':') {
            None => (rest, None),
            Some((text, rest)) => (text, Some(rest)),
        };
        self.rest = rest;
        if text.is_empty() {
            return Err(SpecError::Missing { field, form });
        }
        Ok(text)
    }
}

fn not_a_number(field: &'static str, text: &str, allowed: &'static str) -> SpecError {
    SpecError::NotANumber { field, text: text.into(), allowed }
}

/// Serializes types through their `Display` and `FromStr`, so that files hold the same texts as
/// command lines do.
macro_rules! serde_as_text {
    ($($type:ty),+ $(,)?) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(<D::Error as serde::de::Error>::custom)
            }
        }
    )+};
}
pub(crate) use serde_as_text;

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "name:LENGTH[:SHARE]";

    fn read(text: &str) -> Result<(Duration, Option<f64>), SpecError> {
        let (_, rest) = Fields::split(text);
        let mut fields = Fields::new(rest, FORM);
        let length = fields.duration("length")?;
        let share = fields.optional_number("share", "0 to 1")?;
        fields.end()?;
        if let Some(share) = share {
            in_range("share", share, 0.0..=1.0, "0 to 1")?;
        }
        Ok((length, share))
    }

    #[test]
    fn reads_fields_in_order() {
        assert_eq!(read("name:2s"), Ok((Duration::from_secs(2), None)));
        assert_eq!(read(" name:2s:0.5 "), Ok((Duration::from_secs(2), Some(0.5))));
    }

    #[test]
    fn errors_name_the_field_and_what_is_allowed() {
        let message = |text| read(text).unwrap_err().to_string();
        assert_eq!(message("name"), "length is missing; write name:LENGTH[:SHARE]");
        assert_eq!(message("name::1"), "length is missing; write name:LENGTH[:SHARE]");
        assert_eq!(message("name:2s:x"), "share `x` is not a number; allowed: 0 to 1");
        assert_eq!(message("name:2s:2"), "share is 2; allowed: 0 to 1");
        assert_eq!(message("name:2s:NaN"), "share is NaN; allowed: 0 to 1");
        assert_eq!(message("name:2s:1:7"), "`7` is left over; write name:LENGTH[:SHARE]");
        assert!(message("name:2").starts_with("length: duration `2` has no unit"));
    }
}
