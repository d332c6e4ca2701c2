//! Reads the source tree.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the tree.
pub(crate) struct File {
    /// From the root of the repository, with `/` between its parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// A file that exists only in a test.
    pub(crate) fn example(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

/// Root of the repository.
pub(crate) fn root() -> PathBuf {
    // Asked when the test runs: where several checkouts share a target directory, the program may
    // have been built in another one.
    let own = env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    Path::new(&own).ancestors().nth(2).expect("this crate is two folders below the root").into()
}

/// Reads the file at `path` from the root.
pub(crate) fn read(path: &str) -> File {
    match fs::read_to_string(root().join(path)) {
        Ok(text) => File { path: path.into(), text },
        Err(error) => panic!("{path}: {error}"),
    }
}

/// All Rust files: those that git tracks, or where git knows nothing, in an unpacked archive say,
/// those that are there.
pub(crate) fn rust_files() -> Vec<File> {
    let root = root();
    let mut paths = tracked(&root).unwrap_or_else(|| {
        let mut found = Vec::new();
        walk(&root, "", &mut found);
        found
    });
    // A file may be deleted and still be tracked.
    paths.retain(|path| path.ends_with(".rs") && root.join(path).is_file());
    assert!(!paths.is_empty(), "no Rust files below {}", root.display());
    paths.iter().map(|path| read(path)).collect()
}

/// Fails with all complaints, if there are any.
#[track_caller]
pub(crate) fn expect_none(what: &str, complaints: &[String]) {
    let count = complaints.len();
    assert!(complaints.is_empty(), "{what}: {count} to repair\n  {}\n", complaints.join("\n  "));
}

/// What git tracks below `root`, unless it tracks nothing of this repository.
fn tracked(root: &Path) -> Option<Vec<String>> {
    let listing = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().ok()?;
    let text = String::from_utf8(listing.stdout).ok()?;
    let paths: Vec<String> = text.split_terminator('\0').map(String::from).collect();
    // An archive may have been unpacked within another repository.
    (listing.status.success() && paths.iter().any(|path| path == "Cargo.toml")).then_some(paths)
}

/// Adds all files below `folder` except those that are built or hidden.
fn walk(root: &Path, folder: &str, found: &mut Vec<String>) {
    let entries = fs::read_dir(root.join(folder)).expect("a folder of the tree can be read");
    for entry in entries.map(|entry| entry.expect("a folder of the tree can be read")) {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        // Links are not followed, so that no loop holds us.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder {
            found.push(path);
        } else if name != "target" && !name.starts_with('.') {
            walk(root, &path, found);
        }
    }
}

#[test]
fn this_very_file_is_found_either_way() {
    const THIS: &str = "crates/tidy/tests/tidy/tree.rs";
    let mut found = Vec::new();
    walk(&root(), "", &mut found);
    assert!(found.iter().any(|path| path == THIS));
    assert!(!found.iter().any(|path| path.starts_with("target/")));
    if let Some(paths) = tracked(&root()) {
        assert!(paths.iter().any(|path| path == "Cargo.lock"));
    }
}

#[test]
#[should_panic(expected = "arrows: 2 to repair\n  a\n  b")]
fn complaints_are_all_shown() {
    expect_none("arrows", &["a".into(), "b".into()]);
}
