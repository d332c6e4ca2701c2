//! Certificate and key files that are missing, or are not what they should be.

use std::path::Path;

use seawall_rpc::{ClientConfig, Server, ServerConfig, StartError, TlsConfig};

use super::certificates::{Authority, Pair};
use super::tls::{client, failure, listener};
use crate::support::{config, router};

/// Why a server with this configuration does not start.
fn refused(config: ServerConfig) -> String {
    match Server::start(config, router()) {
        Ok(server) => panic!("started: {server:?}"),
        Err(error @ StartError::Tls(_)) => error.to_string(),
        Err(error) => panic!("{error}"),
    }
}

fn names(error: &str, path: &Path, what: &str) {
    let expected = format!("{}: no usable {what}: ", path.display());
    assert!(error.starts_with(&expected) && error.len() > expected.len(), "{error}");
}

#[tokio::test]
async fn errors_about_files_name_the_file() {
    let authority = Authority::new("files");
    let Pair { certificate, key } = authority.sign("server", &["localhost"], None);
    let missing = certificate.with_file_name("missing.pem");
    let empty = authority.file("empty.pem", "");
    let garbled = authority.file(
        "garbled.pem",
        "-----BEGIN CERTIFICATE-----\nthis is no base64 at all!\n-----END CERTIFICATE-----\n",
    );
    let broken = authority
        .file("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let with = |certificate: &Path, key: &Path, client_authorities: Option<&Path>| {
        let tls = TlsConfig {
            certificate: certificate.into(),
            key: key.into(),
            client_authorities: client_authorities.map(Into::into),
        };
        ServerConfig { tls: Some(tls), ..config("breakwater") }
    };
    for bad in [&missing, &empty, &garbled, &key] {
        names(&refused(with(bad, &key, None)), bad, "certificates");
    }
    for bad in [&missing, &empty, &garbled, &certificate] {
        names(&refused(with(&certificate, bad, None)), bad, "private key");
    }
    for (bad, what) in
        [(&missing, "certificates"), (&empty, "certificates"), (&broken, "authority")]
    {
        names(&refused(with(&certificate, &key, Some(bad))), bad, what);
    }

    // Clients read theirs when they connect.
    let server = listener(&Pair { certificate: certificate.clone(), key: key.clone() }, None);
    let server = Server::start(server, router()).unwrap();
    let connect = async |authorities: &Path, identity: Option<(&Path, &Path)>| {
        let mut config: ClientConfig = client(&authority, None);
        let tls = config.tls.as_mut().unwrap();
        tls.authorities = authorities.into();
        tls.identity = identity.map(|(chain, key)| (chain.into(), key.into()));
        failure(server.address(), &config).await
    };
    names(&connect(&missing, None).await, &missing, "certificates");
    let identity = Some((certificate.as_path(), garbled.as_path()));
    names(&connect(&authority.certificate, identity).await, &garbled, "private key");
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let authority = Authority::new("mismatch");
    let one = authority.sign("one", &["localhost"], None);
    let other = authority.sign("other", &["localhost"], None);
    let error = refused(listener(&Pair { key: other.key, ..one }, None));
    assert!(error.contains("TLS configuration") && error.contains("key"), "{error}");
}
