//! One configuration, from three places: a file, `--set key=value`, and flags for what is set most
//! often.
//!
//! All three fill the same TOML table, later ones over earlier ones, and only the whole is checked:
//! so a flag means exactly what its key means in a file.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// Where configuration comes from.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Sources {
    /// Configuration file (TOML)
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// Keys that are set one by one.
///
/// Not global, as other flags of commands with subcommands are: clap forgets what was given before
/// the subcommand if there is more behind it. So both have these, and [`Sources::read`] joins them.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Settings {
    /// Set one key of the configuration, over what the file says
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// A key and the value that a flag has given it, if the flag was there.
pub(crate) type Flag<'a> = (&'a str, Option<Value>);

impl Sources {
    /// Reads everything into a `T`; `more` settings were given after these.
    ///
    /// # Errors
    ///
    /// Names the file, key or field, and what is wrong with it.
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        more: &Settings,
        flags: &[Flag<'_>],
    ) -> Result<T> {
        let settings = [&self.settings.set[..], &more.set].concat();
        let Some(path) = &self.config else { return layers(None, &settings, flags) };
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration {name}"))?;
        layers(Some((&name, &text)), &settings, flags)
    }
}

/// The file's name and text, then the settings, then the flags.
fn layers<T: DeserializeOwned>(
    file: Option<(&str, &str)>,
    settings: &[String],
    flags: &[Flag<'_>],
) -> Result<T> {
    let mut table = match file {
        None => Table::new(),
        Some((name, text)) => {
            // Once as a whole, for messages with line and column.
            toml::from_str::<T>(text).with_context(|| format!("in {name}"))?;
            text.parse().with_context(|| format!("in {name}"))?
        }
    };
    for setting in settings {
        let (key, value) =
            setting.split_once('=').with_context(|| format!("--set {setting}: write KEY=VALUE"))?;
        insert(&mut table, key.trim(), literal(value.trim()))
            .with_context(|| format!("--set {setting}"))?;
    }
    for (key, value) in flags {
        if let Some(value) = value {
            insert(&mut table, key, value.clone())?;
        }
    }
    T::deserialize(table).map_err(|error| {
        // The second line of the message names the key.
        anyhow!("in the configuration: {}", error.to_string().trim_end().replace('\n', " "))
    })
}

/// A value as in TOML; what is none, such as `2ms`, is a string.
fn literal(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>();
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn insert(table: &mut Table, key: &str, value: Value) -> Result<()> {
    let (head, rest) = match key.split_once('.') {
        None => (key, None),
        Some((head, rest)) => (head, Some(rest)),
    };
    if head.is_empty() {
        bail!("a part of the key is empty; write names with dots between them");
    }
    let Some(rest) = rest else {
        table.insert(head.to_owned(), value);
        return Ok(());
    };
    let entry = table.entry(head).or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(inner) = entry else { bail!("{head} is a value, it has no key {rest}") };
    insert(inner, rest, value)
}

/// Checks that a file which `what` names can be read: before a server starts or a load begins.
///
/// # Errors
///
/// Names `what` and the file.
pub(crate) fn readable(what: &str, path: &Path) -> Result<()> {
    File::open(path).map(|_| ()).with_context(|| format!("{what}: cannot read {}", path.display()))
}

/// A flag's value as a string in the table, if the flag was given.
pub(crate) fn text<T: ToString>(flag: Option<&T>) -> Option<Value> {
    flag.map(|value| Value::String(value.to_string()))
}

/// The values of a flag that may be given again, if it was given.
pub(crate) fn texts<T: ToString>(flags: &[T]) -> Option<Value> {
    let values: Vec<Value> = flags.iter().filter_map(|flag| text(Some(flag))).collect();
    (!values.is_empty()).then_some(Value::Array(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_rpc::ServerConfig;
    use std::time::Duration;

    const FILE: &str = "slo = '3ms'\nrtt = '10us'\n[limits]\nsessions = 7\nviolations = 5\n";

    fn read(file: Option<&str>, set: &[&str], flags: &[Flag<'_>]) -> Result<ServerConfig> {
        let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
        layers(file.map(|text| ("a.toml", text)), &set, flags)
    }

    fn error(file: Option<&str>, set: &[&str]) -> String {
        format!("{:#}", read(file, set, &[]).unwrap_err())
    }

    #[test]
    fn flags_win_over_settings_and_settings_over_the_file() {
        let flags = [("limits.violations", Some(Value::Integer(4))), ("seed", None)];
        let set = ["limits.sessions=8", "limits.violations=6", "rtt = 20us", "seed=9"];
        let config = read(Some(FILE), &set, &flags).unwrap();
        assert_eq!(config.slo, Duration::from_millis(3), "from the file");
        assert_eq!(config.rtt, Duration::from_micros(20), "set over the file");
        assert_eq!(config.limits.sessions, 8, "one key of a table of the file");
        assert_eq!(config.limits.violations, 4, "a flag over both");
        assert_eq!(config.seed, 9, "a flag that is not given changes nothing");
        assert_eq!(config.limits.outstanding, 1024, "the default of what nobody names");
    }

    #[test]
    fn the_last_setting_of_a_key_counts() {
        let config = read(None, &["slo=1ms", "slo=5ms"], &[]).unwrap();
        assert_eq!(config.slo, Duration::from_millis(5));
    }

    #[test]
    fn settings_are_toml_or_else_text() {
        let set = ["receive_timestamps=false", "admission.breakwater.beta=0.5", "budget=off"];
        let config = read(None, &set, &[]).unwrap();
        assert!(!config.receive_timestamps);
        assert!((config.admission.breakwater.beta - 0.5).abs() < 1e-9);
        let config = read(None, &["trust={ everybody = true }"], &[]).unwrap();
        assert!(config.trust.everybody);
        let config = read(None, &["listen=\"127.0.0.1:1\""], &[]).unwrap();
        assert_eq!(config.listen.port(), 1);
    }

    #[test]
    fn errors_name_the_key() {
        let unknown = error(None, &["admission.gamma=1"]);
        assert!(unknown.contains("gamma") && unknown.contains("breakwater"), "{unknown}");
        let wrong = error(None, &["limits.sessions=many"]);
        assert!(wrong.contains("`limits.sessions`") && wrong.contains("u32"), "{wrong}");
        assert!(!wrong.contains('\n'), "{wrong}");
        assert!(error(None, &["slo=fast"]).contains("`fast`"));
        assert!(error(None, &["nonsense"]).contains("KEY=VALUE"));
        assert!(error(None, &["slo=1ms", "slo.x=1"]).contains("--set slo.x=1: slo is a value"));
        for empty in ["=1", ".slo=1", "limits.=1", "limits..sessions=1"] {
            assert!(error(None, &[empty]).contains("empty"), "{empty}");
        }
    }

    #[test]
    fn errors_in_a_file_name_line_and_column() {
        let broken = error(Some("slo = '3ms'\nrtt = \n"), &[]);
        assert!(broken.starts_with("in a.toml: ") && broken.contains("line 2"), "{broken}");
        let unknown = error(Some("[limits]\nsession = 3\n"), &[]);
        assert!(unknown.contains("line 2, column 1") && unknown.contains("session"), "{unknown}");
        // A later layer does not hide the mistake.
        let wrong = error(Some("slo = 3"), &["slo=3ms"]);
        assert!(wrong.contains("line 1, column 7"), "{wrong}");
    }
}
