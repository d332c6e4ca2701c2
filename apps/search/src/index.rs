//! The index on disk: its schema, and how it is built.

use std::path::{Path, PathBuf};
use std::{fs, io};

use tantivy::indexer::NoMergePolicy;
use tantivy::schema::{
    Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions, Value,
};
use tantivy::{Index, TantivyDocument, TantivyError};
use thiserror::Error;

use crate::analysis;
use crate::words::{self, Words};

/// The index's folder inside of the folder that is built.
const FOLDER: &str = "index";

/// Memory of the writer, bytes. A segment is written when it is full or told to be: more than any
/// segment needs, so that segments are cut where the layout says.
const WRITER_BYTES: usize = 1 << 30;

/// Documents between two reports of progress.
const STRIDE: usize = 1_000;

/// Into which segments an index is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// How many segments. Default: 4. Range: 1 to 64.
    pub segments: usize,
    /// How many times as many documents a segment has as the next. Default: 10, the merge factor
    /// of Lucene's logarithmic merge policy, which merges ten segments of one size into one of the
    /// next. Range: 2 to 1000.
    pub ratio: usize,
}

/// Why an index could not be built or opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A layout out of range.
    #[error("{field} is {value}; allowed: {allowed}")]
    Layout {
        /// The field.
        field: &'static str,
        /// What it was.
        value: usize,
        /// What it may be.
        allowed: &'static str,
    },
    /// There are fewer documents than segments.
    #[error("{documents} documents do not fill {segments} segments; more are needed")]
    TooFew {
        /// How many documents there are.
        documents: usize,
        /// How many segments there were to be.
        segments: usize,
    },
    /// There is no index.
    #[error("{0} has no index; build one with `seawall-search build {0}`")]
    Missing(PathBuf),
    /// A file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The index cannot be read or written.
    #[error(transparent)]
    Index(#[from] TantivyError),
}

/// The fields of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    /// Its [`words`](analysis::words), for searching.
    pub(crate) words: Field,
    /// Its text, for showing.
    pub(crate) text: Field,
}

impl Default for Layout {
    fn default() -> Self {
        Self { segments: 4, ratio: 10 }
    }
}

impl Layout {
    /// `segments` segments of which each has `ratio` times as many documents as the next.
    ///
    /// # Errors
    ///
    /// Names the field that is out of range.
    pub fn new(segments: usize, ratio: usize) -> Result<Self, IndexError> {
        if !(1..=64).contains(&segments) {
            let (field, allowed) = ("segments", "1 to 64");
            return Err(IndexError::Layout { field, value: segments, allowed });
        }
        if !(2..=1000).contains(&ratio) {
            return Err(IndexError::Layout { field: "ratio", value: ratio, allowed: "2 to 1000" });
        }
        Ok(Self { segments, ratio })
    }

    /// How many of `documents` each segment gets, the largest first. Small corpora get fewer
    /// segments, because none is empty.
    fn cut(&self, documents: usize) -> Vec<usize> {
        let mut sizes = Vec::new();
        let mut left = documents;
        for segment in (0..self.segments).rev() {
            // A segment and those after it are to each other as 1 to 1/r + 1/r² + …
            let after: f64 = (1..=segment).map(|k| (self.ratio as f64).powi(-(k as i32))).sum();
            let size = (left as f64 / (1.0 + after)).ceil() as usize;
            sizes.push(size.min(left));
            left -= size.min(left);
        }
        sizes.retain(|size| *size > 0);
        sizes
    }
}

impl Fields {
    pub(crate) fn of(schema: &Schema) -> Result<Self, TantivyError> {
        Ok(Self { words: schema.get_field("words")?, text: schema.get_field("text")? })
    }
}

/// Builds an index of `documents` and the list of their words in `folder`, which is made if it does
/// not exist. `progress` is told now and then how many documents have been written.
///
/// What was built there before is replaced once everything is written, and not touched if that
/// fails.
///
/// # Errors
///
/// See [`IndexError`].
pub fn build<T: AsRef<str>>(
    folder: &Path,
    documents: &[T],
    layout: &Layout,
    progress: impl Fn(usize),
) -> Result<(), IndexError> {
    let sizes = layout.cut(documents.len());
    if sizes.is_empty() {
        return Err(IndexError::TooFew { documents: documents.len(), segments: layout.segments });
    }
    fs::create_dir_all(folder)?;
    let unfinished = tempfile::Builder::new().prefix("unfinished-").tempdir_in(folder)?;
    write_index(unfinished.path(), documents, &sizes, progress)?;
    let beside = tempfile::Builder::new().prefix("unfinished-").tempdir_in(folder)?;
    let words = beside.path().join(words::FILE);
    Words::count(documents).write(&words)?;
    let finished = folder.join(FOLDER);
    if finished.exists() {
        fs::remove_dir_all(&finished)?;
    }
    fs::rename(unfinished.keep(), finished)?;
    fs::rename(words, folder.join(words::FILE))?;
    Ok(())
}

fn write_index<T: AsRef<str>>(
    folder: &Path,
    documents: &[T],
    sizes: &[usize],
    progress: impl Fn(usize),
) -> Result<(), IndexError> {
    let index = Index::create_in_dir(folder, schema())?;
    let fields = Fields::of(&index.schema())?;
    let mut writer = index.writer_with_num_threads::<TantivyDocument>(1, WRITER_BYTES)?;
    writer.set_merge_policy(Box::new(NoMergePolicy));
    let mut written = 0;
    for size in sizes {
        for document in &documents[written..written + size] {
            let text = document.as_ref();
            let words: Vec<String> = analysis::words(text).collect();
            let mut stored = TantivyDocument::default();
            stored.add_text(fields.words, words.join(" "));
            stored.add_text(fields.text, text);
            writer.add_document(stored)?;
            written += 1;
            if written % STRIDE == 0 {
                progress(written);
            }
        }
        writer.commit()?;
    }
    writer.wait_merging_threads()?;
    progress(written);
    Ok(())
}

fn schema() -> Schema {
    // Positions would only be needed for phrases.
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("whitespace")
        .set_index_option(IndexRecordOption::WithFreqs);
    let mut schema = Schema::builder();
    schema.add_text_field("words", TextOptions::default().set_indexing_options(indexing));
    schema.add_text_field("text", STORED);
    schema.build()
}

/// Opens what [`build`] built.
pub(crate) fn open(folder: &Path) -> Result<Index, IndexError> {
    let inner = folder.join(FOLDER);
    if !inner.join("meta.json").exists() {
        return Err(IndexError::Missing(folder.into()));
    }
    Ok(Index::open_in_dir(inner)?)
}

/// The text of a stored document.
pub(crate) fn text_of(document: &TantivyDocument, fields: Fields) -> &str {
    document.get_first(fields.text).and_then(|value| value.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_to_each_other_as_the_layout_says() {
        assert_eq!(Layout::default().cut(111_100), [100_000, 10_000, 1_000, 100]);
        assert_eq!(Layout::new(3, 2).unwrap().cut(7), [4, 2, 1]);
        assert_eq!(Layout::new(1, 2).unwrap().cut(7), [7]);
        assert_eq!(Layout::default().cut(2), [2]);
        for documents in 0..500 {
            let sizes = Layout::new(5, 3).unwrap().cut(documents);
            assert_eq!(sizes.iter().sum::<usize>(), documents, "{sizes:?}");
            assert!(sizes.is_sorted_by(|more, less| more >= less), "{sizes:?}");
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let error = |segments, ratio| Layout::new(segments, ratio).unwrap_err().to_string();
        assert_eq!(error(0, 10), "segments is 0; allowed: 1 to 64");
        assert_eq!(error(4, 1), "ratio is 1; allowed: 2 to 1000");
        let folder = tempfile::tempdir().unwrap();
        let none = build::<&str>(folder.path(), &[], &Layout::default(), |_| {}).unwrap_err();
        assert_eq!(none.to_string(), "0 documents do not fill 4 segments; more are needed");
        let missing = open(folder.path()).unwrap_err().to_string();
        assert!(missing.ends_with(&format!("build {}`", folder.path().display())), "{missing}");
    }

    #[test]
    fn building_again_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        for documents in [&["one sea", "two seas"][..], &["three seas"]] {
            build(folder.path(), documents, &Layout::default(), |_| {}).unwrap();
            let searcher = open(folder.path()).unwrap().reader().unwrap().searcher();
            assert_eq!(searcher.num_docs(), documents.len() as u64);
        }
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [FOLDER, words::FILE]);
    }
}
