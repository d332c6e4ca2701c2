//! Runs in files, so that they can be judged and drawn again.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads what [`save`] wrote.
///
/// # Errors
///
/// Names the file.
pub(crate) fn load<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    serde_json::from_str(&text).with_context(|| format!("{shown} does not hold runs of a plan"))
}

/// Writes runs into `folder`, which is made if there is none.
///
/// # Errors
///
/// Names the file.
pub(crate) fn save<T: Serialize + ?Sized>(folder: &Path, file: &str, runs: &T) -> Result<()> {
    let path = folder.join(file);
    let shown = path.display();
    std::fs::create_dir_all(folder).with_context(|| format!("cannot write {shown}"))?;
    std::fs::write(&path, serde_json::to_string_pretty(runs)? + "\n")
        .with_context(|| format!("cannot write {shown}"))
}
