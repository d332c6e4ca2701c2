//! TLS by rustls: files in, configurations of both sides out.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use thiserror::Error;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::config::{ListenerTls, Protocol, UpstreamTls};

/// HTTP/2 over TLS (RFC 9113 §3.2).
pub(crate) const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// Certificates or keys that cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or is not what it should be.
    #[error("{key}: {}: {problem}", path.display())]
    File {
        /// The key of the configuration that names it.
        key: String,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The parts do not fit together.
    #[error("{key}: {problem}")]
    Config {
        /// The table of the configuration.
        key: String,
        /// What is wrong.
        problem: String,
    },
}

impl TlsError {
    /// The same error about what is below `place`.
    pub(crate) fn within(mut self, place: &str) -> Self {
        let (Self::File { key, .. } | Self::Config { key, .. }) = &mut self;
        *key = format!("{place}.{key}");
        self
    }
}

/// What shakes hands with clients.
pub(crate) fn acceptor(config: &ListenerTls) -> Result<TlsAcceptor, TlsError> {
    let chain = certificates("tls.certificate", &config.certificate)?;
    let key = private_key("tls.key", &config.key)?;
    let builder = ServerConfig::builder();
    let builder = match &config.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier = WebPkiClientVerifier::builder(Arc::new(authorities(
                "tls.client_authorities",
                path,
            )?))
            .build()
            .map_err(wrong)?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(wrong)?;
    config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// What shakes hands with replicas that speak `protocol`.
pub(crate) fn connector(
    config: &UpstreamTls,
    protocol: Protocol,
) -> Result<TlsConnector, TlsError> {
    let roots = match &config.authorities {
        Some(path) => authorities("tls.authorities", path)?,
        None => system_authorities()?,
    };
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let mut client = match (&config.certificate, &config.key) {
        (Some(chain), Some(key)) => {
            let chain = certificates("tls.certificate", chain)?;
            builder.with_client_auth_cert(chain, private_key("tls.key", key)?).map_err(wrong)?
        }
        _ => builder.with_no_client_auth(),
    };
    client.alpn_protocols = match protocol {
        Protocol::Auto => vec![H2.to_vec(), HTTP_1_1.to_vec()],
        Protocol::Http1 => vec![HTTP_1_1.to_vec()],
        Protocol::Http2 => vec![H2.to_vec()],
    };
    Ok(TlsConnector::from(Arc::new(client)))
}

fn wrong(error: impl fmt::Display) -> TlsError {
    TlsError::Config { key: "tls".into(), problem: error.to_string() }
}

/// What is wrong with a file that should have a `what` in it.
fn unusable(key: &str, path: &Path, what: &str, error: &pem::Error) -> TlsError {
    let problem = match error {
        pem::Error::Io(error) if error.kind() == io::ErrorKind::NotFound => "no such file".into(),
        pem::Error::Io(error) => format!("it cannot be read: {error}"),
        pem::Error::NoItemsFound => format!("there is no {what} in it"),
        error => format!("no usable {what}: {error}"),
    };
    TlsError::File { key: key.into(), path: path.into(), problem }
}

fn certificates(key: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let error = |error: pem::Error| unusable(key, path, "certificate", &error);
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(error)?.collect();
    let all = all.map_err(error)?;
    if all.is_empty() { Err(error(pem::Error::NoItemsFound)) } else { Ok(all) }
}

fn private_key(key: &str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(key, path, "private key", &error))
}

fn authorities(key: &str, path: &Path) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(key, path)? {
        store.add(certificate).map_err(|error| TlsError::File {
            key: key.into(),
            path: path.into(),
            problem: format!("no usable authority: {error}"),
        })?;
    }
    Ok(store)
}

fn system_authorities() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let problem = "it is missing, and the system has no authorities; name a file";
        return Err(TlsError::Config { key: "tls.authorities".into(), problem: problem.into() });
    }
    Ok(store)
}
