//! A file, and environment variables over it.
//!
//! `SEAWALL_PROXY__LIMITS__STREAMS=64` sets `limits.streams`: what follows the prefix, in lower
//! case, with two underscores for each dot. Values are as in TOML; what is none, such as `5s`, is a
//! text.

use std::error::Error;
use std::fmt;

use serde::Deserialize;
use toml::{Table, Value};

use super::{Config, ConfigError};

/// What the names of variables begin with.
const PREFIX: &str = "SEAWALL_PROXY__";

/// Why there is no configuration.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The text is no TOML, has unknown keys, or values of another type.
    Text {
        /// Where it is from: a file's name, or a variable's.
        source: String,
        /// What is wrong, and where.
        problem: String,
    },
    /// A value cannot be used.
    Value(ConfigError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { source, problem } => write!(f, "in {source}: {problem}"),
            Self::Value(error) => error.fmt(f),
        }
    }
}

impl Error for ReadError {}

impl From<ConfigError> for ReadError {
    fn from(error: ConfigError) -> Self {
        Self::Value(error)
    }
}

/// The variables of this process that set keys of the configuration, as dotted keys with texts.
pub fn from_environment() -> Vec<(String, String)> {
    let named = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let name = name.into_string().ok()?;
        let key = name.strip_prefix(PREFIX)?.to_ascii_lowercase().replace("__", ".");
        Some((key, value.into_string().ok()?))
    };
    let mut variables: Vec<_> = std::env::vars_os().filter_map(named).collect();
    variables.sort();
    variables
}

/// Reads a file (its name and text) and puts keys with their values over it, the last of the same
/// key counting.
///
/// # Errors
///
/// Names the file with line and column, or the key, and what is allowed.
pub fn from_layers(
    file: Option<(&str, &str)>,
    settings: &[(String, String)],
) -> Result<Config, ReadError> {
    let mut table = Table::new();
    if let Some((name, text)) = file {
        let wrong = |error: toml::de::Error| {
            let problem = error.to_string().trim_end().to_owned();
            ReadError::Text { source: name.to_owned(), problem }
        };
        // Once as a whole, for messages with line and column.
        toml::from_str::<Config>(text).map_err(wrong)?;
        table = text.parse().map_err(wrong)?;
    }
    for (key, value) in settings {
        insert(&mut table, key, literal(value)).map_err(|problem| ReadError::Text {
            source: format!("the setting {key}={value}"),
            problem,
        })?;
    }
    let config = Config::deserialize(table).map_err(|error| ReadError::Text {
        source: "the configuration".into(),
        // The second line of the message names the key.
        problem: error.to_string().trim_end().replace('\n', " "),
    })?;
    config.validate()?;
    Ok(config)
}

/// A value as in TOML; what is none is a string.
fn literal(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>();
    let value = parsed.ok().filter(|table| table.len() == 1);
    let value = value.and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn insert(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let (head, rest) = match key.split_once('.') {
        None => (key, None),
        Some((head, rest)) => (head, Some(rest)),
    };
    if head.is_empty() {
        return Err("a part of the key is empty".into());
    }
    let Some(rest) = rest else {
        table.insert(head.to_owned(), value);
        return Ok(());
    };
    let entry = table.entry(head).or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(inner) = entry else {
        return Err(format!("{head} is a value, it has no key {rest}"));
    };
    insert(inner, rest, value)
}
