//! What can be set about a client, and why it cannot connect.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seawall_control::admission;
use seawall_control::client::Unknown;
use seawall_control::config::ConfigError;
use seawall_control::controller::{ClientController, Init};
use seawall_control::secret::Secret;
use seawall_control::{retry, wire};
use thiserror::Error;

use crate::tls::{ClientTls, TlsError};

/// A client: who it is, and how it holds requests back.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// What it calls itself in the server's logs.
    pub name: String,
    /// Proof of identity, if the server wants a token.
    pub token: Option<Secret>,
    /// TLS, if the server speaks it.
    pub tls: Option<ClientTls>,
    /// Parameters of the algorithms' client halves. Which one is used is up to the server; the
    /// name in here is not looked at.
    ///
    /// `client.retry` in it says when a [`Client`](crate::Client) sends a request to another
    /// replica; by default once, as [`retry::Config`] has it.
    pub admission: admission::Config,
    /// Network round trip to the server. Default 100 µs.
    pub rtt: Duration,
    /// How long connecting may take, handshakes included. Default 5 s.
    pub connect_timeout: Duration,
    /// Its calls were refused by another server, for which it hands them on: a server that refuses
    /// them as well does not hand them to a third. Default false.
    pub spills: bool,
}

impl Default for ClientConfig {
    fn default() -> Self {
        let mut admission = admission::Config::default();
        admission.client.retry = retry::Config::default();
        Self {
            name: "seawall-rpc".into(),
            token: None,
            tls: None,
            admission,
            rtt: Duration::from_micros(100),
            connect_timeout: Duration::from_secs(5),
            spills: false,
        }
    }
}

impl ClientConfig {
    /// The client half of the algorithm that the server named, with this client's parameters.
    pub(super) fn controller(
        &self,
        settings: &wire::Settings,
        init: Init,
    ) -> Result<Box<dyn ClientController>, ConfigError> {
        let algorithm = settings.algorithm.clone();
        if !admission::NAMES.contains(&&*algorithm) {
            self.admission.client.validate()?;
            tracing::debug!(algorithm, "the server's algorithm is not known");
            return Ok(Box::new(Unknown::default()));
        }
        Ok(admission::Config { algorithm, ..self.admission.clone() }
            .build_with(seawall_measure::utility::read)?
            .client(init))
    }
}

/// Why there is no session.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The stream failed.
    #[error("cannot connect: {0}")]
    Io(#[from] io::Error),
    /// Connecting took too long.
    #[error("{address} did not answer within {after:?}")]
    Timeout {
        /// The server's address.
        address: SocketAddr,
        /// How long was waited.
        after: Duration,
    },
    /// The server said why it does not want this client.
    #[error("the server refused the session: {0}")]
    Refused(String),
    /// The server does not speak the protocol.
    #[error("the server does not speak Seawall's protocol: {0}")]
    Protocol(#[from] wire::DecodeError),
    /// The parameters of the algorithms cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Certificates or keys cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// None of the replicas could be connected to.
    #[error("no replica can be reached; the last said: {0}")]
    NoReplica(Arc<ConnectError>),
}
