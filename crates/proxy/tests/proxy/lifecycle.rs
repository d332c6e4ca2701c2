//! From start to stop, and from one configuration to the next.

use std::time::Duration;

use seawall_proxy::{Proxy, StartError};

use crate::support::*;

#[tokio::test]
async fn what_was_begun_is_finished_and_nothing_new_is_taken() {
    let held = Held::start().await;
    let proxy = proxy(&[held.upstream.address]);
    let address = proxy.address();
    let mut idle = Client::connect(address).await;
    let mut client = Client::connect(address).await;
    let begun = tokio::spawn(async move { said(client.get("/").await).await });
    let mut multiplexed = http2(address).await;
    let request = hyper::Request::get("http://a.example/").body(empty()).unwrap();
    let begun_too = tokio::spawn(multiplexed.send_request(request));
    until("they are there", async || held.upstream.requests() == 2).await;
    let stopping = tokio::task::spawn_blocking(move || proxy.shutdown());
    until("nothing new is taken", async || tokio::net::TcpStream::connect(address).await.is_err())
        .await;
    assert!(idle.try_send(get("/")).await.is_err(), "an idle connection is closed");
    held.permits.add_permits(2);
    assert_eq!(begun.await.unwrap(), "served");
    assert_eq!(said(begun_too.await.unwrap().unwrap()).await, "served");
    drop(multiplexed);
    assert_eq!(stopping.await.unwrap(), Ok(()), "all have finished");
}

#[tokio::test]
async fn who_does_not_finish_is_cut_off() {
    let upstream = Upstream::start(|_| std::future::pending()).await;
    let mut config = config(&[upstream.address]);
    config.timeouts.drain = Duration::from_millis(20);
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    let begun = tokio::spawn(async move { client.try_send(get("/")).await.is_err() });
    until("it is there", async || upstream.requests() == 1).await;
    let finished = tokio::task::spawn_blocking(move || proxy.shutdown()).await.unwrap();
    let left = finished.unwrap_err();
    assert_eq!((left.requests, left.connections), (1, 1));
    assert!(begun.await.unwrap());
}

#[tokio::test]
async fn another_configuration_counts_from_the_next_request_on() {
    let (one, two) = (Upstream::saying("one").await, Upstream::saying("two").await);
    let proxy = proxy(&[one.address]);
    let mut client = Client::connect(proxy.address()).await;
    assert_eq!(said(client.get("/").await).await, "one");
    let mut other = proxy.config();
    upstream(&mut other).replicas = vec![two.endpoint()];
    proxy.reload(other).unwrap();
    assert_eq!(said(client.get("/").await).await, "two", "on the same connection");
}

#[tokio::test]
async fn replicas_that_stay_keep_their_connections() {
    let (one, two) = (Upstream::saying("one").await, Upstream::saying("two").await);
    let proxy = proxy(&[one.address]);
    let mut client = Client::connect(proxy.address()).await;
    assert_eq!(said(client.get("/").await).await, "one");
    let mut other = proxy.config();
    upstream(&mut other).replicas.push(two.endpoint());
    upstream(&mut other).balance.choose = seawall_control::replica::Selection::First;
    proxy.reload(other).unwrap();
    for _ in 0..5 {
        assert_eq!(said(client.get("/").await).await, "one");
    }
    assert_eq!(one.connections(), 1);
}

#[tokio::test]
async fn what_cannot_be_used_changes_nothing() {
    let one = Upstream::saying("one").await;
    let proxy = proxy(&[one.address]);
    let mut bad = proxy.config();
    upstream(&mut bad).replicas.clear();
    let error = proxy.reload(bad).unwrap_err().to_string();
    assert!(error.starts_with("upstreams.default.replicas: "), "{error}");
    let mut fixed = proxy.config();
    fixed.listen = "127.0.0.1:1".parse().unwrap();
    let error = proxy.reload(fixed).unwrap_err().to_string();
    assert!(error.starts_with("listen: it cannot change"), "{error}");
    let mut client = Client::connect(proxy.address()).await;
    assert_eq!(said(client.get("/").await).await, "one");
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(&[nobody().await]);
    config.listen = taken.local_addr().unwrap();
    let error = Proxy::start(config).unwrap_err();
    let StartError::Listen { address, .. } = &error else { panic!("{error}") };
    assert_eq!(*address, taken.local_addr().unwrap());
    assert!(error.to_string().contains(&taken.local_addr().unwrap().to_string()));
}

#[tokio::test]
async fn several_threads_serve_several_connections() {
    let upstream = Upstream::saying("hello").await;
    let mut config = config(&[upstream.address]);
    config.threads = 3;
    let proxy = Proxy::start(config).unwrap();
    for _ in 0..9 {
        let mut client = Client::connect(proxy.address()).await;
        assert_eq!(said(client.get("/").await).await, "hello");
        assert_eq!(said(client.get("/").await).await, "hello");
    }
    assert_eq!(upstream.connections(), 3, "each thread has connections of its own");
}
