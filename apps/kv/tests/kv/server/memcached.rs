//! Conversations in memcached's text protocol over TCP.

use std::fmt::Write;

use super::support::{Client, config, expect_nothing_left, parallel, start, until};

#[tokio::test]
async fn pipelined_commands_are_answered_in_order() {
    for config in [config("none"), parallel()] {
        let server = start(config);
        let mut client = Client::connect(&server).await;
        for round in 0..20 {
            let (mut request, mut reply) = (String::new(), String::new());
            for i in 0..100 {
                let value = format!("{round}/{i}");
                let len = value.len();
                write!(request, "set k{i} {i} 0 {len}\r\n{value}\r\nget k{i}\r\n").unwrap();
                write!(reply, "STORED\r\nVALUE k{i} {i} {len}\r\n{value}\r\nEND\r\n").unwrap();
            }
            client.send(request).await;
            client.expect(reply).await;
        }
        assert_eq!(server.stats().requests, 4000);
        assert!(server.stats().writes < 4000, "replies that are ready together share a write");
    }
}

#[tokio::test]
async fn commands_on_one_key_take_effect_in_their_order() {
    let server = start(parallel());
    let mut client = Client::connect(&server).await;
    let (mut request, mut reply) =
        (String::from("set n 0 0 1\r\n0\r\n"), String::from("STORED\r\n"));
    for i in 1..=500 {
        // What is not answered counts as well.
        write!(request, "incr n 1\r\nincr n 1 noreply\r\nget other n\r\n").unwrap();
        let (odd, even) = (2 * i - 1, 2 * i);
        let len = even.to_string().len();
        write!(reply, "{odd}\r\nVALUE n 0 {len}\r\n{even}\r\nEND\r\n").unwrap();
    }
    request.push_str("flush_all noreply\r\nget n\r\n");
    reply.push_str("END\r\n");
    client.send(request).await;
    client.expect(reply).await;
}

#[tokio::test]
async fn large_values_and_lookups_of_many_keys() {
    let server = start(parallel());
    let mut client = Client::connect(&server).await;
    let value = |i: usize| vec![b'a' + i as u8; 1_000_000 - i];
    let mut reply = Vec::new();
    for i in 0..5 {
        client.send(format!("set k{i} 0 0 {}\r\n", value(i).len())).await;
        client.send([&value(i)[..], b"\r\n"].concat()).await;
        let header = format!("VALUE k{i} 0 {}\r\n", value(i).len());
        reply.extend_from_slice(&[header.as_bytes(), &value(i), b"\r\n"].concat());
    }
    client.expect("STORED\r\n".repeat(5)).await;
    client.send("get k0 miss k1 k2 miss k3 k4\r\nversion\r\nget k0\r\n").await;
    client.expect(&[&reply[..], b"END\r\n"].concat()).await;
    let version = client.line().await;
    assert!(version.starts_with("VERSION "), "{version}");
    client.expect(&reply[..1_000_022]).await;
    client.expect("END\r\n").await;
}

#[tokio::test]
async fn a_request_may_come_in_any_pieces() {
    let server = start(config("none"));
    let mut client = Client::connect(&server).await;
    for byte in b"set a 0 0 5\r\nh\r\nlo\r\nget a\r\nbad\r\n" {
        client.send([*byte]).await;
    }
    client.expect("STORED\r\nVALUE a 0 5\r\nh\r\nlo\r\nEND\r\nERROR\r\n").await;
}

#[tokio::test]
async fn bad_lines_are_answered_in_their_place() {
    let server = start(parallel());
    let mut client = Client::connect(&server).await;
    client.send("set a 0 0 1\r\n1\r\nnonsense\r\nget a\r\nset a x 0 1\r\n1\r\n").await;
    client.send("set a 0 0 1\r\n22\r\nincr a 1 noreply\r\nset a 0 0 2000000\r\n").await;
    client.send(vec![b'x'; 2_000_000]).await;
    client.send("\r\nget a\r\n").await;
    client.expect("STORED\r\nERROR\r\nVALUE a 0 1\r\n1\r\nEND\r\n").await;
    client.expect("CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad data chunk\r\n").await;
    client.expect("SERVER_ERROR object too large for cache\r\nEND\r\n").await;
}

#[tokio::test]
async fn noreply_is_silent() {
    let server = start(parallel());
    let mut client = Client::connect(&server).await;
    for i in 0..1000 {
        client
            .send(format!("set k{i} 0 0 1 noreply\r\nx\r\nset k{i} 0 0 1 noreply\r\nlong\r\n"))
            .await;
    }
    client.send("get k0 k999\r\n").await;
    client.expect("VALUE k0 0 1\r\nx\r\nVALUE k999 0 1\r\nx\r\nEND\r\n").await;
    assert_eq!(server.store().stats().curr_items, 1000);
}

#[tokio::test]
async fn quitting_leaves_earlier_replies() {
    let server = start(config("none"));
    let mut client = Client::connect(&server).await;
    client.send("set a 0 0 1\r\n1\r\nget a\r\nquit\r\nget a\r\n").await;
    client.expect_last("STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n").await;
    drop(client);
    expect_nothing_left(&server).await;
}

#[tokio::test]
async fn a_client_that_only_listens_is_answered() {
    let server = start(config("none"));
    let mut client = Client::connect(&server).await;
    client.send("set a 0 0 1\r\n1\r\nget a\r\nget incompl").await;
    client.half_close().await;
    client.expect_last("STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n").await;
    expect_nothing_left(&server).await;
}

#[tokio::test]
async fn many_connections_share_one_store() {
    let server = start(parallel());
    let mut clients = Vec::new();
    for _ in 0..200 {
        clients.push(Client::connect(&server).await);
    }
    clients[0].send("set n 0 0 1\r\n0\r\n").await;
    clients[0].expect("STORED\r\n").await;
    for client in &mut clients {
        client.send("incr n 1 noreply\r\nversion\r\n").await;
    }
    for client in &mut clients {
        client.line().await;
    }
    clients[7].send("get n\r\n").await;
    clients[7].expect("VALUE n 0 3\r\n200\r\nEND\r\n").await;
    until(|| server.stats().sessions == 200).await;
    drop(clients);
    expect_nothing_left(&server).await;
}
