//! The native methods.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use seawall_kv::Exptime;
use seawall_kv::native::{self, Reply};
use seawall_kv::server::KvServer;
use seawall_kv::store::Entry;
use seawall_rpc::{CallError, Client, ClientConfig, Status};
use seawall_sync::MemoryPolicy;

use super::support::{self, config, expect_nothing_left, patient, start, until};

fn client(server: &KvServer) -> Client {
    Client::new([server.address()], ClientConfig::default())
}

async fn call(client: &Client, request: &native::Request) -> Reply {
    let mut payload = BytesMut::new();
    request.encode(&mut payload);
    let request = seawall_rpc::Request::new(request.method(), payload.freeze());
    Reply::decode(client.call(request).await.unwrap().payload).unwrap()
}

fn set(key: &'static str, value: &'static str, exptime: i64) -> native::Request {
    let exptime = Exptime::from_wire(exptime);
    native::Request::Set { key: key.into(), value: value.into(), flags: 7, exptime }
}

fn get(key: &'static str) -> native::Request {
    native::Request::Get { key: key.into() }
}

#[tokio::test]
async fn items_are_stored_found_and_deleted() {
    for algorithm in ["none", "breakwater"] {
        let server = start(config(algorithm));
        let client = client(&server);
        assert_eq!(call(&client, &get("a")).await, Reply::Miss);
        assert_eq!(call(&client, &set("a", "one", 0)).await, Reply::Stored);
        let hit = Reply::Hit { value: "one".into(), flags: 7 };
        assert_eq!(call(&client, &get("a")).await, hit);
        let delete = native::Request::Delete { key: "a".into() };
        assert_eq!(call(&client, &delete).await, Reply::Deleted);
        assert_eq!(call(&client, &delete).await, Reply::NotFound);
        drop(client);
        expect_nothing_left(&server).await;
        assert_eq!(server.stats().completions, 5);
    }
}

#[tokio::test]
async fn nonsense_fails_the_call_and_nothing_else() {
    let server = start(config("none"));
    let client = client(&server);
    let code = async |method: u16, payload: Bytes| match client
        .call(seawall_rpc::Request::new(method, payload))
        .await
    {
        Err(CallError::Failed { code, .. }) => code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(native::GET, Bytes::new()).await, Status::INVALID);
    assert_eq!(code(native::SET, "short".into()).await, Status::INVALID);
    assert_eq!(code(99, "x".into()).await, Status::UNIMPLEMENTED);
    assert_eq!(call(&client, &get("a")).await, Reply::Miss);
}

#[tokio::test]
async fn a_value_that_does_not_fit_fails_the_call() {
    let mut config = config("none");
    config.store.item_bytes_max = 1 << 10;
    let server = start(config);
    let mut payload = BytesMut::new();
    let (key, value) = ("a".into(), Bytes::from(vec![0; 1 << 10]));
    let large = native::Request::Set { key, value, flags: 0, exptime: Exptime::NEVER };
    large.encode(&mut payload);
    let call = client(&server).call(seawall_rpc::Request::new(native::SET, payload.freeze())).await;
    let Err(CallError::Failed { code, message }) = call else { panic!("{call:?}") };
    assert_eq!(code, Status::RESOURCE_EXHAUSTED);
    assert!(message.contains("at most 1024 fit"), "{message}");
    assert_eq!(server.stats().failures, 1);
}

#[tokio::test]
async fn large_values_are_copied_and_sent_as_configured() {
    let value = Bytes::from((0..900_000_u32).map(|n| n as u8).collect::<Vec<_>>());
    for (semaphore, send) in
        [(MemoryPolicy::None, true), (MemoryPolicy::Try, false), (MemoryPolicy::Wait, true)]
    {
        let mut config = config("none");
        (config.large.semaphore, config.large.send) = (semaphore, send);
        let server = start(config);
        let client = client(&server);
        let (key, exptime) = (Bytes::from("large"), Exptime::NEVER);
        let large = native::Request::Set { key, value: value.clone(), flags: 7, exptime };
        assert_eq!(call(&client, &large).await, Reply::Stored);
        assert_eq!(call(&client, &set("small", "one", 0)).await, Reply::Stored);
        let Reply::Hit { value: found, flags: 7 } = call(&client, &get("large")).await else {
            panic!("it is there")
        };
        assert!(found == if send { value.clone() } else { Bytes::new() });
        let small = Reply::Hit { value: "one".into(), flags: 7 };
        assert_eq!(call(&client, &get("small")).await, small);
        assert_eq!(call(&client, &get("none")).await, Reply::Miss);
        let stats = server.store().stats();
        assert_eq!((stats.get_hits, stats.get_misses), (2, 1), "to ask for a length is no lookup");
    }
}

#[tokio::test]
async fn both_protocols_see_the_same_items() {
    let server = start(config("none"));
    let client = client(&server);
    call(&client, &set("a", "native", 0)).await;
    let mut memcached = support::Client::connect(&server).await;
    memcached.send("get a\r\nset b 7 0 4\r\ntext\r\n").await;
    memcached.expect("VALUE a 7 6\r\nnative\r\nEND\r\nSTORED\r\n").await;
    let hit = Reply::Hit { value: "text".into(), flags: 7 };
    assert_eq!(call(&client, &get("b")).await, hit);
}

#[tokio::test]
async fn expired_items_are_swept() {
    let server = start(seawall_kv::server::KvConfig {
        sweep_period: Duration::from_secs(1),
        ..config("none")
    });
    let client = client(&server);
    assert_eq!(call(&client, &set("a", "one", -1)).await, Reply::Stored);
    call(&client, &set("b", "two", 0)).await;
    until(|| server.store().stats().curr_items == 1).await;
    assert!(matches!(call(&client, &get("b")).await, Reply::Hit { .. }));
    assert_eq!(server.store().stats().expired, 1);
}

#[tokio::test]
async fn the_store_may_be_used_beside_the_server() {
    let server = start(config("none"));
    let entry = Entry { key: b"a", value: b"one", flags: 0, exptime: Exptime::NEVER };
    server.store().set(&patient(), seawall_kv::UnixTime::from_secs(1_700_000_000), &entry).unwrap();
    assert!(matches!(call(&client(&server), &get("a")).await, Reply::Hit { .. }));
}
