//! TLS by rustls: files in, acceptors and connectors out.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{ClientTls, TlsError};
use crate::net::Stream;
use crate::server::TlsConfig;

/// The server's side.
#[derive(Clone)]
pub(crate) struct Acceptor(TlsAcceptor);

impl Acceptor {
    /// Reads the files of `config`.
    pub(crate) fn new(config: &TlsConfig) -> Result<Self, TlsError> {
        let chain = certificates(&config.certificate)?;
        let key = private_key(&config.key)?;
        let builder = ServerConfig::builder();
        let builder = match &config.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier = WebPkiClientVerifier::builder(Arc::new(authorities(path)?))
                    .build()
                    .map_err(|error| TlsError::Config(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(chain, key);
        let config = config.map_err(|error| TlsError::Config(error.to_string()))?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Shakes hands; gives the stream and the names in the client's certificate.
    pub(crate) async fn accept(&self, tcp: TcpStream) -> io::Result<(Stream, Vec<String>)> {
        let tls = self.0.accept(tcp).await?;
        let certificates = tls.get_ref().1.peer_certificates().unwrap_or_default();
        let names = certificates.first().map_or_else(Vec::new, names);
        Ok((Stream::Tls(Box::new(tls.into())), names))
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

/// The client's side.
#[derive(Clone)]
pub(crate) struct Connector {
    connector: TlsConnector,
    server_name: ServerName<'static>,
}

impl Connector {
    /// Reads the files of `config`.
    pub(crate) fn new(config: &ClientTls) -> Result<Self, TlsError> {
        let builder =
            ClientConfig::builder().with_root_certificates(authorities(&config.authorities)?);
        let client = match &config.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(certificates(chain)?, private_key(key)?)
                .map_err(|error| TlsError::Config(error.to_string()))?,
        };
        let server_name = ServerName::try_from(config.server_name.clone()).map_err(|_| {
            TlsError::Config(format!("\"{}\" is no server name", config.server_name))
        })?;
        Ok(Self { connector: TlsConnector::from(Arc::new(client)), server_name })
    }

    /// Shakes hands.
    pub(crate) async fn connect(&self, tcp: TcpStream) -> io::Result<Stream> {
        let tls = self.connector.connect(self.server_name.clone(), tcp).await?;
        Ok(Stream::Tls(Box::new(tls.into())))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connector").field(&self.server_name).finish()
    }
}

/// The DNS names and the common name of a certificate: what an identity can be known by.
fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
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
