//! TLS by rustls: files in, configurations of both sides out.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use thiserror::Error;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::config::{ListenerTls, Protocol, UpstreamTls};

/// HTTP/2 over TLS (RFC 9113 §3.2).
pub(crate) const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

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
    /// The parts do not fit together.
    #[error("TLS configuration: {0}")]
    Config(String),
}

/// What shakes hands with clients.
pub(crate) fn acceptor(config: &ListenerTls) -> Result<TlsAcceptor, TlsError> {
    let chain = certificates(&config.certificate)?;
    let key = private_key(&config.key)?;
    let builder = ServerConfig::builder();
    let builder = match &config.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier = WebPkiClientVerifier::builder(Arc::new(authorities(path)?))
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
        Some(path) => authorities(path)?,
        None => system_authorities()?,
    };
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let mut client = match (&config.certificate, &config.key) {
        (Some(chain), Some(key)) => {
            builder.with_client_auth_cert(certificates(chain)?, private_key(key)?).map_err(wrong)?
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

/// The common name and the DNS names of a certificate: what a sender can be known by.
pub(crate) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let subject = certificate.subject();
    let common = subject.iter_common_name().filter_map(|name| name.as_str().ok());
    let mut names: Vec<String> = common.map(str::to_owned).collect();
    if let Ok(Some(alternative)) = certificate.subject_alternative_name() {
        names.extend(alternative.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        }));
    }
    names
}

fn wrong(error: impl fmt::Display) -> TlsError {
    TlsError::Config(error.to_string())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let error =
        |problem: String| TlsError::File { path: path.into(), what: "certificates", problem };
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .map_err(|problem| error(problem.to_string()))?
        .collect();
    let all = all.map_err(|problem| error(problem.to_string()))?;
    if all.is_empty() { Err(error("the file has none".into())) } else { Ok(all) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|problem| TlsError::File {
        path: path.into(),
        what: "private key",
        problem: problem.to_string(),
    })
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(|problem| TlsError::File {
            path: path.into(),
            what: "authority",
            problem: problem.to_string(),
        })?;
    }
    Ok(store)
}

fn system_authorities() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let problem =
            "the system has no authorities; name a file in upstreams.NAME.tls.authorities";
        return Err(TlsError::Config(problem.into()));
    }
    Ok(store)
}
