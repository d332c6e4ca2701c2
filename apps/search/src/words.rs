//! How often each word occurs in a corpus: what queries are drawn from.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use seawall_control::Rng;
use thiserror::Error;

use crate::analysis;

/// The file in an index's folder.
pub const FILE: &str = "words.tsv";

/// Words and how often each occurs.
///
/// A query of Protego's experiment is one word, "sampled from the word distribution in the data
/// set excluding stop words" (§5.2): [`sample`](Self::sample).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    words: Vec<Box<str>>,
    /// Occurrences of each word and of all words before it.
    ends: Vec<u64>,
}

/// Why a file of words cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is not a word, a tab and a count.
    #[error("line {0} is not a word, a tab and a count of at least 1")]
    Line(usize),
    /// There are no words.
    #[error("it has no words")]
    Empty,
}

impl Words {
    /// Counts the words of `texts`.
    pub fn count<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        let mut counts = BTreeMap::<String, u64>::new();
        for text in texts {
            analysis::words(text.as_ref()).for_each(|word| *counts.entry(word).or_default() += 1);
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut words = Self::default();
        counts.into_iter().for_each(|(word, count)| words.push(word.into(), count));
        words
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn read(file: &Path) -> Result<Self, ReadError> {
        let mut words = Self::default();
        for (index, line) in BufReader::new(File::open(file)?).lines().enumerate() {
            let line = line?;
            let fields = line.split_once('\t').and_then(|(w, n)| Some((w, n.parse().ok()?)));
            match fields {
                Some((word, count @ 1..)) if !word.is_empty() => words.push(word.into(), count),
                _ => return Err(ReadError::Line(index + 1)),
            }
        }
        if words.is_empty() { Err(ReadError::Empty) } else { Ok(words) }
    }

    /// Writes a line for each word, the most frequent first: the word, a tab, its count.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(File::create(file)?);
        let mut before = 0;
        for (word, end) in self.words.iter().zip(&self.ends) {
            writeln!(out, "{word}\t{}", end - before)?;
            before = *end;
        }
        out.flush()
    }

    /// A word, as likely as it is frequent.
    ///
    /// # Panics
    ///
    /// If there are no words.
    pub fn sample(&self, rng: &mut Rng) -> &str {
        let at = rng.below(self.total());
        &self.words[self.ends.partition_point(|end| *end <= at)]
    }

    /// How many different words there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Occurrences of all words together.
    pub fn total(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// All words, the most frequent first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(|word| &**word)
    }

    fn push(&mut self, word: Box<str>, count: u64) {
        self.ends.push(self.total().saturating_add(count));
        self.words.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_drawn_as_often_as_they_occur() {
        let words = Words::count(["Wall and wall", "sea wall"]);
        assert_eq!((words.iter().collect::<Vec<_>>(), words.total()), (vec!["wall", "sea"], 4));
        let mut rng = Rng::new(1);
        let seas = (0..10_000).filter(|_| words.sample(&mut rng) == "sea").count();
        assert!((2_300..2_700).contains(&seas), "{seas}");
    }

    #[test]
    fn files_read_back_and_broken_ones_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        let words = Words::count(["one two two three three three"]);
        words.write(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "three\t3\ntwo\t2\none\t1\n");
        assert_eq!(Words::read(&file).unwrap(), words);
        for (text, expected) in [
            ("", "it has no words"),
            ("a\t1\nb", "line 2 is not"),
            ("a\t0\n", "line 1 is not"),
            ("\t1\n", "line 1 is not"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = Words::read(&file).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
