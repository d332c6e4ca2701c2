//! Rules of the source tree that neither the compiler nor clippy knows, as tests.
//!
//! All of it is in `tests/tidy`, one file for each kind of rule:
//!
//! | file | rule |
//! |---|---|
//! | `arrows.rs` | crates depend on each other as the design says, and not otherwise |
//! | `purity.rs` | no std and few dependencies in the core; unsafe code in four crates only |
//! | `size.rs` | files and lines stay short |
//! | `leftovers.rs` | no unfinished work, no ignored test without a reason |
//! | `manifests.rs` | every crate inherits the lints, and has a description and a license |
//!
//! # What it does not do
//!
//! It has nothing to depend on: the library is empty.
