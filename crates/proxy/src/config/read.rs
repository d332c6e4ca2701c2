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

/// What the names of variables begin with that are probably meant for the proxy, and of those
/// what Kubernetes gives each pod beside a service called `seawall-proxy`.
const MEANT: &str = "SEAWALL_PROXY_";
const KUBERNETES: [&str; 2] = ["SEAWALL_PROXY_SERVICE_", "SEAWALL_PROXY_PORT"];

/// A key with its value, over what the file says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    /// Where it is from, for messages: a variable's name, or a flag.
    pub source: String,
    /// The dotted key.
    pub key: String,
    /// The value, as in TOML; what is none is a text.
    pub value: String,
}

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

/// The variables of this process that set keys of the configuration.
pub fn from_environment() -> Vec<Setting> {
    let named = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let source = name.into_string().ok()?;
        let key = source.strip_prefix(PREFIX)?.to_ascii_lowercase().replace("__", ".");
        Some(Setting { key, value: value.into_string().ok()?, source })
    };
    let mut variables: Vec<_> = std::env::vars_os().filter_map(named).collect();
    variables.sort();
    variables
}

/// The variables of this process that look as if they were to set keys, and do not.
pub fn unknown_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let is_unknown = |name: &String| {
        name.starts_with(MEANT)
            && !name.starts_with(PREFIX)
            && !KUBERNETES.iter().any(|prefix| name.starts_with(prefix))
    };
    let mut names: Vec<_> = names.filter(is_unknown).collect();
    names.sort();
    names
}

/// Reads a file (its name and text) and puts keys with their values over it, the last of the same
/// key counting.
///
/// # Errors
///
/// Names the file with line and column, or the key, and what is allowed.
pub fn from_layers(file: Option<(&str, &str)>, settings: &[Setting]) -> Result<Config, ReadError> {
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
    let config = match layered(table.clone(), settings)? {
        Ok(config) => config,
        Err(problem) => {
            let source = to_blame(&table, settings, &problem);
            let source = source.map_or("the configuration", |setting| setting.source.as_str());
            return Err(ReadError::Text { source: source.to_owned(), problem });
        }
    };
    config.validate()?;
    Ok(config)
}

/// The table with the settings over it, as a configuration, or what is wrong with that.
fn layered(mut table: Table, settings: &[Setting]) -> Result<Result<Config, String>, ReadError> {
    for Setting { source, key, value } in settings {
        insert(&mut table, key, literal(value))
            .map_err(|problem| ReadError::Text { source: source.clone(), problem })?;
    }
    // The second line of the message names the key.
    let problem = |error: toml::de::Error| error.to_string().trim_end().replace('\n', " ");
    Ok(Config::deserialize(table).map_err(problem))
}

/// The first setting that leads to `problem`.
fn to_blame<'a>(table: &Table, settings: &'a [Setting], problem: &str) -> Option<&'a Setting> {
    (0..settings.len()).find_map(|last| {
        let read = layered(table.clone(), &settings[..=last]);
        matches!(read, Ok(Err(found)) if found == problem).then(|| &settings[last])
    })
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
