//! Mutual TLS: a client certificate proves who a client is.

use std::time::Duration;

use bytes::Bytes;
use seawall_control::request::{Rejected, Stage};
use seawall_rpc::{
    ClientConfig, ClientTls, Known, Request, Router, Server, ServerConfig, Session, SpillTls, Trust,
};

use super::certificates::{Authority, Pair};
use super::tls::{client, failure, listener};
use super::trust::telling;
use crate::support::{balanced, closed, config, until};

fn mutual(server: &Pair, clients: &Authority, trust: Trust) -> ServerConfig {
    ServerConfig { trust, ..listener(server, Some(clients)) }
}

fn known(certificate: &str, tenant: u32) -> Known {
    let (name, certificate) = (certificate.into(), Some(certificate.into()));
    Known { name, certificate, tenant, not_droppable: true, ..Known::default() }
}

/// What the server believes of a client that claims not to be droppable.
async fn shown(server: &Server, config: &ClientConfig) -> Bytes {
    let session = Session::connect(server.address(), config).await.unwrap();
    let mut request = Request::new(9, "");
    (request.droppable, request.priority.0) = (false, 3);
    session.call(request).await.unwrap().payload
}

#[tokio::test]
async fn a_client_certificate_brings_its_privileges() {
    let authority = Authority::new("mutual");
    let pair = authority.sign("server", &["localhost"], None);
    let trust = Trust {
        identities: vec![known("billing.internal", 7), known("batch", 8)],
        ..Trust::default()
    };
    let server = Server::start(mutual(&pair, &authority, trust), telling()).unwrap();
    let start = |told: &Bytes| {
        String::from_utf8_lossy(told).split(' ').take(3).collect::<Vec<_>>().join(" ")
    };
    // By a DNS name, by the common name, and not at all.
    let billing = authority.sign("billing", &["x.internal", "billing.internal"], None);
    let told = shown(&server, &client(&authority, Some(&billing))).await;
    assert_eq!(start(&told), "3 7 false");
    let batch = authority.sign("batch", &["y.internal"], Some("batch"));
    let told = shown(&server, &client(&authority, Some(&batch))).await;
    assert_eq!(start(&told), "3 8 false");
    let stranger = authority.sign("stranger", &["z.internal"], Some("billing"));
    let told = shown(&server, &client(&authority, Some(&stranger))).await;
    assert_eq!(start(&told), "128 0 true");
    assert_eq!(server.stats().privilege_violations, 1);
    balanced(&server).await;
}

#[tokio::test]
async fn clients_without_a_good_certificate_do_not_get_in() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let pair = ours.sign("server", &["localhost"], None);
    let server = Server::start(mutual(&pair, &ours, Trust::default()), telling()).unwrap();
    let error = failure(server.address(), &client(&ours, None)).await;
    assert!(error.contains("CertificateRequired"), "{error}");
    let foreign = theirs.sign("client", &["billing.internal"], None);
    let error = failure(server.address(), &client(&ours, Some(&foreign))).await;
    assert!(error.contains("received fatal alert"), "{error}");
    until(|| closed(&server, "io") == 2).await;
    balanced(&server).await;
}

#[tokio::test]
async fn a_certificate_of_nobody_known_is_not_enough_where_identity_is_required() {
    let authority = Authority::new("required");
    let pair = authority.sign("server", &["localhost"], None);
    let identities = vec![known("billing.internal", 7)];
    let trust = Trust { require_identity: true, identities, ..Trust::default() };
    let server = Server::start(mutual(&pair, &authority, trust), telling()).unwrap();
    let stranger = authority.sign("stranger", &["other.internal"], None);
    let error = failure(server.address(), &client(&authority, Some(&stranger))).await;
    assert!(error.contains("known token or client certificate"), "{error}");
    let billing = authority.sign("billing", &["billing.internal"], None);
    assert!(shown(&server, &client(&authority, Some(&billing))).await.starts_with(b"3 7 false"));
    assert_eq!(balanced(&server).await.closed["unidentified"], 1);
}

#[tokio::test]
async fn a_server_name_that_is_none_is_refused_by_the_client() {
    let authority = Authority::new("no-name");
    let tls = ClientTls {
        authorities: authority.certificate.clone(),
        identity: None,
        server_name: "no name at all".into(),
    };
    let pair = authority.sign("server", &["localhost"], None);
    let server = Server::start(listener(&pair, None), telling()).unwrap();
    let config = ClientConfig { tls: Some(tls), ..ClientConfig::default() };
    let error = failure(server.address(), &config).await;
    assert!(error.contains("\"no name at all\" is no server name"), "{error}");
}

#[tokio::test]
async fn a_server_that_hands_calls_on_is_known_by_its_certificate() {
    let authority = Authority::new("spill");
    let pair = authority.sign("server", &["localhost"], None);
    let trust = Trust { identities: vec![known("first.internal", 9)], ..Trust::default() };
    let replica = Server::start(mutual(&pair, &authority, trust), telling()).unwrap();

    let own = authority.sign("first", &["first.internal"], None);
    let mut config = config("none");
    config.trust.everybody = true;
    config.spill.replicas = vec![replica.address()];
    config.spill.tls = Some(SpillTls {
        authorities: authority.certificate.clone(),
        server_name: "localhost".into(),
        certificate: Some(own.certificate),
        key: Some(own.key),
    });
    let refuse =
        |_, _| async { Err(Rejected::new(Stage(16), Duration::ZERO, Duration::ZERO).into()) };
    let first = Server::start(config, Router::new().method(9, "tell", refuse)).unwrap();
    until(|| first.stats().spill_replicas == 1).await;
    let told = shown(&first, &ClientConfig::default()).await;
    assert!(told.starts_with(b"3 9 false"), "{told:?}");
}
