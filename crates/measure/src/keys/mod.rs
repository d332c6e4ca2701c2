//! Which data a request touches: key popularity, value sizes, and the mix of reads and writes.
//!
//! Keys are numbers below the key count; number 0 is the most popular one. What a key looks like on
//! the wire, and where it is stored, is the application's business.

mod mix;
mod popularity;
mod zipf;

pub use mix::{KeyValueMix, Operation, ValueSize};
pub use popularity::{Keys, Popularity};
