//! Certificates and keys.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ConfigError;

/// TLS for clients. The files are read again when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListenerTls {
    /// The proxy's certificate chain, a PEM file.
    pub certificate: PathBuf,
    /// The key of the certificate, a PEM file.
    pub key: PathBuf,
    /// Authorities of clients' certificates, a PEM file: clients must then have one. Default: no
    /// client needs a certificate.
    pub client_authorities: Option<PathBuf>,
}

impl ListenerTls {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let is_missing = |path: &PathBuf| path.as_os_str().is_empty();
        if is_missing(&self.certificate) {
            let problem = "it is missing; it goes with tls.key";
            return Err(ConfigError::new("certificate", problem));
        }
        if is_missing(&self.key) {
            let problem = "it is missing; it goes with tls.certificate";
            return Err(ConfigError::new("key", problem));
        }
        Ok(())
    }
}

/// TLS to replicas whose address begins with `https://`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamTls {
    /// Authorities of the replicas' certificates, a PEM file. Default: those of the system.
    pub authorities: Option<PathBuf>,
    /// A certificate chain to show to the replicas, a PEM file; needs `key`.
    pub certificate: Option<PathBuf>,
    /// The key of that certificate, a PEM file.
    pub key: Option<PathBuf>,
    /// The name that the replicas' certificates must carry. Default: the host in each address.
    pub server_name: Option<String>,
}

impl UpstreamTls {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.certificate.is_some() != self.key.is_some() {
            return Err(ConfigError::new("key", "certificate and key need each other; give both"));
        }
        let name = self.server_name.as_ref();
        let is_bad =
            |name: &&String| rustls::pki_types::ServerName::try_from(name.as_str()).is_err();
        match name.filter(is_bad) {
            Some(name) => Err(ConfigError::new(
                "server_name",
                format!("\"{name}\" is neither a DNS name nor an IP address"),
            )),
            None => Ok(()),
        }
    }
}
