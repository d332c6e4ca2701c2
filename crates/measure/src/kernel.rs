//! Files in which the kernel shows what it counts, and what to say when they are not there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why something cannot be measured on this machine, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(String);

impl Unavailable {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// Something about that file or folder.
    pub(crate) fn at(path: &Path, problem: impl std::fmt::Display) -> Self {
        Self(format!("{}: {problem}", path.display()))
    }
}

/// What a small file says, without the end of its line.
pub(crate) fn read(path: &Path) -> Result<String, Unavailable> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.trim_end().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(Unavailable::at(path, "only root may read it"))
        }
        Err(error) => Err(Unavailable::at(path, error)),
    }
}

/// The number in a small file.
pub(crate) fn read_number(path: &Path) -> Result<u64, Unavailable> {
    let text = read(path)?;
    text.parse().map_err(|_| Unavailable::at(path, format!("it says {text:?}, which is no number")))
}

/// What is in a folder, by name and in that order; nothing if there is no such folder.
pub(crate) fn list(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut named: Vec<_> = entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect();
    named.sort();
    named
}
