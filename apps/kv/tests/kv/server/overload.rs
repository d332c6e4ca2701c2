//! What memcached clients see of an overloaded server, and what is left of clients that vanish.

use std::fmt::Write;
use std::time::{Duration, Instant};

use seawall_kv::server::KvConfig;
use seawall_kv::store::Entry;
use seawall_kv::{Exptime, UnixTime};
use seawall_rpc::Budget;

use super::support::{Block, Client, config, expect_nothing_left, patient, start, until};

const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);

const OVERLOADED: &str = "SERVER_ERROR overloaded\r\n";

/// How long a command may wait here. Long enough that a busy machine does not refuse by itself.
const BUDGET: Duration = Duration::from_millis(50);

fn hurried() -> KvConfig {
    let mut config = config("none");
    config.server.budget = Budget::Fixed(BUDGET);
    config
}

/// Lets everything that waits wait for too long.
async fn use_up_the_budget() {
    let start = Instant::now();
    until(|| start.elapsed() > BUDGET).await;
}

#[tokio::test]
async fn refusals_take_the_place_of_replies() {
    let server = start(hurried());
    let mut client = Client::connect(&server).await;
    let block = Block::new(&server).await;
    client.send("set a 0 0 1\r\n1\r\nbad\r\nset b 0 0 1 noreply\r\n1\r\nget c\r\n").await;
    // The worker stays blocked until all three commands have waited for too long.
    until(|| server.stats().requests == 4).await;
    use_up_the_budget().await;
    drop(block);
    client.expect(format!("{OVERLOADED}ERROR\r\n{OVERLOADED}")).await;

    client.send("get a b c\r\n").await;
    client.expect("END\r\n").await; // refused commands have had no effect
    assert_eq!(server.stats().refused(), 3);
    drop(client);
    expect_nothing_left(&server).await;
}

#[tokio::test]
async fn order_is_kept_when_only_some_are_refused() {
    let server = start(hurried());
    let mut client = Client::connect(&server).await;
    for i in 0..200 {
        let (key, value) = (format!("k{i}"), format!("value{i}"));
        let (key, value, exptime) = (key.as_bytes(), value.as_bytes(), Exptime::NEVER);
        server.store().set(&patient(), NOW, &Entry { key, value, flags: 0, exptime }).unwrap();
    }
    let mut lookups = String::new();
    (0..200).for_each(|i| write!(lookups, "get k{i}\r\n").unwrap());

    let (mut served, mut refused) = (0, 0);
    while served == 0 || refused == 0 {
        let before = server.stats().requests;
        let block = Block::new(&server).await;
        client.send(&lookups).await;
        // Some have to wait for the worker; others come once it is free again.
        until(|| server.stats().requests > before + 10).await;
        use_up_the_budget().await;
        drop(block);
        for i in 0..200 {
            let line = client.line().await;
            if line == OVERLOADED {
                refused += 1;
                continue;
            }
            let value = format!("value{i}");
            assert_eq!(line, format!("VALUE k{i} 0 {}\r\n", value.len()));
            client.expect(format!("{value}\r\nEND\r\n")).await;
            served += 1;
        }
    }
}

#[tokio::test]
async fn killed_clients_leave_nothing_behind() {
    for algorithm in ["none", "aimd", "breakwater"] {
        let mut config = config(algorithm);
        config.server.limits.write_timeout = Duration::from_millis(50);
        let server = start(config);
        let block = Block::new(&server).await;
        let pipeline =
            "get a\r\n".repeat(30) + "set a 0 0 1 noreply\r\n1\r\nget a\r\nset b 0 0 9\r\n1";
        let (mut reset, mut closed) =
            (Client::connect(&server).await, Client::connect(&server).await);
        for client in [&mut reset, &mut closed] {
            client.send(&pipeline).await;
        }
        until(|| server.stats().requests > 60).await;
        reset.reset();
        drop(closed);
        until(|| server.stats().sessions <= 2).await; // the reset one need not wait for the worker
        drop(block);
        expect_nothing_left(&server).await;
        let mut client = Client::connect(&server).await;
        client.send("get b\r\n").await;
        client.expect("END\r\n").await;
    }
}

#[tokio::test]
async fn waiting_for_the_pipeline_is_not_taken_for_overload() {
    // All at once, to be served one at a time: the last ones wait for longer than any may, but for
    // their own client.
    const COMMANDS: usize = 100_000;
    let mut config = config("none");
    config.server.budget = Budget::Fixed(Duration::from_millis(500));
    config.pipeline = 1;
    let server = start(config);
    let mut client = Client::connect(&server).await;
    client.send("get a\r\n".repeat(COMMANDS)).await;
    client.half_close().await;
    client.expect_last(&"END\r\n".repeat(COMMANDS)).await;
}
