//! Standard output.

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// Prints a text. That its reader has had enough, as `head` soon has, is no error, and what is left
/// to do is done all the same.
///
/// # Errors
///
/// If it cannot be written for any other reason.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.context("cannot write to standard output"),
    }
}
