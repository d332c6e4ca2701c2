//! Documents from packages of the distribution: dictionary entries, short texts that people wrote.
//!
//! Protego's experiment searches 403,619 tweets (§5.2). These are as short, and everybody who has a
//! Debian or Ubuntu can get them; README.md names their sources and licences.

pub mod dictd;
pub mod packages;
pub mod wordnet;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use seawall_control::Rng;
use thiserror::Error;

use crate::analysis;
use packages::PackageError;

/// Fewest documents of a corpus that a measurement may be based on.
pub const DOCUMENTS_MIN: usize = 200_000;

/// Seed of the order of documents.
const SEED: u64 = 1;

/// A package, and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name of the package.
    pub package: &'static str,
    /// Under which terms it may be used.
    pub licence: &'static str,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// A dictionary of dictd with this name.
    Dictd(&'static str),
    /// WordNet's files.
    WordNet,
}

/// The packages of the corpus.
pub const SOURCES: [Source; 4] = [
    Source { package: "dict-gcide", licence: "GPL 2 or later", format: Format::Dictd("gcide") },
    Source { package: "wordnet-base", licence: "WordNet licence", format: Format::WordNet },
    Source {
        package: "dict-foldoc",
        licence: "GFDL 1.1 or later",
        format: Format::Dictd("foldoc"),
    },
    Source { package: "dict-jargon", licence: "public domain", format: Format::Dictd("jargon") },
];

/// Why there is no corpus.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// A package cannot be had.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// A file of a package is not as expected.
    #[error("{file}: {problem}")]
    Format {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There are fewer documents than [`DOCUMENTS_MIN`].
    #[error("the packages have {0} documents; at least {DOCUMENTS_MIN} are needed")]
    TooFew(usize),
}

impl Source {
    /// The documents of this package, unpacked in `root`.
    ///
    /// # Errors
    ///
    /// If a file is missing or not as expected.
    pub fn documents(&self, root: &Path) -> Result<Vec<String>, CorpusError> {
        match self.format {
            Format::Dictd(name) => {
                let folder = root.join("usr/share/dictd");
                let file = folder.join(format!("{name}.index"));
                let index = read(&file)?;
                let entries = packages::gunzip(&folder.join(format!("{name}.dict.dz")))?;
                dictd::documents(&index, &entries)
                    .map_err(|problem| CorpusError::Format { file, problem: problem.to_string() })
            }
            Format::WordNet => {
                let mut documents = Vec::new();
                for part in wordnet::PARTS {
                    let file = root.join("usr/share/wordnet").join(part);
                    let text = read(&file)?;
                    let parsed = wordnet::documents(&text).map_err(|problem| {
                        CorpusError::Format { file, problem: problem.to_string() }
                    })?;
                    documents.extend(parsed);
                }
                Ok(documents)
            }
        }
    }
}

/// All documents in an order that says nothing, each text once and none without words: the same for
/// the same texts.
pub fn mix(documents: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut mixed: Vec<String> = documents
        .into_iter()
        .filter(|text| analysis::words(text).next().is_some() && seen.insert(text.clone()))
        .collect();
    let mut rng = Rng::new(SEED);
    for left in (2..=mixed.len()).rev() {
        mixed.swap(left - 1, rng.below(left as u64) as usize);
    }
    mixed
}

/// A number that tells corpora apart: FNV-1a over all texts.
pub fn digest<T: AsRef<str>>(documents: &[T]) -> u64 {
    let bytes = documents.iter().flat_map(|text| text.as_ref().bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn read(file: &Path) -> Result<String, CorpusError> {
    let bytes = fs::read(file).map_err(|source| CorpusError::Read { file: file.into(), source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_keeps_each_text_once_and_is_always_the_same() {
        let texts: Vec<String> = (0..100).map(|n| format!("text {}", n % 50)).collect();
        let with_nothing = [texts.clone(), vec!["of the".into(), " ".into()]].concat();
        let mixed = mix(with_nothing.clone());
        assert_eq!(mixed, mix(with_nothing));
        assert_ne!(mixed, texts[..50]);
        let mut sorted = mixed.clone();
        sorted.sort();
        let mut expected = texts[..50].to_vec();
        expected.sort();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn digests_tell_texts_and_their_borders_apart() {
        // FNV-1a of "a\n", by hand: two rounds.
        let round = |hash: u64, byte: u64| (hash ^ byte).wrapping_mul(0x100_0000_01b3);
        assert_eq!(digest(&["a"]), round(round(0xcbf2_9ce4_8422_2325, 0x61), 0x0a));
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
    }

    #[test]
    fn a_package_that_lacks_a_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for source in SOURCES {
            let error = source.documents(folder.path()).unwrap_err().to_string();
            assert!(error.contains("usr/share/"), "{error}");
        }
    }
}
