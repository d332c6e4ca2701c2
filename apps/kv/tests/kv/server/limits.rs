//! Bounds on what memcached clients can make the server hold, and the end of the server.

use std::time::Duration;

use super::support::{Block, Client, config, expect_nothing_left, parallel, start, until};

const INCOMPLETE: &str = "CLIENT_ERROR command not completed in time\r\n";

/// Stores a value of a megabyte.
async fn store_large(client: &mut Client) -> String {
    let value = "x".repeat(1_000_000);
    client.send(format!("set large 0 0 1000000\r\n{value}\r\n")).await;
    client.expect("STORED\r\n").await;
    format!("VALUE large 0 1000000\r\n{value}\r\nEND\r\n")
}

#[tokio::test]
async fn a_client_that_reads_late_gets_everything() {
    let server = start(config("none"));
    let mut client = Client::connect(&server).await;
    let reply = store_large(&mut client).await;
    client.send("get large\r\n".repeat(100)).await;
    until(|| server.stats().requests > 60).await;
    // Once it reads, it gets everything.
    for _ in 0..100 {
        client.expect(&reply).await;
    }
    client.send("get a\r\n").await;
    client.expect("END\r\n").await;
    assert_eq!(server.stats().requests, 102);
}

#[tokio::test]
async fn a_client_that_never_reads_is_disconnected() {
    let mut config = parallel();
    config.server.limits.write_timeout = Duration::from_millis(20);
    let server = start(config);
    let mut client = Client::connect(&server).await;
    store_large(&mut client).await;
    client.send("get large\r\n".repeat(1000)).await;
    until(|| server.stats().sessions == 0).await;
    expect_nothing_left(&server).await;
    assert!(server.stats().requests < 1000, "it is not read from either");
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_is_disconnected() {
    let mut config = config("none");
    config.server.limits.unread_bytes = 4096;
    // Long enough that only the bytes above the limit can be what ends it.
    config.server.limits.write_timeout = Duration::from_secs(600);
    let server = start(config);
    store_large(&mut Client::connect(&server).await).await;
    let mut client = Client::connect_narrow(&server).await;
    client.send("get large large large large\r\n").await;
    until(|| server.stats().completions == 2 && server.stats().sessions == 1).await;
    while server.stats().sessions > 0 {
        client.read(1024).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    expect_nothing_left(&server).await;
}

#[tokio::test]
async fn a_command_must_be_completed_in_time() {
    let mut config = config("none");
    config.server.limits.frame_timeout = Duration::from_millis(10);
    let server = start(config);
    for partial in ["set b 0 0 10\r\nabc", "set b 0 0 10\r\n", "get ", "set b 0 0 9000000\r\nabc"] {
        let mut client = Client::connect(&server).await;
        client.send(format!("get a\r\n{partial}")).await;
        client.expect("END\r\n").await;
        if partial.contains("9000000") {
            client.expect("SERVER_ERROR object too large for cache\r\n").await;
        }
        client.expect_last(INCOMPLETE).await;
    }
    // A connection may be idle for as long as it likes, and blocked by others.
    let mut idle = Client::connect(&server).await;
    idle.send("get a\r\n").await;
    idle.expect("END\r\n").await;
    let mut partial = Client::connect(&server).await;
    partial.send("get a").await;
    partial.expect_last(INCOMPLETE).await;
    idle.send("get a\r\n").await;
    idle.expect("END\r\n").await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_told_so() {
    let mut config = config("none");
    config.server.limits.sessions = 2;
    let server = start(config);
    let mut clients = [Client::connect(&server).await, Client::connect(&server).await];
    for client in &mut clients {
        client.send("get a\r\n").await;
        client.expect("END\r\n").await;
    }
    let mut third = Client::connect(&server).await;
    third.expect_last("SERVER_ERROR too many connections\r\n").await;
    assert_eq!(server.stats().closed["full"], 1);
    let [first, _second] = clients;
    drop(first);
    until(|| server.stats().sessions == 1).await;
    let mut third = Client::connect(&server).await;
    third.send("get a\r\n").await;
    third.expect("END\r\n").await;
}

#[tokio::test]
async fn shutdown_answers_what_was_accepted() {
    let server = start(config("none"));
    let address = server.memcached_address().unwrap();
    let (mut busy, mut idle) = (Client::connect(&server).await, Client::connect(&server).await);
    idle.send("get a\r\n").await;
    idle.expect("END\r\n").await;
    let block = Block::new(&server).await;
    for i in 0..10 {
        busy.send(format!("set k{i} 0 0 1\r\n1\r\n")).await;
    }
    until(|| server.stats().requests == 12).await;
    let stopping = tokio::task::spawn_blocking(|| server.shutdown(Duration::from_secs(20)));
    idle.expect_last("").await; // so the server takes nothing more
    busy.send("get k0\r\n").await;
    drop(block);
    busy.expect_last(&"STORED\r\n".repeat(10)).await;
    drop(busy);
    stopping.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let server = start(config("none"));
    let mut other = config("none");
    other.memcached = server.memcached_address();
    let error = seawall_kv::server::KvServer::start(other).unwrap_err().to_string();
    let address = server.memcached_address().unwrap().to_string();
    assert!(error.contains(&address), "{error}");
}

#[tokio::test]
async fn nothing_listens_for_memcached_unless_told() {
    let mut config = config("none");
    config.memcached = None;
    assert_eq!(start(config).memcached_address(), None);
}
