//! Searching: words to statistics, segments to hits, hits to texts.
//!
//! What Protego's Lucene has behind locks (§5.2), and what is behind them here:
//!
//! - There, each segment has a mutex: every request searches its inverted index. Here it guards the
//!   segment's one reader, whose decoded posting lists, accumulators and texts change with each
//!   use.
//! - There, each `TermDocs`, the scores of a term's documents, has a mutex. Here each term has one,
//!   for its weight and for where its lists are, which whoever comes first collects.
//!
//! Deviation: Lucene++ ranks while it holds the term's mutex; here the scores of a term's documents
//! are computed by the segment's reader, where its lists are.

mod config;
mod query;
mod reader;
mod segment;
mod shelf;
mod terms;
mod top;

use std::path::Path;
use std::sync::Arc;

use seawall_control::request::{Context, Rejected, Stage};
use seawall_sync::{Mutex, MutexGuard};
use tantivy::TantivyError;
use thiserror::Error;

pub use config::EngineConfig;
pub use query::{Query, QueryError};
pub use reader::Caches;
pub use seawall_control::predict::lock::LockKind;

use crate::index::{self, Fields, IndexError};
use reader::Sought;
use segment::Segment;
use terms::{Norms, Terms};
use top::Top;

/// The stage of a term's lock, in refusals.
pub const TERM: Stage = Stage(16);

/// The stage of a segment's lock, in refusals.
pub const SEGMENT: Stage = Stage(17);

/// An index that is open for searching, with what makes it fast.
#[derive(Debug)]
pub struct Engine {
    /// The largest first.
    segments: Vec<Segment>,
    terms: Terms,
    norms: Norms,
    locks: LockKind,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// How many documents have a word of the query.
    pub total: u32,
    /// The best of them, the best first.
    pub hits: Vec<Hit>,
}

/// A document that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Its number; documents are numbered from 0 in the order in which they were indexed.
    pub document: u32,
    /// How well it matches (BM25, `k1` = 1.2 and `b` = 0.75): above 0, more is better.
    pub score: f32,
    /// Its text.
    pub text: Arc<str>,
}

/// Why a search has no result. There are no partial ones: as in the paper's experiment, a reply is
/// complete or a failure.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SearchError {
    /// A lock refused the request, which could not have waited for it.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The index cannot be read.
    #[error("cannot read the index: {0}")]
    Index(#[from] TantivyError),
}

impl Engine {
    /// Opens the index that [`index::build`] built in `folder`.
    ///
    /// # Errors
    ///
    /// If there is none, or it cannot be read.
    pub fn open(folder: &Path, config: &EngineConfig) -> Result<Self, IndexError> {
        let index = index::open(folder)?;
        let fields = Fields::of(&index.schema())?;
        let searcher = index.reader()?.searcher();
        let mut readers: Vec<_> = searcher.segment_readers().iter().collect();
        // As they were written: each is larger than the next.
        readers.sort_by_key(|reader| std::cmp::Reverse(reader.max_doc()));
        let documents = readers.iter().map(|reader| reader.max_doc()).sum();
        let estimate = config.locks.estimate();
        let mut segments = Vec::new();
        let mut base = 0;
        for (number, reader) in readers.into_iter().enumerate() {
            let share = f64::from(reader.max_doc()) / f64::from(documents).max(1.0);
            segments.push(Segment::open(
                reader,
                fields,
                number,
                base,
                config.scaled(share),
                estimate,
            )?);
            base += reader.max_doc();
        }
        let words = segments.iter().map(Segment::words).sum();
        Ok(Self {
            norms: Norms::new(documents, words),
            terms: Terms::new(fields.words, documents, config.terms, estimate),
            locks: config.locks,
            segments,
        })
    }

    /// Searches on behalf of a request, which waits for the locks of terms and segments as its
    /// engine's [`LockKind`] says.
    ///
    /// A request that is refused leaves no trace but lists and texts that it decoded, which are as
    /// right for others as for itself.
    ///
    /// # Errors
    ///
    /// See [`SearchError`].
    pub async fn search(&self, ctx: &Context, query: &Query) -> Result<Found, SearchError> {
        let mut sought = Vec::with_capacity(query.words().len());
        for word in query.words() {
            let term = self.terms.entry(word);
            let statistics = {
                let mut known = self.lock(&term.statistics, ctx).await?;
                self.terms.statistics(&term, &mut known, &self.segments)?
            };
            sought.push((term, statistics));
        }

        let mut top = Top::new(query.limit());
        let mut total = 0;
        for (number, segment) in self.segments.iter().enumerate() {
            let here: Vec<Sought<'_>> = sought
                .iter()
                .filter_map(|(term, statistics)| {
                    let list = statistics.lists[number].as_ref()?;
                    Some(Sought { word: &term.word, weight: statistics.weight, list })
                })
                .collect();
            if !here.is_empty() {
                let mut reader = self.lock(segment.reader(), ctx).await?;
                total += reader.rank(&here, &self.norms, segment.base(), &mut top)?;
            }
        }

        let ranked = top.into_sorted();
        let mut hits: Vec<_> = ranked
            .iter()
            .map(|ranked| Hit { document: ranked.document, score: ranked.score, text: "".into() })
            .collect();
        for segment in &self.segments {
            if hits.iter().any(|hit| segment.has(hit.document)) {
                let mut reader = self.lock(segment.reader(), ctx).await?;
                for hit in hits.iter_mut().filter(|hit| segment.has(hit.document)) {
                    hit.text = reader.text(hit.document - segment.base())?;
                }
            }
        }
        Ok(Found { total, hits })
    }

    /// How many documents the index has.
    pub fn documents(&self) -> u32 {
        self.segments.iter().map(Segment::documents).sum()
    }

    /// How many documents each segment has, the largest first.
    pub fn segments(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().map(Segment::documents)
    }

    /// What the reader of each segment keeps. Waits for those in use.
    pub fn caches(&self) -> Vec<Caches> {
        let caches = |segment: &Segment| segment.reader().blocking_lock_plain().caches();
        self.segments.iter().map(caches).collect()
    }

    async fn lock<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        ctx: &Context,
    ) -> Result<MutexGuard<'a, T>, Rejected> {
        mutex.lock_by(self.locks, ctx).await
    }
}

#[cfg(test)]
mod tests;
