//! What a plan says of server and load, as the options of `seawall serve` and `seawall load`: so it
//! means there what it means here, and errors are theirs.

use clap::{Args, FromArgMatches};
use seawall_sim::plan::label;
use serde::Deserialize;
use toml::{Table, Value};

use super::plan::App;
use crate::load;
use crate::load::engine::Offer;

/// Options of `seawall load` that a plan says elsewhere, or that are about output.
const ELSEWHERE: [&str; 9] =
    ["rate", "capacity", "workload", "pin", "config", "json", "html", "help", "version"];

/// Stands for the server's address until there is one.
const NOWHERE: &str = "127.0.0.1:1";

/// The name of an option of `seawall load`, with `_` for the dashes within it.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Key(String);

impl TryFrom<String> for Key {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known = names();
        if known.contains(&name) {
            return Ok(Self(name));
        }
        Err(format!("unknown option `{name}` of the load; allowed are {}", known.join(", ")))
    }
}

/// What `seawall serve` is told.
pub(super) fn serve(app: App, config: &Table) -> Vec<String> {
    let mut options = vec!["--json".to_owned()];
    let mut set = |key: &str, value: &Value| options.push(format!("--set={key}={value}"));
    leaves(config, "", &mut set);
    options.push(app.name().to_owned());
    options
}

/// The load. Parameters of the algorithm are those of the server, as far as the load does not set
/// others.
///
/// # Errors
///
/// Names the option that is wrong, and what is allowed.
pub(super) fn offer(app: App, config: &Table, load: &Table) -> Result<Offer, String> {
    let mut options = vec!["load".to_owned(), NOWHERE.into(), format!("--workload={}", app.name())];
    if let Some(admission) = find(config, &["server", "admission"]).and_then(Value::as_table) {
        let mut admission = admission.clone();
        // Clients use that of their server.
        admission.remove("algorithm");
        let mut set = |key: &str, value: &Value| options.push(format!("--set={key}={value}"));
        leaves(&admission, "", &mut set);
    }
    if app == App::Search && !load.contains_key("words") {
        let folder = find(config, &["search", "folder"]).map_or_else(|| ".".into(), label);
        options.push(format!("--words={folder}/words.tsv"));
    }
    if app == App::Synthetic && load.contains_key("path_by") && !load.contains_key("paths") {
        let paths = find(config, &["synthetic", "paths"]).map_or_else(|| "none".into(), label);
        options.push(format!("--paths={paths}"));
    }
    for (name, value) in load {
        let Key(name) = Key::try_from(name.clone())?;
        let name = name.replace('_', "-");
        match value {
            Value::Boolean(true) => options.push(format!("--{name}")),
            Value::Boolean(false) => {}
            Value::Table(settings) if name == "set" => {
                let mut set =
                    |key: &str, value: &Value| options.push(format!("--set={key}={value}"));
                leaves(settings, "", &mut set);
            }
            value => options.push(format!("--{name}={}", label(value))),
        }
    }
    let matches = command().try_get_matches_from(options);
    let parsed = matches.and_then(|matches| load::Options::from_arg_matches(&matches));
    let parsed = parsed.map_err(|error| {
        let text = error.render().to_string();
        let problem = text.split("\n\n").next().unwrap_or_default().trim().replace('\n', " ");
        format!("load: {}", problem.trim_start_matches("error: "))
    })?;
    parsed.offer().map_err(|error| format!("load: {error:#}"))
}

fn command() -> clap::Command {
    load::Options::augment_args(clap::Command::new("load"))
}

/// The options of `seawall load` that a plan may name.
fn names() -> Vec<String> {
    let command = command();
    let names = command.get_arguments().filter_map(clap::Arg::get_long);
    names.filter(|name| !ELSEWHERE.contains(name)).map(|name| name.replace('-', "_")).collect()
}

/// Tells of each value that is no table, with its key in dots.
fn leaves(table: &Table, above: &str, tell: &mut impl FnMut(&str, &Value)) {
    for (key, value) in table {
        let key = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            Value::Table(inner) => leaves(inner, &key, tell),
            value => tell(&key, value),
        }
    }
}

fn find<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (last, tables) = path.split_last()?;
    let inner = tables.iter().try_fold(table, |table, key| table.get(*key)?.as_table())?;
    inner.get(*last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Table {
        text.parse().expect("it is TOML")
    }

    #[test]
    fn a_configuration_becomes_settings() {
        let config = read("server = { slo = '10ms', budget.fixed = '5ms', seed = 3 }");
        let options = serve(App::Kv, &config);
        assert_eq!(
            options,
            [
                "--json",
                "--set=server.budget.fixed=\"5ms\"",
                "--set=server.seed=3",
                "--set=server.slo=\"10ms\"",
                "kv",
            ]
        );
    }

    #[test]
    fn the_load_is_that_of_the_command() {
        let config = read("server.admission = { algorithm = 'seda', client.expiry = '3ms' }");
        let load = read("sessions = 7\ntime = '2s'\npath_by = 'data'\npaths = 'three:0.25:0.5'");
        let offer = offer(App::Synthetic, &config, &load).unwrap();
        assert_eq!((offer.sessions, offer.time.as_secs()), (7, 2));
        assert_eq!(offer.workload.classes(), ["first", "second", "third"]);
        let expiry = offer.client.admission.client.expiry;
        assert_eq!(expiry, Some(std::time::Duration::from_millis(3)));
    }

    #[test]
    fn what_the_load_sets_wins() {
        let config = read("server.admission.client.expiry = '3ms'");
        let load = read("set.client.expiry = '4ms'");
        let offer = offer(App::Kv, &config, &load).unwrap();
        let expiry = offer.client.admission.client.expiry;
        assert_eq!(expiry, Some(std::time::Duration::from_millis(4)));
    }

    #[test]
    fn errors_name_the_option() {
        let error =
            |load: &str| offer(App::Synthetic, &Table::new(), &read(load)).map(|_| ()).unwrap_err();
        assert!(error("time = 'fast'").contains("'fast' for '--time <DURATION>'"));
        assert!(error("paths = 'hot:0.5'").contains("--path-by"));
        assert!(error("mix = 'usr'").contains("--workload kv"));
        assert!(error("rate = 3").contains("unknown option `rate` of the load; allowed are mix"));
    }
}
