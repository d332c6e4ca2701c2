//! TLS: what is configured, what can be wrong with it, and both ends of it where it is built in.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod real;

use std::path::PathBuf;

use thiserror::Error;

#[cfg(not(feature = "tls"))]
pub(crate) use absent::{Acceptor, Connector};
#[cfg(feature = "tls")]
pub(crate) use real::{Acceptor, Connector};

/// Certificates or keys that cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or is not what it should be.
    #[error("{}: no usable {what}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// This program was built without TLS.
    #[error("TLS is unavailable: this program was built without the feature `tls`")]
    Absent,
    /// The parts do not fit together.
    #[error("TLS configuration: {0}")]
    Config(String),
}

/// TLS of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// Authorities of server certificates, a PEM file.
    pub authorities: PathBuf,
    /// The client's own certificate chain and key, PEM files, for servers that ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that the server's certificate must carry.
    pub server_name: String,
}
