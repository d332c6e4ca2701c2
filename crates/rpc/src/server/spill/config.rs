//! What can be set about spill-over.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use seawall_control::config::ConfigError;
use seawall_control::secret::Secret;
use serde::{Deserialize, Serialize};

use crate::client::ClientConfig;
use crate::tls::ClientTls;

/// Where a server hands what it refuses, so that a replica with room serves it (Svalinn §3.3).
///
/// For clients that cannot send a refused request to another replica themselves, because they know
/// of one address only. It costs the refusing server what it costs a client: a message each way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpillConfig {
    /// Replicas of the service, other than this server. Default none: refusals are told to the
    /// clients. How much each of them gets is bounded by the credits that it gives.
    pub replicas: Vec<SocketAddr>,
    /// Requests that may be at replicas at once, 1 to 1048576. Default 1024; what is refused
    /// beyond that is told to the clients. Each holds its payload and its place in its
    /// session's window.
    pub outstanding: u32,
    /// Which refusals are handed on. Default `both`.
    pub at: SpillAt,
    /// Proof of this server's identity for the replicas, if they know it by a token. What they let
    /// it claim is what the requests that it hands on can claim there.
    pub token: Option<Secret>,
    /// TLS, if the replicas speak it.
    pub tls: Option<SpillTls>,
}

/// Which refusals are handed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpillAt {
    /// Those of entry: nothing was spent on the request but its message.
    Entry,
    /// Those of the run queue's end and of stages behind it, such as locks: what entry refuses goes
    /// back to clients that know where else to go.
    Stages,
    /// All. Payloads of requests are kept until their handlers end, to be handed on.
    #[default]
    Both,
}

/// TLS of the sessions with the replicas; PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpillTls {
    /// Authorities of the replicas' certificates.
    pub authorities: PathBuf,
    /// The name that those must carry.
    pub server_name: String,
    /// This server's certificate chain for replicas that ask for one, with its `key`.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// The key of `certificate`.
    #[serde(default)]
    pub key: Option<PathBuf>,
}

impl Default for SpillConfig {
    fn default() -> Self {
        Self {
            replicas: Vec::new(),
            outstanding: 1024,
            at: SpillAt::default(),
            token: None,
            tls: None,
        }
    }
}

impl SpillConfig {
    /// Checks all ranges, for a server that listens at `listen`.
    pub(in crate::server) fn validate(&self, listen: SocketAddr) -> Result<(), ConfigError> {
        ConfigError::check_range("spill.outstanding", self.outstanding, 1..=1 << 20)?;
        if self.replicas.contains(&listen) {
            let problem = format!("{listen} is this server; name others");
            return Err(ConfigError::new("spill.replicas", problem));
        }
        match &self.tls {
            Some(tls) if tls.certificate.is_some() != tls.key.is_some() => Err(ConfigError::new(
                "spill.tls",
                "certificate and key belong together; give both or neither",
            )),
            _ => Ok(()),
        }
    }

    /// The client of the replicas, a network round trip of `rtt` away.
    pub(super) fn client(&self, rtt: Duration) -> ClientConfig {
        let tls = self.tls.clone().map(|tls| ClientTls {
            authorities: tls.authorities,
            identity: tls.certificate.zip(tls.key),
            server_name: tls.server_name,
        });
        let (name, token) = ("seawall-spill".into(), self.token.clone());
        ClientConfig { name, token, tls, rtt, spills: true, ..ClientConfig::default() }
    }
}

impl SpillAt {
    /// Whether refusals at entry are handed on.
    pub(super) fn entry(self) -> bool {
        self != Self::Stages
    }

    /// Whether refusals at stages behind it are.
    pub(super) fn stages(self) -> bool {
        self != Self::Entry
    }
}
