//! What the demo found: as JSON for machines, as a table for the terminal, as one page to keep.
//!
//! ```text
//!                        ┌─► serde_json   the array of services, nothing else
//!  [data::ServiceReport] ┼─► table        plain text, at most 100 columns
//!                        └─► page         one HTML file with charts, no script, no request
//! ```
//!
//! The three show the same points and never judge on their own: what is said about them comes from
//! [`verdict`], and how a number is written from [`format`](mod@format).

pub(crate) mod data;
pub(crate) mod page;
pub(crate) mod table;

mod charts;
pub(crate) mod format;
mod html;
#[cfg(test)]
pub(crate) mod sample;
mod verdict;
