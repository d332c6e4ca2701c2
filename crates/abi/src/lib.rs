//! What processes share that do not link each other: pages of metrics, and news of late requests.
//!
//! ```text
//!   service ── counts ──► page ◄── reads every interval ── node agent
//!           ◄── orders ── (a file of 4096 bytes) ◄── orders ──
//! ```
//!
//! A service maps its [`page`] and counts in it; that costs a few additions per request, and
//! nobody waits for anybody. The node agent reads the page, decides which container needs CPU
//! (SurgeGuard §III), and writes orders into the same page. If it dies, they expire.
//!
//! The layout is for writers in any language: `docs/metrics-page.md`.
//!
//! ```
//! use seawall_abi::page::{Description, Publisher, Reader, Sample};
//!
//! # let folder = tempfile::tempdir()?;
//! # let pages = folder.path();
//! let publisher = Publisher::create(pages, &Description::of_this_process("timeline", 8080)?)?;
//! publisher.shard(0).on_arrival();
//! publisher.shard(0).on_completion(&Sample { exec_ns: 1_200_000, ..Sample::default() });
//!
//! let reader = Reader::open(publisher.path())?; // in another process
//! assert_eq!(reader.counters()?.requests, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It does not decide anything, and it starts no thread.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

// Readers in other processes, and pages written by other languages, see the words as they lie.
#[cfg(not(all(target_endian = "little", target_has_atomic = "64")))]
compile_error!("pages are little-endian words of 64 bits, which this target cannot share");

pub mod clock;
#[allow(unsafe_code, reason = "publishers map the page that they share with the agent")]
pub mod page;
pub mod process;
pub mod responder;
