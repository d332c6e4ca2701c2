//! What plans share, whether their runs are simulated or live: settings, tables, figures, claims,
//! and runs in files.

pub(crate) mod claims;
pub(crate) mod plot;
pub(crate) mod runs;
pub(crate) mod table;

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use seawall_sim::plan::PlanError;
use seawall_sim::plan::table::literal;
use toml::Value;

/// The keys and values of `--set KEY=VALUE`.
///
/// # Errors
///
/// Names the one that is none.
pub(crate) fn settings(set: &[String]) -> Result<Vec<(String, Value)>> {
    let setting = |text: &String| {
        let (key, value) =
            text.split_once('=').with_context(|| format!("--set {text}: write KEY=VALUE"))?;
        Ok((key.trim().to_owned(), literal(value.trim())))
    };
    set.iter().map(setting).collect()
}

/// Opens a plan that another one includes, by its name.
pub(crate) type Open<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Reads the plan in a file; `parse` is given its text, and what opens those beside it.
///
/// # Errors
///
/// Names the file, and what is wrong with it.
pub(crate) fn read<T>(
    path: &Path,
    parse: impl FnOnce(&str, Open<'_>) -> Result<T, PlanError>,
) -> Result<T> {
    let name = path.display();
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read the plan {name}"))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let open = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    parse(&text, &open).map_err(|error| anyhow!("in {name}: {error}"))
}
