//! What an operator may set.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::value::HEADERS_MAX;
use crate::config::{ConfigError, duration};
use crate::request::Class;

/// Parameters of the discovery of classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Classes told apart, the one for all else included, from 1, which turns discovery off, to
    /// 8. Default 8.
    pub classes_max: u32,
    /// Headers whose values may tell classes apart, at most 5, by their names in lower case.
    /// Default `x-tenant`, `x-tenant-id`, `content-type`.
    pub headers: Vec<String>,
    /// How long latencies are compared before a vote is taken, from 10ms to 10m. Three of four
    /// votes make a class. Default 1s.
    #[serde(with = "duration")]
    pub window: Duration,
    /// A class whose requests no longer differ from the others, or do not come any more, is given
    /// up after this time, from 1s to 30d. Default 10m.
    #[serde(with = "duration")]
    pub forget_after: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            classes_max: Class::COUNT as u32,
            headers: ["x-tenant", "x-tenant-id", "content-type"].map(String::from).into(),
            window: Duration::from_secs(1),
            forget_after: Duration::from_secs(600),
        }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("classes.classes_max", self.classes_max, 1..=Class::COUNT as u32)?;
        if self.headers.len() > HEADERS_MAX {
            let problem = format!("{} are too many; allowed are {HEADERS_MAX}", self.headers.len());
            return Err(ConfigError::new("classes.headers", problem));
        }
        let is_name = |name: &String| {
            !name.is_empty()
                && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
        };
        if let Some(name) = self.headers.iter().find(|name| !is_name(name)) {
            let allowed = "allowed are lower-case letters, digits, - and _";
            let problem = format!("\"{name}\" is no name of a header; {allowed}");
            return Err(ConfigError::new("classes.headers", problem));
        }
        let day = 24 * 3600;
        let within = |field, value: Duration, least: Duration, most: Duration, range: &str| {
            let problem = format!("it is out of range; allowed is {range}");
            let is_within = (least..=most).contains(&value);
            if is_within { Ok(()) } else { Err(ConfigError::new(field, problem)) }
        };
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        within("classes.window", self.window, ms(10), s(600), "10ms to 10m")?;
        within("classes.forget_after", self.forget_after, s(1), s(30 * day), "1s to 30d")
    }
}
