//! TLS on both sides.

use std::path::PathBuf;
use std::sync::Arc;

use hyper::Response;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use seawall_proxy::Proxy;
use seawall_proxy::config::{Known, ListenerTls, Protocol, Trust};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::support::*;

/// An authority, and certificates of it in files.
struct Files {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Files {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let files = Self { folder: tempfile::tempdir().unwrap(), issuer };
        std::fs::write(files.path("ca.pem"), files.issuer.pem()).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for `host` and its key.
    fn issue(&self, host: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (chain, secret) = (self.path("chain.pem"), self.path("key.pem"));
        std::fs::write(&chain, certificate.pem()).unwrap();
        std::fs::write(&secret, key.serialize_pem()).unwrap();
        (chain, secret)
    }

    /// A client that believes this authority and offers these protocols.
    fn connector(&self, protocols: &[&str]) -> TlsConnector {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }

    /// A client that shows a certificate for this name.
    fn connector_of(&self, name: &str) -> TlsConnector {
        let (chain, key) = self.issue(name);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let chain = vec![CertificateDer::from_pem_file(chain).unwrap()];
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
        TlsConnector::from(Arc::new(builder.with_client_auth_cert(chain, key).unwrap()))
    }
}

/// A server of TLS that agrees on one of these protocols, and says which version it was asked in.
async fn upstream(files: &Files, host: &str, protocols: &[&str]) -> std::net::SocketAddr {
    let (chain, key) = files.issue(host);
    let chain = vec![CertificateDer::from_pem_file(chain).unwrap()];
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let builder = rustls::ServerConfig::builder().with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(tls) = acceptor.accept(tcp).await else { return };
                let service = hyper::service::service_fn(|request: hyper::Request<_>| async move {
                    let version = format!("{:?}", request.version());
                    Ok::<_, std::convert::Infallible>(Response::new(version))
                });
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(tls), service).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn clients_choose_a_version_when_they_shake_hands() {
    let plain = Upstream::saying("hello").await;
    let files = Files::new();
    let (certificate, key) = files.issue("proxy.example");
    let mut config = config(&[plain.address]);
    config.tls = Some(ListenerTls { certificate, key, client_authorities: None });
    let proxy = Proxy::start(config).unwrap();
    let name = ServerName::try_from("proxy.example").unwrap();
    for protocol in ["h2", "http/1.1"] {
        let tcp = TcpStream::connect(proxy.address()).await.unwrap();
        let tls = files.connector(&[protocol]).connect(name.clone(), tcp).await.unwrap();
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
        let io = TokioIo::new(tls);
        let response = if protocol == "h2" {
            let executor = TokioExecutor::new();
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(executor, io).await.unwrap();
            tokio::spawn(connection);
            let request = hyper::Request::get("https://proxy.example/").body(empty()).unwrap();
            sender.send_request(request).await.unwrap()
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(get("/")).await.unwrap()
        };
        assert_eq!(said(response).await, "hello");
    }
    // In the clear nobody is served.
    let answer = talk(proxy.address(), b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(!answer.contains("hello"), "{answer}");
}

#[tokio::test]
async fn a_client_is_known_by_its_certificate() {
    let plain = Upstream::saying("hello").await;
    let files = Files::new();
    let (certificate, key) = files.issue("proxy.example");
    let mut config = config(&[plain.address]);
    let client_authorities = Some(files.path("ca.pem"));
    config.tls = Some(ListenerTls { certificate, key, client_authorities });
    let known = Known {
        name: "billing".into(),
        certificate: Some("billing.example".into()),
        ..Known::default()
    };
    config.trust = Trust { require_identity: true, identities: vec![known], everybody: false };
    let proxy = Proxy::start(config).unwrap();
    for (name, status) in [("billing.example", 200), ("other.example", 401)] {
        let tcp = TcpStream::connect(proxy.address()).await.unwrap();
        let server = ServerName::try_from("proxy.example").unwrap();
        let tls = files.connector_of(name).connect(server, tcp).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.unwrap();
        tokio::spawn(connection);
        assert_eq!(sender.send_request(get("/")).await.unwrap().status(), status, "{name}");
    }
}

#[tokio::test]
async fn certificates_that_were_renewed_are_used_after_a_reload() {
    let plain = Upstream::saying("hello").await;
    let files = Files::new();
    let (certificate, key) = files.issue("old.example");
    let mut config = config(&[plain.address]);
    config.tls = Some(ListenerTls { certificate, key, client_authorities: None });
    let proxy = Proxy::start(config).unwrap();
    files.issue("new.example");
    let connect = async |name: &'static str| {
        let tcp = TcpStream::connect(proxy.address()).await.unwrap();
        let name = ServerName::try_from(name).unwrap();
        files.connector(&["http/1.1"]).connect(name, tcp).await.is_ok()
    };
    assert!(connect("old.example").await && !connect("new.example").await);
    proxy.reload(proxy.config()).unwrap();
    assert!(connect("new.example").await && !connect("old.example").await);
    std::fs::write(files.path("chain.pem"), "nonsense").unwrap();
    let error = proxy.reload(proxy.config()).unwrap_err().to_string();
    assert!(error.contains("chain.pem"), "{error}");
    assert!(connect("new.example").await, "the old one stays");
}

#[tokio::test]
async fn replicas_are_spoken_to_in_the_version_that_they_agree_on() {
    let files = Files::new();
    for (offered, protocol, version) in [
        (&["h2", "http/1.1"][..], Protocol::Auto, "HTTP/2.0"),
        (&["http/1.1"], Protocol::Auto, "HTTP/1.1"),
        (&[], Protocol::Auto, "HTTP/1.1"),
        (&["h2", "http/1.1"], Protocol::Http1, "HTTP/1.1"),
        (&["h2", "http/1.1"], Protocol::Http2, "HTTP/2.0"),
    ] {
        let address = upstream(&files, "localhost", offered).await;
        let mut config = config(&[address]);
        let upstream = crate::support::upstream(&mut config);
        upstream.replicas = vec![format!("https://localhost:{}", address.port()).parse().unwrap()];
        upstream.tls.authorities = Some(files.path("ca.pem"));
        upstream.protocol = protocol;
        let proxy = Proxy::start(config).unwrap();
        let mut client = Client::connect(proxy.address()).await;
        for _ in 0..3 {
            assert_eq!(said(client.get("/").await).await, version, "{offered:?} {protocol:?}");
        }
    }
}

#[tokio::test]
async fn a_replica_that_is_somebody_else_gets_nothing() {
    let files = Files::new();
    let address = upstream(&files, "other.example", &["http/1.1"]).await;
    let mut config = config(&[address]);
    let upstream = crate::support::upstream(&mut config);
    upstream.replicas = vec![format!("https://localhost:{}", address.port()).parse().unwrap()];
    upstream.tls.authorities = Some(files.path("ca.pem"));
    let proxy = Proxy::start(config.clone()).unwrap();
    let response = Client::connect(proxy.address()).await.get("/").await;
    assert_eq!(response.headers()["proxy-status"], "seawall; error=tls_protocol_error");
    // Unless that is who it should be.
    crate::support::upstream(&mut config).tls.server_name = Some("other.example".into());
    let proxy = Proxy::start(config).unwrap();
    assert_eq!(said(Client::connect(proxy.address()).await.get("/").await).await, "HTTP/1.1");
}
