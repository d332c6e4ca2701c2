//! What clients see of the store's locks.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::BytesMut;
use seawall_control::request::Stage;
use seawall_control::wire::{HEADER_LEN, Hello, Request, RequestOp, Response, Settings};
use seawall_kv::native;
use seawall_kv::server::{KvConfig, KvServer, RING_LOCK};
use seawall_kv::store::{Entry, ITEM_LOCK, LockKind, SLAB_LOCK};
use seawall_kv::{Exptime, UnixTime};
use seawall_rpc::{CallError, ClientConfig};

use super::support::{Client, config, expect_nothing_left, patient, start};

const OVERLOADED: &str = "SERVER_ERROR overloaded\r\n";

/// A server whose one item lock and whose slab lock are refused to whoever finds them taken, and
/// enough items to have them taken for long by somebody who counts them all.
fn touchy() -> KvServer {
    let mut config: KvConfig = config("none");
    (config.store.hash_power, config.store.locks) = (0, LockKind::Try);
    let server = start(config);
    for key in 0..2000_u32 {
        let key = key.to_le_bytes();
        let entry = Entry { key: &key, value: b"1", flags: 0, exptime: Exptime::NEVER };
        // The server's own sweep takes the locks at times.
        while server.store().set(&patient(), UnixTime::from_secs(1_700_000_000), &entry).is_err() {}
    }
    server
}

/// Runs `test` while all items are counted, again and again.
fn while_busy(server: &KvServer, test: impl AsyncFnOnce()) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                server.store().audit();
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(test());
        }));
        is_done.store(true, Relaxed);
        if let Err(panic) = tested {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn native_clients_learn_which_lock_refused_them() {
    let server = touchy();
    while_busy(&server, async || {
        let client = seawall_rpc::Client::new([server.address()], ClientConfig::default());
        let mut payload = BytesMut::new();
        let set = native::Request::Set {
            key: "new".into(),
            value: "1".into(),
            flags: 0,
            exptime: Exptime::NEVER,
        };
        set.encode(&mut payload);
        let payload = payload.freeze();
        let (mut at_items, mut at_slabs) = (false, false);
        while !(at_items && at_slabs) {
            match client.call(seawall_rpc::Request::new(native::SET, payload.clone())).await {
                Ok(_) => {}
                Err(CallError::Rejected(rejected)) => {
                    at_items |= rejected.stage == ITEM_LOCK;
                    at_slabs |= rejected.stage == SLAB_LOCK;
                }
                Err(other) => panic!("{other}"),
            }
        }
        drop(client);
        expect_nothing_left(&server).await;
    });
    let refusals = server.stats().refusals;
    assert!(refusals[&ITEM_LOCK] > 0 && refusals[&SLAB_LOCK] > 0, "{refusals:?}");
    let audit = server.store().audit();
    assert!(audit.chunks_match_items && audit.slabs_balance, "{audit:?}");
}

#[test]
fn memcached_clients_learn_that_they_were_refused() {
    let server = touchy();
    while_busy(&server, async || {
        let mut client = Client::connect(&server).await;
        let (mut stored, mut refused) = (false, false);
        while !(stored && refused) {
            client.send("set new 0 0 1\r\n1\r\n").await;
            match client.line().await.as_str() {
                "STORED\r\n" => stored = true,
                OVERLOADED => refused = true,
                other => panic!("{other}"),
            }
        }
        // In its place among others, and to a command without a reply none.
        client.send("set new 0 0 1 noreply\r\n1\r\nbad\r\n").await;
        client.expect("ERROR\r\n").await;
        drop(client);
        expect_nothing_left(&server).await;
    });
}

#[test]
fn clients_are_told_the_names_of_the_locks() {
    let server = start(config("none"));
    let mut tcp = TcpStream::connect(server.address()).unwrap();
    let body = Hello::default().encode();
    let mut hello = Request::new(RequestOp::Hello);
    hello.body_len = body.len() as u32;
    tcp.write_all(&[&hello.encode()[..], &body].concat()).unwrap();
    let mut head = [0; HEADER_LEN];
    tcp.read_exact(&mut head).unwrap();
    let mut body = vec![0; Response::decode(&head, u32::MAX).unwrap().body_len as usize];
    tcp.read_exact(&mut body).unwrap();
    let named = Settings::decode(&body).unwrap().stages;
    let own = named.into_iter().filter(|(stage, _)| stage.0 >= Stage::FIRST_OWN);
    let expected = [(ITEM_LOCK, "item_lock"), (SLAB_LOCK, "slab_lock"), (RING_LOCK, "ring")]
        .map(|(stage, name)| (stage, name.to_owned()));
    assert_eq!(own.collect::<Vec<_>>(), expected);
}
