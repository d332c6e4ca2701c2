//! tonic behind TLS: its own, and streams that come with it.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::unfold;
use http::{Request, Response};
use rcgen::{CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use seawall_control::request::Stage;
use seawall_control::trust::{Known, Trust};
use seawall_tower::server::{Config, Layer, Listener, Monitor};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::{
    Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig,
};
use tower::{Service, ServiceExt};

use super::support::patient;

/// A service that does nothing, well.
#[derive(Clone)]
struct Nothing;

impl NamedService for Nothing {
    const NAME: &'static str = "demo.Nothing";
}

impl Service<Request<Body>> for Nothing {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        ready(Ok(Status::ok("").into_http()))
    }
}

/// An authority that the server and its clients believe.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for a DNS name, and a common name.
    fn sign(&self, name: &str, common: &str) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    fn identity(&self, name: &str, common: &str) -> Identity {
        let (certificate, key) = self.sign(name, common);
        Identity::from_pem(certificate.pem(), key.serialize_pem())
    }

    fn certificate(&self) -> Certificate {
        Certificate::from_pem(self.0.pem())
    }

    /// What shakes hands without tonic's help.
    fn acceptor(&self) -> TlsAcceptor {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated();
        let (certificate, key) = self.sign("localhost", "server");
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let builder = ServerConfig::builder().with_client_cert_verifier(verifier.build().unwrap());
        let mut config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

/// How a call ends of somebody who shows this certificate, if any, by its number in gRPC.
async fn call(origin: &str, authority: &Authority, identity: Option<Identity>) -> String {
    let tls = ClientTlsConfig::new().ca_certificate(authority.certificate());
    let tls = tls.domain_name("localhost");
    let tls = match identity {
        Some(identity) => tls.identity(identity),
        None => tls,
    };
    let endpoint = Endpoint::from_shared(origin.to_owned()).unwrap().tls_config(tls).unwrap();
    let channel: Channel = endpoint.connect().await.unwrap();
    let request = Request::post("/demo.Nothing/Do").header("content-type", "application/grpc");
    let response = channel.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    response.headers()["grpc-status"].to_str().unwrap().to_owned()
}

/// A layer that knows two senders by their certificates, and takes nobody else.
fn layer() -> Layer {
    let known = |name: &str| Known {
        name: name.into(),
        certificate: Some(name.into()),
        ..Known::default()
    };
    let identities = vec![known("web.shop"), known("billing")];
    let trust = Trust { identities, require_identity: true, ..Trust::default() };
    Layer::new(Config { trust, ..patient() }).unwrap()
}

/// Calls of those who are known, of one who is not, and of one who shows nothing.
async fn examine(origin: &str, authority: &Authority, monitor: &Monitor) {
    for (name, common) in [("web.shop", "any"), ("any.shop", "billing")] {
        let identity = authority.identity(name, common);
        assert_eq!(call(origin, authority, Some(identity)).await, "0", "{name}, {common}");
    }
    let stranger = authority.identity("other.shop", "other");
    for identity in [Some(stranger), None] {
        assert_eq!(call(origin, authority, identity).await, "16");
    }
    let stats = monitor.stats();
    assert_eq!((stats.total().completions, stats.unidentified), (2, 2));
    // The kernel has said when their bytes came.
    assert_eq!(stats.waits[&Stage::SOCKET].count(), 2, "{:?}", stats.waits);
}

async fn listen() -> (Listener, String) {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let origin = format!("https://{}", listener.local_addr().unwrap());
    (listener, origin)
}

#[tokio::test]
async fn connections_are_known_behind_tonics_own_tls() {
    let ((listener, origin), authority, layer) = (listen().await, Authority::new(), layer());
    let monitor = layer.monitor();
    let tls = ServerTlsConfig::new().identity(authority.identity("localhost", "server"));
    let tls = tls.client_ca_root(authority.certificate()).client_auth_optional(true);
    let server = Server::builder().tls_config(tls).unwrap().layer(layer).add_service(Nothing);
    tokio::spawn(server.serve_with_incoming(listener));
    examine(&origin, &authority, &monitor).await;
}

#[tokio::test]
async fn connections_are_known_behind_tls_that_tonic_has_not_accepted() {
    let ((listener, origin), authority, layer) = (listen().await, Authority::new(), layer());
    let monitor = layer.monitor();
    let streams = unfold((listener, authority.acceptor()), |(listener, acceptor)| async {
        let (io, _) = listener.accept().await;
        Some((acceptor.accept(io).await, (listener, acceptor)))
    });
    let server = Server::builder().layer(layer).add_service(Nothing);
    tokio::spawn(server.serve_with_incoming(Box::pin(streams)));
    examine(&origin, &authority, &monitor).await;
}
