//! One segment of the index.

use std::fmt;
use std::io;
use std::sync::Arc;

use seawall_sync::{Estimate, Mutex};
use tantivy::postings::TermInfo;
use tantivy::{InvertedIndexReader, SegmentReader, TantivyError, Term};

use super::SEGMENT;
use super::config::Room;
use super::reader::Reader;
use crate::index::Fields;

/// What segments are called in reports of contention, the largest first.
const NAMES: [&str; 5] = ["segment 1", "segment 2", "segment 3", "segment 4", "a further segment"];

/// Part of the index, with its one reader.
pub(super) struct Segment {
    base: u32,
    documents: u32,
    index: Arc<InvertedIndexReader>,
    reader: Mutex<Reader>,
}

impl Segment {
    /// The segment `number`, whose first document is `base`.
    pub(super) fn open(
        segment: &SegmentReader,
        fields: Fields,
        number: usize,
        base: u32,
        room: Room,
        estimate: Estimate,
    ) -> Result<Self, TantivyError> {
        let name = NAMES[number.min(NAMES.len() - 1)];
        let reader = Reader::open(segment, fields, room)?;
        let reader = Mutex::new(reader).at(SEGMENT, name).predicted_by(estimate);
        let index = segment.inverted_index(fields.words)?;
        Ok(Self { base, documents: segment.max_doc(), index, reader })
    }

    /// Where the documents that have `term` are listed. Dictionaries are read without a lock.
    pub(super) fn find(&self, term: &Term) -> io::Result<Option<TermInfo>> {
        self.index.get_term_info(term)
    }

    /// Who reads postings and texts.
    pub(super) fn reader(&self) -> &Mutex<Reader> {
        &self.reader
    }

    /// The number of its first document.
    pub(super) fn base(&self) -> u32 {
        self.base
    }

    pub(super) fn documents(&self) -> u32 {
        self.documents
    }

    /// Whether `document` is one of its own.
    pub(super) fn has(&self, document: u32) -> bool {
        (self.base..self.base + self.documents).contains(&document)
    }

    /// How many words its documents have.
    pub(super) fn words(&self) -> u64 {
        self.index.total_num_tokens()
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Segment");
        shown.field("base", &self.base).field("documents", &self.documents);
        shown.field("reader", &self.reader).finish_non_exhaustive()
    }
}
