//! Numbers for people: as a table for the terminal, as charts, as one page to keep.
//!
//! ```text
//!   what was measured ─┬─► grid      plain text
//!                      └─► page ◄── charts    one HTML file, no script, no request to anywhere
//! ```
//!
//! What one load looks like is here ([`run`]); the demo, comparisons and simulations bring their
//! own. How a number is written comes from [`format`](mod@format).

pub mod charts;
pub mod format;
pub mod grid;
pub mod html;
pub mod page;
pub mod run;
#[cfg(test)]
pub mod sample;
