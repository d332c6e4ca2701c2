//! Terms: how much each weighs, and where its lists are.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use seawall_sync::{Estimate, Mutex};
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::TermInfo;
use tantivy::schema::Field;
use tantivy::{TantivyError, Term as Key};

use super::TERM;
use super::segment::Segment;

/// BM25's saturation of a word's frequency, and its weight of a document's length.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// The terms that were used last.
pub(super) struct Terms {
    field: Field,
    documents: u32,
    // Held for a look-up only, which takes less than a refusal would.
    known: parking_lot::Mutex<LruCache<Arc<str>, Arc<Term>>>,
    /// How many of them are kept.
    count: NonZeroUsize,
    estimate: Estimate,
}

/// A word, and what is known of it.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) word: Arc<str>,
    /// Nothing, until somebody has collected it.
    pub(super) statistics: Mutex<Option<Arc<Statistics>>>,
}

/// What the whole index says about a term.
#[derive(Debug)]
pub(super) struct Statistics {
    /// BM25's factor of the term.
    pub(super) weight: f32,
    /// Where each segment has its documents; `None` in those that have none.
    pub(super) lists: Vec<Option<TermInfo>>,
}

/// BM25's summand of a document's length, by the byte that stands for the length.
#[derive(Debug)]
pub(super) struct Norms([f32; 256]);

impl Terms {
    /// Keeps up to `count` terms of `field`, of an index with `documents`, whose locks predict
    /// waits so.
    pub(super) fn new(field: Field, documents: u32, count: usize, estimate: Estimate) -> Self {
        let count = NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        // Without a bound of its own, for which it would take room at once.
        let known = parking_lot::Mutex::new(LruCache::unbounded());
        Self { field, documents, known, count, estimate }
    }

    /// The entry of a word, which may have no statistics yet: locking them is not done here.
    ///
    /// A request that is refused before it has filled a new entry leaves it empty. That does no
    /// harm: who comes next fills it.
    pub(super) fn entry(&self, word: &str) -> Arc<Term> {
        let mut known = self.known.lock();
        if let Some(term) = known.get(word) {
            return term.clone();
        }
        let statistics = Mutex::new(None).at(TERM, "term").predicted_by(self.estimate);
        let term = Arc::new(Term { word: word.into(), statistics });
        known.put(term.word.clone(), term.clone());
        if known.len() > self.count.get() {
            known.pop_lru();
        }
        term
    }

    /// What is known of `term`, or else what the dictionaries say. The caller has locked it, so
    /// that one request asks them and the others wait for what it learns.
    ///
    /// # Errors
    ///
    /// If a dictionary cannot be read; then nothing is known, as before.
    pub(super) fn statistics(
        &self,
        term: &Term,
        known: &mut Option<Arc<Statistics>>,
        segments: &[Segment],
    ) -> Result<Arc<Statistics>, TantivyError> {
        if let Some(known) = known {
            return Ok(known.clone());
        }
        let key = Key::from_field_text(self.field, &term.word);
        let lists = segments.iter().map(|segment| segment.find(&key));
        let lists: Vec<Option<TermInfo>> = lists.collect::<Result<_, _>>()?;
        let frequency = lists.iter().flatten().map(|list| list.doc_freq).sum();
        let weight = idf(frequency, self.documents) * (1.0 + K1);
        Ok(known.insert(Arc::new(Statistics { weight, lists })).clone())
    }
}

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terms").field("known", &self.known.lock().len()).finish_non_exhaustive()
    }
}

impl Norms {
    /// Of an index with so many documents, and so many words in all of them.
    pub(super) fn new(documents: u32, words: u64) -> Self {
        let average = words as f32 / documents.max(1) as f32;
        Self(std::array::from_fn(|id| {
            let length = FieldNormReader::id_to_fieldnorm(id as u8) as f32;
            K1 * (1.0 - B + B * length / average)
        }))
    }

    /// The score of a document for a term of this weight that it has `frequency` times.
    pub(super) fn score(&self, weight: f32, frequency: u32, length_id: u8) -> f32 {
        let frequency = frequency as f32;
        weight * (frequency / (frequency + self.0[usize::from(length_id)]))
    }
}

/// The inverse document frequency of a word that `frequency` of `documents` have.
fn idf(frequency: u32, documents: u32) -> f32 {
    let without = (documents - frequency) as f32;
    (1.0 + (without + 0.5) / (frequency as f32 + 0.5)).ln()
}
