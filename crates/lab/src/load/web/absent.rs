//! The client in a program that was built without HTTP: there is none.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use bytes::Bytes;

use super::{Answer, Target};

/// A client of one server, which cannot be opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Client {}

impl Client {
    /// A client with at most so many connections.
    ///
    /// # Errors
    ///
    /// Always.
    #[expect(clippy::unused_async, reason = "the other one waits")]
    pub async fn open(_: SocketAddr, _: &Target, _: usize) -> Result<Self> {
        bail!("load over HTTP is unavailable: this program was built without the feature `http`")
    }

    /// Sends a request.
    #[expect(clippy::unused_async, reason = "the other one waits")]
    pub async fn call(&self, _: usize, _: String, _: Bytes, _: Option<Duration>) -> Answer {
        unreachable!("there is no client: it cannot be opened")
    }
}
