//! A client of several replicas: which of them are connected, and what calls get meanwhile.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::{ECHO, SLEEP, config, router, until};
use seawall_rpc::{CallError, Client, ClientConfig, Request, Router, Server, Session, Unsent};
use tokio::net::TcpListener;

#[tokio::test]
async fn nobody_at_the_address_is_told_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    drop(listener);
    let error = Session::connect(address, &ClientConfig::default()).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot connect: "), "{error}");
    let client = Client::new([address], ClientConfig::default());
    let error = client.call(Request::new(1, "")).await.unwrap_err();
    assert!(error.to_string().contains("no replica can be reached"), "{error}");
}

/// An address that accepts connections and says nothing.
async fn silent() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test]
async fn many_calls_at_once_open_one_session_with_each_replica() {
    let servers = [(); 2].map(|()| Server::start(config("none"), router()).unwrap());
    let addresses = servers.each_ref().map(Server::address);
    // One of them is named twice, and so is two replicas.
    let client = Client::new([addresses[0], addresses[1], addresses[1]], ClientConfig::default());
    let call = |_| {
        let client = client.clone();
        tokio::spawn(async move { client.call(Request::new(ECHO, "")).await })
    };
    let calls: Vec<_> = (0..100).map(call).collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    until(|| servers[0].stats().accepted == 1 && servers[1].stats().accepted == 2).await;
}

#[tokio::test]
async fn a_replica_that_does_not_answer_delays_nobody() {
    let (_listener, silent) = silent().await;
    let server = Server::start(config("none"), router()).unwrap();
    let client = Client::new([silent, server.address()], ClientConfig::default());
    let began = Instant::now();
    client.call(Request::new(ECHO, "")).await.unwrap();
    assert!(began.elapsed() < ClientConfig::default().connect_timeout / 2);
}

#[tokio::test]
async fn a_call_waits_for_a_connection_no_longer_than_its_deadline() {
    let (_listener, silent) = silent().await;
    let client = Client::new([silent], ClientConfig::default());
    let began = Instant::now();
    let call = Request::new(ECHO, "").with_deadline(Duration::from_millis(20));
    let error = client.call(call).await.unwrap_err();
    assert!(matches!(error, CallError::NotSent(Unsent::Disconnected(_))), "{error}");
    assert!(began.elapsed() < ClientConfig::default().connect_timeout / 2);
}

#[tokio::test]
async fn a_deadline_tells_what_was_sent_from_what_was_not() {
    let server = Server::start(crate::support::one_credit(), router()).unwrap();
    let mut config = ClientConfig::default();
    config.admission.client.expiry = Some(Duration::from_secs(3_600));
    let client = Client::new([server.address()], config);
    client.connect().await.unwrap();
    let sleep = || Request::new(SLEEP, "").with_deadline(Duration::from_millis(50));
    let (sent, waits) = tokio::join!(client.call(sleep()), client.call(sleep()));
    assert_eq!(sent.unwrap_err(), CallError::DeadlineExceeded);
    assert!(matches!(waits.unwrap_err(), CallError::NotSent(Unsent::Dropped(_))));
}

#[tokio::test]
async fn what_a_lost_replica_was_not_sent_goes_to_another() {
    let lost = Server::start(crate::support::one_credit(), router()).unwrap();
    let other = Router::new().method(SLEEP, "answer", |_, payload| async { Ok(payload) });
    let other = Server::start(config("none"), other).unwrap();
    let mut config = ClientConfig::default();
    config.admission.client.expiry = Some(Duration::from_secs(3_600));
    let client = Client::new([lost.address(), other.address()], config);
    // Until it uses both.
    while lost.stats().requests == 0 || other.stats().requests == 0 {
        _ = client.call(Request::new(ECHO, "")).await;
    }
    let before = lost.stats().requests;
    let call = |_| {
        let client = client.clone();
        tokio::spawn(async move { client.call(Request::new(SLEEP, "")).await })
    };
    let calls: Vec<_> = (0..50).map(call).collect();
    until(|| lost.stats().requests > before && other.stats().completions > 10).await;
    let sent = lost.stats().requests - before;
    drop(lost);
    let mut failed = 0;
    for call in calls {
        if let Err(error) = call.await.unwrap() {
            assert!(matches!(error, CallError::ConnectionLost(_)), "{error}");
            failed += 1;
        }
    }
    assert!((1..=sent).contains(&failed), "{failed} failed, {sent} were sent");
}

#[tokio::test]
async fn a_replica_that_is_down_is_not_asked_for_every_call() {
    let (listener, address) = silent().await;
    let client = Client::new([address], ClientConfig::default());
    let (mut attempts, mut failed) = (0, 0);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(120) {
        tokio::select! {
            _ = client.call(Request::new(ECHO, "")) => failed += 1,
            // Which closes it at once.
            _ = listener.accept() => attempts += 1,
        }
    }
    assert!((1..=3).contains(&attempts), "{attempts} attempts");
    assert!(failed > 10 * attempts, "calls in between are told at once: {failed}");
}

#[tokio::test]
async fn an_attempt_that_ends_with_its_runtime_is_made_again() {
    let server = Server::start(config("none"), router()).unwrap();
    let (listener, address) = silent().await;
    let client = Client::new([address, server.address()], ClientConfig::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let first = client.clone();
    runtime.spawn(async move { first.call(Request::new(ECHO, "")).await });
    listener.accept().await.unwrap();
    runtime.shutdown_background();
    // The attempt under way is gone with it, and calls begin another.
    let again = async {
        loop {
            tokio::select! {
                _ = client.call(Request::new(ECHO, "")) => {}
                accepted = listener.accept() => return accepted,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), again).await.expect("it goes on").unwrap();
}
