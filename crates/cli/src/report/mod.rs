//! What was found: as JSON for machines, as a table for the terminal, as one page to keep.
//!
//! ```text
//!                        ┌─► serde_json     the array of services, nothing else
//!  [data::ServiceReport] ┼─► table          plain text, at most 100 columns
//!                        └─► page::services ┐
//!                                           ├ one HTML file with charts, no script, no request
//!  [run::Report] ──────────► page::run      ┘
//! ```
//!
//! The demo measures services, which have a verdict; `seawall load` measures one run. All that is
//! written shows the same points and never judges on its own: what is said about services comes
//! from [`verdict`], and how a number is written from [`format`](mod@format).

pub(crate) mod data;
pub(crate) mod format;
pub(crate) mod grid;
pub(crate) mod page;
pub(crate) mod run;
pub(crate) mod table;

pub(crate) mod charts;
pub(crate) mod html;
#[cfg(test)]
pub(crate) mod sample;
mod verdict;
