//! Both ends of TLS in a program that was built without it: neither can be made.

use std::io;

use tokio::net::TcpStream;

use super::{ClientTls, TlsError};
use crate::net::Stream;
use crate::server::TlsConfig;

/// The server's side.
#[derive(Clone, Debug)]
pub(crate) enum Acceptor {}

impl Acceptor {
    pub(crate) fn new(_: &TlsConfig) -> Result<Self, TlsError> {
        Err(TlsError::Absent)
    }

    #[expect(clippy::unused_async, reason = "the other one waits")]
    pub(crate) async fn accept(&self, _: TcpStream) -> io::Result<(Stream, Vec<String>)> {
        match *self {}
    }
}

/// The client's side.
#[derive(Clone, Debug)]
pub(crate) enum Connector {}

impl Connector {
    pub(crate) fn new(_: &ClientTls) -> Result<Self, TlsError> {
        Err(TlsError::Absent)
    }

    #[expect(clippy::unused_async, reason = "the other one waits")]
    pub(crate) async fn connect(&self, _: TcpStream) -> io::Result<Stream> {
        match *self {}
    }
}
