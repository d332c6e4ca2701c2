//! Full-text search whose shared state is behind locks that refuse who cannot wait.
//!
//! ```text
//!   query ─► statistics of each word ─► segment 1 ─► segment 2 ─► … ─► texts of the hits ─► reply
//!              a lock for each term      a lock for each segment        the segments' locks again
//! ```
//!
//! The index is [tantivy]'s, on disk and mapped into memory, in segments of very different sizes,
//! as merging leaves them. Reading it needs no lock; what is behind locks is the working memory
//! that makes it fast. A segment has one [reader](engine::Engine): decoded posting lists, score
//! accumulators and recently shown texts, of bounded size and used by one request at a time, so
//! that each list is decoded once. A term has its statistics, which whoever needs them first
//! collects from all dictionaries.
//!
//! Every query visits every segment that has its words, one after the other. So under overload
//! requests pile up at the lock of the largest one while cores may be idle: no queue in front of
//! the workers tells of it. That is the situation of Protego's Lucene (NSDI '23, §5.2), and
//! [`LockKind`](engine::LockKind) chooses between locks that refuse and locks that let all wait.
//!
//! ```
//! use seawall_control::Instant;
//! use seawall_control::request::{Claims, Context};
//! use seawall_search::engine::{Engine, EngineConfig, Query};
//! use seawall_search::index::{self, Layout};
//!
//! let folder = tempfile::tempdir()?;
//! let documents = ["a sea wall keeps the sea out", "a wall of the garden", "out in the garden"];
//! index::build(folder.path(), &documents, &Layout::default(), |_| {})?;
//! let engine = Engine::open(folder.path(), &EngineConfig::default())?;
//!
//! let ctx = Context::new(Claims::default(), Instant::ORIGIN);
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! let found = engine.search(&ctx, &Query::new("sea wall", 10)?).await?;
//! assert_eq!((found.total, &*found.hits[0].text), (2, documents[0]));
//! # anyhow::Ok(()) })?;
//! # anyhow::Ok(())
//! ```
//!
//! # What it does not do
//!
//! It adds no document to an index that is open, has no phrases, no stemming and no filters, and
//! caches no results: as in the experiment that it repeats, each query is searched.
//!
//! [tantivy]: https://docs.rs/tantivy

pub mod analysis;
pub mod corpus;
pub mod engine;
pub mod index;
pub mod native;
pub mod server;
pub mod words;
