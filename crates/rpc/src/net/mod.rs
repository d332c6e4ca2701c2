//! Bytes: streams with or without TLS, frames out of reads, and coalesced writes.

mod bounced;
mod frames;
mod listen;
mod out;
mod stream;

pub(crate) use bounced::BouncedStream;
pub(crate) use frames::{FrameBytes, FrameReader};
pub(crate) use listen::{keep_alive, listen};
pub(crate) use out::{OutBuffer, Written};
pub(crate) use stream::Stream;

use std::future::Future;
use std::task::Context;

/// Has the task that is being polled be polled again, after all others of its thread were, and its
/// reactor has looked for news. Waking itself would get it many turns before others get one.
pub(crate) fn poll_again(cx: &mut Context<'_>) {
    let others = tokio::task::yield_now();
    tokio::pin!(others);
    assert!(others.poll(cx).is_pending(), "the others have not run yet");
}
