//! The working memory of a segment, used by one request at a time.

use std::fmt;
use std::io;
use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::TermInfo;
use tantivy::schema::IndexRecordOption;
use tantivy::store::StoreReader;
use tantivy::{InvertedIndexReader, SegmentReader, TantivyDocument, TantivyError};

use super::config::Room;
use super::shelf::Shelf;
use super::terms::Norms;
use super::top::Top;
use crate::index::{self, Fields};

/// What an item costs on a shelf beside its own bytes: key, links, allocations. Roughly.
const ITEM_BYTES: usize = 128;

/// Reads one segment, and remembers.
///
/// Each request of a segment goes through the one reader. More of them would each need memory of
/// the segment's size, and would each decode what the others have decoded.
pub(super) struct Reader {
    fields: Fields,
    index: Arc<InvertedIndexReader>,
    lengths: FieldNormReader,
    store: StoreReader,
    /// Decoded lists by word.
    postings: Shelf<Arc<str>, Vec<Posting>>,
    /// Texts by document.
    texts: Shelf<DocumentKey, Arc<str>>,
    /// The score of each document so far, for queries of several words; empty until there is one.
    scores: Vec<f32>,
    /// The documents whose score is not zero.
    scored: Vec<u32>,
}

/// A word to look for in a segment.
pub(super) struct Sought<'a> {
    pub(super) word: &'a Arc<str>,
    /// BM25's factor of it.
    pub(super) weight: f32,
    /// Where the segment lists its documents.
    pub(super) list: &'a TermInfo,
}

/// What the reader of a segment keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caches {
    /// Posting lists that were kept when they were needed.
    pub postings_hits: u64,
    /// Posting lists that had to be decoded.
    pub postings_misses: u64,
    /// Size of the posting lists that are kept, bytes.
    pub postings_bytes: usize,
    /// Texts that were kept when they were needed.
    pub texts_hits: u64,
    /// Texts that had to be decompressed.
    pub texts_misses: u64,
    /// Size of the texts that are kept, bytes.
    pub texts_bytes: usize,
}

/// A document that has a word, and how often.
#[derive(Clone, Copy)]
struct Posting {
    document: u32,
    frequency: u16,
    /// How long the document is, as the index rounds it.
    length_id: u8,
}

/// The number of a document, as a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct DocumentKey(u32);

impl From<&Self> for DocumentKey {
    fn from(key: &Self) -> Self {
        *key
    }
}

impl Reader {
    pub(super) fn open(
        segment: &SegmentReader,
        fields: Fields,
        room: Room,
    ) -> Result<Self, TantivyError> {
        Ok(Self {
            fields,
            index: segment.inverted_index(fields.words)?,
            lengths: segment.get_fieldnorms_reader(fields.words)?,
            // What it decompresses is kept here, text by text, instead of block by block there.
            store: segment.get_store_reader(0)?,
            postings: Shelf::new(room.postings, |list| size_of_val(&list[..]) + ITEM_BYTES),
            texts: Shelf::new(room.texts, |text| text.len() + ITEM_BYTES),
            scores: Vec::new(),
            scored: Vec::new(),
        })
    }

    /// Offers all documents that have any of `words` to `top`, numbered from `base`, and says how
    /// many they are.
    ///
    /// # Errors
    ///
    /// If the index cannot be read. What was offered until then must not be used.
    pub(super) fn rank(
        &mut self,
        words: &[Sought<'_>],
        norms: &Norms,
        base: u32,
        top: &mut Top,
    ) -> Result<u32, TantivyError> {
        if let [sought] = words {
            let list = decoded(&mut self.postings, &self.index, &self.lengths, sought)?;
            for posting in list {
                top.offer(posting.score(sought.weight, norms), base + posting.document);
            }
            return Ok(list.len() as u32);
        }
        // What the last query left is cleared by the next, so that no way out can forget it.
        for document in self.scored.drain(..) {
            self.scores[document as usize] = 0.0;
        }
        self.scores.resize(self.lengths.num_docs() as usize, 0.0);
        for sought in words {
            for posting in decoded(&mut self.postings, &self.index, &self.lengths, sought)? {
                let score = &mut self.scores[posting.document as usize];
                if *score == 0.0 {
                    self.scored.push(posting.document);
                }
                *score += posting.score(sought.weight, norms);
            }
        }
        for &document in &self.scored {
            top.offer(self.scores[document as usize], base + document);
        }
        Ok(self.scored.len() as u32)
    }

    /// The text of a document of this segment.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(super) fn text(&mut self, document: u32) -> Result<Arc<str>, TantivyError> {
        let text = self.texts.get_or_make(&DocumentKey(document), || {
            let stored: TantivyDocument = self.store.get(document)?;
            Ok::<_, TantivyError>(index::text_of(&stored, self.fields).into())
        })?;
        Ok(text.clone())
    }

    pub(super) fn caches(&self) -> Caches {
        let (postings_hits, postings_misses, postings_bytes) = self.postings.counts();
        let (texts_hits, texts_misses, texts_bytes) = self.texts.counts();
        Caches {
            postings_hits,
            postings_misses,
            postings_bytes,
            texts_hits,
            texts_misses,
            texts_bytes,
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("caches", &self.caches()).finish_non_exhaustive()
    }
}

impl Posting {
    fn score(self, weight: f32, norms: &Norms) -> f32 {
        norms.score(weight, self.frequency.into(), self.length_id)
    }
}

/// The list of a word, decoded unless it is kept.
fn decoded<'a>(
    postings: &'a mut Shelf<Arc<str>, Vec<Posting>>,
    index: &InvertedIndexReader,
    lengths: &FieldNormReader,
    sought: &Sought<'_>,
) -> io::Result<&'a [Posting]> {
    let list = postings.get_or_make(&**sought.word, || {
        let option = IndexRecordOption::WithFreqs;
        let mut block = index.read_block_postings_from_terminfo(sought.list, option)?;
        let mut list = Vec::with_capacity(sought.list.doc_freq as usize);
        while !block.docs().is_empty() {
            let found = block.docs().iter().zip(block.freqs());
            list.extend(found.map(|(&document, &frequency)| Posting {
                document,
                frequency: frequency.try_into().unwrap_or(u16::MAX),
                length_id: lengths.fieldnorm_id(document),
            }));
            block.advance();
        }
        io::Result::Ok(list)
    })?;
    Ok(list)
}
