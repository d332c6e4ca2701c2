//! One configuration, from three places: a file, `--set key=value`, and flags for what is set most
//! often.
//!
//! All three fill the same TOML table, later ones over earlier ones, and only the whole is checked:
//! so a flag means exactly what its key means in a file.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// Where configuration comes from.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Sources {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Set one key of the configuration, such as `server.admission.breakwater.beta=0.04`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl Sources {
    /// Reads everything into a `T`; `flags` are keys and values that flags have given.
    ///
    /// # Errors
    ///
    /// Names the file, key or field, and what is wrong with it.
    pub(crate) fn read<T: DeserializeOwned>(&self, flags: &[(&str, Option<Value>)]) -> Result<T> {
        let mut table = match &self.config {
            None => Table::new(),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read the configuration {}", path.display()))?;
                // Once as a whole, for messages with line and column.
                toml::from_str::<T>(&text).with_context(|| format!("in {}", path.display()))?;
                text.parse().with_context(|| format!("in {}", path.display()))?
            }
        };
        for setting in &self.set {
            let (key, value) = setting.split_once('=').with_context(|| {
                format!("--set {setting}: write KEY=VALUE, such as server.slo=2ms")
            })?;
            insert(&mut table, key.trim(), literal(value.trim()))?;
        }
        for (key, value) in flags {
            if let Some(value) = value {
                insert(&mut table, key, value.clone())?;
            }
        }
        T::deserialize(table).context("in the configuration")
    }
}

/// A value as in TOML; what is none, such as `2ms`, is a string.
fn literal(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>();
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn insert(table: &mut Table, key: &str, value: Value) -> Result<()> {
    match key.split_once('.') {
        None if key.is_empty() => bail!("an empty key cannot be set"),
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((head, rest)) => {
            let entry = table.entry(head).or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(inner) = entry else {
                bail!("{head} is a value, it has no key {rest}")
            };
            insert(inner, rest, value)
        }
    }
}

/// A flag's value as a string in the table, if the flag was given.
pub(crate) fn text<T: ToString>(flag: Option<&T>) -> Option<Value> {
    flag.map(|value| Value::String(value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_rpc::ServerConfig;
    use std::time::Duration;

    fn read(set: &[&str], flags: &[(&str, Option<Value>)]) -> Result<ServerConfig> {
        let set = set.iter().map(|s| (*s).to_owned()).collect();
        Sources { config: None, set }.read(flags)
    }

    #[test]
    fn flags_win_over_settings() {
        let flags = [("admission.algorithm", Some(Value::String("aimd".into())))];
        let set = ["slo=3ms", "admission.algorithm=none", "admission.breakwater.beta=0.5"];
        let config = read(&set, &flags).unwrap();
        assert_eq!(config.admission.algorithm, "aimd");
        assert_eq!(config.slo, Duration::from_millis(3));
        assert!((config.admission.breakwater.beta - 0.5).abs() < 1e-9);
    }

    #[test]
    fn errors_name_the_key() {
        let error = |set: &str| format!("{:#}", read(&[set], &[]).unwrap_err());
        assert!(error("admission.gamma=1").contains("gamma"), "{}", error("admission.gamma=1"));
        assert!(error("slo=fast").contains("fast"), "{}", error("slo=fast"));
        assert!(error("nonsense").contains("KEY=VALUE"));
        assert!(error("slo.x=1 ").contains("slo"), "{}", error("slo.x=1"));
    }
}
