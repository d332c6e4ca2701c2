//! Packages: fetched by apt-get, unpacked by dpkg-deb, without being installed.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use thiserror::Error;

/// Why a package cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackageError {
    /// A command is not there.
    #[error("{0} is not here; the corpus needs a Debian, Ubuntu or the like")]
    NoTool(&'static str),
    /// apt-get did not fetch it.
    #[error(
        "apt-get cannot fetch {package}: {said}; run `apt-get update` as root, and check that the \
         network and the distribution's main section can be reached"
    )]
    Fetch {
        /// The package.
        package: String,
        /// What apt-get said.
        said: String,
    },
    /// A command failed.
    #[error("{tool} {file}: {said}")]
    Tool {
        /// The command.
        tool: &'static str,
        /// What it was to read.
        file: PathBuf,
        /// What it said.
        said: String,
    },
    /// A file or folder cannot be read or written.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The file of `package` in `folder`, fetched unless it is there.
///
/// # Errors
///
/// See [`PackageError`].
pub fn fetch(package: &str, folder: &Path) -> Result<PathBuf, PackageError> {
    fs::create_dir_all(folder).map_err(|source| io_error(folder, source))?;
    if let Some(there) = find(package, folder)? {
        return Ok(there);
    }
    // Fetched beside and then moved, so that what a failure left is never taken for a package.
    let beside = tempfile::tempdir_in(folder).map_err(|source| io_error(folder, source))?;
    let mut command = Command::new("apt-get");
    command.args(["download", "-q=2", package]).current_dir(beside.path());
    let done = run("apt-get", &mut command)?;
    let fetched = find(package, beside.path())?;
    let (true, Some(file)) = (done.status.success(), fetched) else {
        let said = String::from_utf8_lossy(&done.stderr);
        let said = said.lines().find(|line| line.starts_with("E:")).unwrap_or("no reason told");
        return Err(PackageError::Fetch { package: package.into(), said: said.into() });
    };
    let kept = folder.join(file.file_name().unwrap_or_default());
    fs::rename(&file, &kept).map_err(|source| io_error(&file, source))?;
    Ok(kept)
}

/// Unpacks the file of a package into `root`.
///
/// # Errors
///
/// See [`PackageError`].
pub fn unpack(file: &Path, root: &Path) -> Result<(), PackageError> {
    fs::create_dir_all(root).map_err(|source| io_error(root, source))?;
    output("dpkg-deb", [OsStr::new("-x"), file.as_os_str(), root.as_os_str()], file).map(|_| ())
}

/// The version of the package in a file.
///
/// # Errors
///
/// See [`PackageError`].
pub fn version(file: &Path) -> Result<String, PackageError> {
    let fields = [OsStr::new("-f"), file.as_os_str(), OsStr::new("Version")];
    let version = output("dpkg-deb", fields, file)?;
    Ok(String::from_utf8_lossy(&version).trim().into())
}

/// What is in a compressed file. Dictionaries end in `.dz`, and are read by gzip all the same.
pub(super) fn gunzip(file: &Path) -> Result<Vec<u8>, PackageError> {
    let opened = fs::File::open(file).map_err(|source| io_error(file, source))?;
    let mut command = Command::new("gzip");
    command.arg("-dc").stdin(opened);
    checked("gzip", &mut command, file)
}

/// The file of a package is called `NAME_VERSION_ARCHITECTURE.deb`.
fn find(package: &str, folder: &Path) -> Result<Option<PathBuf>, PackageError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|source| io_error(folder, source))? {
        let path = entry.map_err(|source| io_error(folder, source))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".deb") && name.split('_').next() == Some(package) {
            found.push(path);
        }
    }
    Ok(found.into_iter().max())
}

fn output<'a>(
    tool: &'static str,
    arguments: impl IntoIterator<Item = &'a OsStr>,
    file: &Path,
) -> Result<Vec<u8>, PackageError> {
    checked(tool, Command::new(tool).args(arguments).stdin(Stdio::null()), file)
}

fn checked(
    tool: &'static str,
    command: &mut Command,
    file: &Path,
) -> Result<Vec<u8>, PackageError> {
    let done = run(tool, command)?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().into();
    Err(PackageError::Tool { tool, file: file.into(), said })
}

fn run(tool: &'static str, command: &mut Command) -> Result<std::process::Output, PackageError> {
    command.env("LC_ALL", "C").output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => PackageError::NoTool(tool),
        _ => io_error(&env::current_dir().unwrap_or_default(), source),
    })
}

fn io_error(file: &Path, source: io::Error) -> PackageError {
    PackageError::Io { file: file.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_fetched_is_not_fetched_again() {
        let folder = tempfile::tempdir().unwrap();
        let name = "no-such-package_1%3a2-3_all.deb";
        fs::write(folder.path().join(name), "").unwrap();
        fs::write(folder.path().join("no-such-package-either_1_all.deb"), "").unwrap();
        assert!(fetch("no-such-package", folder.path()).unwrap().ends_with(name));
        assert_eq!(find("no-such", folder.path()).unwrap(), None);
    }

    #[test]
    fn files_that_are_not_what_they_seem_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x_1_all.deb");
        fs::write(&file, "nothing of the kind").unwrap();
        for error in [
            unpack(&file, folder.path()).unwrap_err(),
            version(&file).unwrap_err(),
            gunzip(&file).unwrap_err(),
            gunzip(&folder.path().join("missing")).unwrap_err(),
        ] {
            // Where there is no dpkg-deb, that is what is said.
            let error = error.to_string();
            let name = folder.path().to_string_lossy();
            assert!(error.contains(&*name) || error.contains("is not here"), "{error}");
        }
    }
}
