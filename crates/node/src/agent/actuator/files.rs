//! Reading and writing the small files of the kernel.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::ActuatorError;
use crate::agent::discover::is_gone;

/// A file of the kernel that is read again and again, and stays open for that: to open it takes
/// longer than to read it, and its text is made anew whenever it is read from its start.
#[derive(Debug)]
pub(in crate::agent) struct Watched {
    path: PathBuf,
    file: File,
}

impl Watched {
    pub(in crate::agent) fn open(path: &Path) -> Result<Self, ActuatorError> {
        Self::open_with(path, OpenOptions::new().read(true))
    }

    fn open_with(path: &Path, options: &OpenOptions) -> Result<Self, ActuatorError> {
        let file = options.open(path).map_err(|source| failure(path, "", source))?;
        Ok(Self { path: path.to_owned(), file })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What it begins with, as far as there is room, without the line's end.
    pub(in crate::agent) fn read<'a>(&self, room: &'a mut [u8]) -> Result<&'a str, ActuatorError> {
        let fail = |source| failure(&self.path, "", source);
        let length = self.file.read_at(room, 0).map_err(fail)?;
        let text = std::str::from_utf8(&room[..length]);
        let text = text.map_err(|error| fail(io::Error::new(ErrorKind::InvalidData, error)))?;
        Ok(text.trim_end())
    }
}

/// The same of a file that is written again and again, too: to open it would take longer.
#[derive(Debug)]
pub(super) struct Held {
    file: Watched,
    /// Files of a recorded tree keep what is behind a shorter text; the kernel's have no length.
    is_ordinary: bool,
}

impl Held {
    pub(super) fn open(path: &Path) -> Result<Self, ActuatorError> {
        let file = Watched::open_with(path, OpenOptions::new().read(true).write(true))?;
        let metadata = file.file.metadata().map_err(|source| failure(path, "", source))?;
        Ok(Self { file, is_ordinary: metadata.len() > 0 })
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// As [`Watched::read`].
    pub(super) fn read<'a>(&self, room: &'a mut [u8]) -> Result<&'a str, ActuatorError> {
        self.file.read(room)
    }

    /// Writes in one call, which the kernel takes as one command.
    pub(super) fn write(&self, text: &str) -> Result<(), ActuatorError> {
        let Watched { path, file } = &self.file;
        let cut = if self.is_ordinary { file.set_len(0) } else { Ok(()) };
        let written = cut.and_then(|()| file.write_all_at(text.as_bytes(), 0));
        written.map_err(|source| failure(path, text, source))
    }
}

/// What a file holds, without the line's end.
pub(super) fn read(path: &Path) -> Result<String, ActuatorError> {
    fs::read_to_string(path)
        .map(|text| text.trim_end().to_owned())
        .map_err(|source| failure(path, "", source))
}

/// The same for a file that not every kernel has.
pub(super) fn read_if_there(path: &Path) -> Result<Option<String>, ActuatorError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim_end().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failure(path, "", source)),
    }
}

/// Writes a file that exists, in one call, which the kernel takes as one command.
pub(super) fn write(path: &Path, text: &str) -> Result<(), ActuatorError> {
    write_raw(path, text).map_err(|source| failure(path, text, source))
}

pub(super) fn write_raw(path: &Path, text: &str) -> io::Result<()> {
    // Truncated, because a recorded tree has ordinary files; the kernel's do not mind.
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

/// A number that stands alone.
pub(super) fn number(path: &Path) -> Result<i64, ActuatorError> {
    let text = read(path)?;
    text.parse().map_err(|_| garbled(path, &text, "a number"))
}

pub(super) fn garbled(path: &Path, text: &str, expected: &'static str) -> ActuatorError {
    ActuatorError::Garbled { path: path.to_owned(), text: text.to_owned(), expected }
}

pub(super) fn failure(path: &Path, text: &str, source: io::Error) -> ActuatorError {
    // A file that is missing in a folder that is there is a matter of the kernel's configuration.
    if is_gone(&source) && !path.parent().is_some_and(Path::exists) {
        return ActuatorError::Gone;
    }
    match source.kind() {
        ErrorKind::NotFound => ActuatorError::Missing {
            what: path.display().to_string(),
            hint: "the controller is not enabled for this group, or the kernel lacks it",
        },
        _ if is_gone(&source) => ActuatorError::Gone,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            ActuatorError::Denied { path: path.to_owned(), source }
        }
        _ => ActuatorError::Refused { path: path.to_owned(), text: text.to_owned(), source },
    }
}

/// CPUs as the kernel lists them: `0-2,7`.
pub(super) fn parse_cpus(path: &Path, text: &str) -> Result<Vec<u32>, ActuatorError> {
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.parse::<u32>().ok().zip(last.parse::<u32>().ok());
        // No machine has more; a larger number would only eat memory.
        match range.filter(|(first, last)| first <= last && *last < 65_536) {
            Some((first, last)) => cpus.extend(first..=last),
            None => return Err(garbled(path, text, "a list of CPUs")),
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The same backwards, without ranges.
pub(super) fn list_cpus(cpus: &[u32]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        let parse = |text| parse_cpus(Path::new("cpus"), text).ok();
        assert_eq!(parse("0-2,7"), Some(vec![0, 1, 2, 7]));
        assert_eq!(parse(""), Some(vec![]));
        assert_eq!(parse("3,3,1"), Some(vec![1, 3]));
        for bad in ["2-1", "a", "0-", "0-99999999"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(list_cpus(&[0, 1, 7]), "0,1,7");
    }

    #[test]
    fn a_file_that_is_missing_and_a_group_that_has_gone_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let missing = read(&root.path().join("cpu.max")).unwrap_err();
        assert!(matches!(missing, ActuatorError::Missing { .. }), "{missing}");
        assert!(read(&root.path().join("gone/cpu.max")).unwrap_err().is_gone());
        assert!(write(&root.path().join("gone/cpu.max"), "1").unwrap_err().is_gone());
    }
}
