//! Bytes: streams with or without TLS, frames out of reads, and coalesced writes.

mod frames;
mod listen;
mod out;
mod stream;

pub(crate) use frames::{FrameBytes, FrameReader};
pub(crate) use listen::{keep_alive, listen};
pub(crate) use out::{OutBuffer, Written};
pub(crate) use stream::Stream;
