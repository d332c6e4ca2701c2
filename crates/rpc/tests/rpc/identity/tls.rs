//! TLS: calls over it, authorities that are not known, and listeners and clients that do not fit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use seawall_control::wire::{HEADER_LEN, Hello, RequestOp, Response};
use seawall_rpc::{
    ClientConfig, ClientTls, ConnectError, Request, Server, ServerConfig, Session, TlsConfig,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::certificates::{Authority, Pair};
use crate::support::raw::{Raw, call, hello_frame, short};
use crate::support::{ECHO, GROW, balanced, closed, config, router, until};

/// A server with this certificate.
pub(crate) fn listener(pair: &Pair, client_authorities: Option<&Authority>) -> ServerConfig {
    let tls = TlsConfig {
        certificate: pair.certificate.clone(),
        key: pair.key.clone(),
        client_authorities: client_authorities.map(|authority| authority.certificate.clone()),
    };
    ServerConfig { tls: Some(tls), ..config("breakwater") }
}

/// A client that knows this authority, and shows a certificate if it has one.
pub(crate) fn client(authority: &Authority, identity: Option<&Pair>) -> ClientConfig {
    let tls = ClientTls {
        authorities: authority.certificate.clone(),
        identity: identity.map(|pair| (pair.certificate.clone(), pair.key.clone())),
        server_name: "localhost".into(),
    };
    ClientConfig { tls: Some(tls), ..ClientConfig::default() }
}

/// Why connecting fails.
pub(crate) async fn failure(address: SocketAddr, config: &ClientConfig) -> String {
    match Session::connect(address, config).await {
        Ok(session) => panic!("connected: {session:?}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn calls_pass_over_tls() {
    let authority = Authority::new("plain-tls");
    let pair = authority.sign("server", &["localhost"], None);
    let server = Server::start(listener(&pair, None), router()).unwrap();
    let session = Session::connect(server.address(), &client(&authority, None)).await.unwrap();
    for payload in [Bytes::new(), Bytes::from("small"), Bytes::from(vec![7; 1 << 20])] {
        let reply = session.call(Request::new(ECHO, payload.clone())).await.unwrap();
        assert_eq!(reply.payload, payload);
    }
    drop(session);
    let stats = balanced(&server).await;
    assert_eq!((stats.completions, stats.closed["left"]), (3, 1));
}

/// A client with a receive buffer that is soon full, which has said hello and read the settings.
async fn narrow(server: &Server, authority: &Authority) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&authority.certificate).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder().with_root_certificates(roots);
    let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let tcp = Raw::connect_narrow(server.address()).await.tcp;
    let mut tls = connector.connect("localhost".try_into().unwrap(), tcp).await.unwrap();
    tls.write_all(&hello_frame(&Hello::default())).await.unwrap();
    read_frame(&mut tls).await;
    tls
}

/// Reads one frame, and gives the length of its body.
async fn read_frame(tls: &mut TlsStream<TcpStream>) -> usize {
    let reading = async {
        let mut header = [0; HEADER_LEN];
        tls.read_exact(&mut header).await.unwrap();
        let mut body = vec![0; Response::decode(&header, u32::MAX).unwrap().body_len as usize];
        tls.read_exact(&mut body).await.unwrap();
        body.len()
    };
    tokio::time::timeout(Duration::from_secs(30), reading).await.expect("the frame gets stuck")
}

/// Waits until the server has written as much as it can.
async fn stalled(server: &Server) -> u64 {
    let (mut last, mut same) = (0, 0);
    until(|| {
        let sent = server.stats().bytes_sent;
        same = if sent == last { same + 1 } else { 0 };
        last = sent;
        same > 50
    })
    .await;
    last
}

#[tokio::test]
async fn what_waits_inside_of_tls_still_leaves() {
    let authority = Authority::new("large-tls");
    let pair = authority.sign("server", &["localhost"], None);
    let mut config = listener(&pair, None);
    config.limits.unread_bytes = 64 << 20;
    let server = Server::start(config, router()).unwrap();
    let grow = |len: u32| call(1, GROW, &len.to_le_bytes());

    // How much the kernel and TLS take for a client that does not read.
    let mut client = narrow(&server, &authority).await;
    let before = server.stats().bytes_sent;
    client.write_all(&grow(32 << 20)).await.unwrap();
    until(|| server.stats().completions == 1).await;
    let taken = stalled(&server).await - before;
    assert!(taken < 32 << 20);
    drop(client);
    // A little less than that, so that the last bytes are in TLS and nowhere else.
    for less in [4, 20, 36, 52, 100] {
        let mut client = narrow(&server, &authority).await;
        let len = (taken - less * 1024) as u32;
        client.write_all(&grow(len)).await.unwrap();
        stalled(&server).await;
        assert_eq!(read_frame(&mut client).await, len as usize);
    }
}

#[tokio::test]
async fn a_goodbye_over_tls_ends_in_order() {
    let authority = Authority::new("goodbye-tls");
    let pair = authority.sign("server", &["localhost"], None);
    let server = Server::start(listener(&pair, None), router()).unwrap();
    let mut client = narrow(&server, &authority).await;
    let frames = [call(1, ECHO, b"last words"), short(RequestOp::Goodbye, 0)];
    client.write_all(&frames.concat()).await.unwrap();
    assert_eq!(read_frame(&mut client).await, 10);
    // An error here would say that the end may have been cut off.
    assert_eq!(client.read(&mut [0; 10]).await.unwrap(), 0);
    drop(client);
    assert_eq!(balanced(&server).await.closed["left"], 1);
}

#[tokio::test]
async fn a_server_whose_authority_is_not_known_is_refused() {
    let (known, unknown) = (Authority::new("known-server"), Authority::new("unknown-server"));
    let pair = unknown.sign("server", &["localhost"], None);
    let server = Server::start(listener(&pair, None), router()).unwrap();
    let error = failure(server.address(), &client(&known, None)).await;
    assert!(error.contains("invalid peer certificate: UnknownIssuer"), "{error}");
    until(|| closed(&server, "io") == 1).await;
    balanced(&server).await;
}

#[tokio::test]
async fn a_server_of_another_name_is_refused() {
    let authority = Authority::new("other-name");
    let pair = authority.sign("server", &["elsewhere.example"], None);
    let server = Server::start(listener(&pair, None), router()).unwrap();
    let error = failure(server.address(), &client(&authority, None)).await;
    assert!(error.contains("not valid for name"), "{error}");
    balanced(&server).await;
}

#[tokio::test]
async fn a_plain_client_at_a_tls_listener_is_told_in_no_time() {
    let authority = Authority::new("plain-client");
    let pair = authority.sign("server", &["localhost"], None);
    let server = Server::start(listener(&pair, None), router()).unwrap();
    let error = Session::connect(server.address(), &ClientConfig::default()).await.unwrap_err();
    // What comes is a TLS alert.
    assert!(matches!(error, ConnectError::Protocol(_)), "{error}");
    assert!(error.to_string().contains("does not speak Seawall's protocol"), "{error}");
    let mut raw = Raw::connect(server.address()).await;
    raw.send(&hello_frame(&Hello::default())).await;
    let mut alert = Vec::new();
    _ = raw.tcp.read_to_end(&mut alert).await;
    assert_eq!(alert.first(), Some(&21), "an alert record: {alert:?}");
    until(|| closed(&server, "io") == 2).await;
    balanced(&server).await;
}

#[tokio::test]
async fn a_tls_client_at_a_plain_listener_is_told_in_no_time() {
    let authority = Authority::new("tls-client");
    let server = Server::start(config("breakwater"), router()).unwrap();
    let error = failure(server.address(), &client(&authority, None)).await;
    assert!(error.contains("corrupt message"), "{error}");
    let stats = balanced(&server).await;
    assert_eq!((stats.closed["protocol"], stats.protocol_errors["bad_magic"]), (1, 1));
}

#[tokio::test]
async fn a_handshake_that_never_comes_ends_in_time() {
    let authority = Authority::new("no-handshake");
    let pair = authority.sign("server", &["localhost"], None);
    let mut config = listener(&pair, None);
    config.limits.hello_timeout = Duration::from_millis(200);
    let server = Server::start(config, router()).unwrap();
    let mut silent = Raw::connect(server.address()).await;
    assert_eq!(silent.tcp.read(&mut [0; 10]).await.unwrap(), 0);
    assert_eq!(balanced(&server).await.closed["hello_timeout"], 1);
}

#[tokio::test]
async fn handshakes_count_as_sessions() {
    let authority = Authority::new("many-handshakes");
    let pair = authority.sign("server", &["localhost"], None);
    let mut config = listener(&pair, None);
    config.limits.sessions = 2;
    let server = Server::start(config, router()).unwrap();
    let silent = [Raw::connect(server.address()).await, Raw::connect(server.address()).await];
    until(|| server.stats().sessions == 2).await;
    let mut third = Raw::connect(server.address()).await;
    assert_eq!(third.tcp.read(&mut [0; 10]).await.unwrap(), 0);
    until(|| closed(&server, "full") == 1).await;
    drop(silent);
    until(|| server.stats().sessions == 0).await;
    Session::connect(server.address(), &client(&authority, None)).await.unwrap();
    balanced(&server).await;
}
