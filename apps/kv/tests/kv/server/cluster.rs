//! Nodes of a cluster: whose keys they have, and what requests see while these are balanced.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use seawall_kv::native;
use seawall_kv::ring::Ring;
use seawall_kv::server::{Cluster, KvConfig, KvServer, RING_LOCK, Rebalance};
use seawall_rpc::{CallError, CallResult, Client, ClientConfig, Request};

use super::support::{config, start};

fn node(cluster: Cluster) -> KvServer {
    start(KvConfig { cluster, memcached: None, ..config("none") })
}

fn get(key: &[u8]) -> Request {
    let request = native::Request::Get { key: Bytes::copy_from_slice(key) };
    let mut payload = BytesMut::new();
    request.encode(&mut payload);
    Request::new(native::GET, payload.freeze())
}

fn client(server: &KvServer) -> Client {
    Client::new([server.address()], ClientConfig::default())
}

#[tokio::test]
async fn a_node_answers_for_its_own_keys() {
    let cluster = Cluster { nodes: 3, node: 1, replicas: 1, ..Cluster::default() };
    let ring = Ring::new(3, cluster.tokens, 1);
    let server = node(cluster);
    let client = client(&server);
    let (mut own, mut foreign) = (0, 0);
    for key in 0..64_u32 {
        let key = key.to_le_bytes();
        let answered: CallResult = client.call(get(&key)).await;
        if ring.has(1, &key) {
            own += 1;
            answered.expect("it has this key");
        } else {
            foreign += 1;
            let error = answered.unwrap_err().to_string();
            assert!(error.contains("this node does not have the key"), "{error}");
        }
    }
    assert!(own > 0 && foreign > 0, "{own} are its own, {foreign} are not");
}

#[tokio::test]
async fn who_cannot_wait_for_the_ring_is_refused_once_it_is_known_how_long_that_takes() {
    // Long enough to be met: balancing takes more than the pauses between.
    let pause = "const:1ms".parse().unwrap();
    let rebalance = Some(Rebalance { pause, tokens: [600, 600], nice: false });
    let server = node(Cluster { nodes: 3, rebalance, ..Cluster::default() });
    let client = client(&server);
    let begun = Instant::now();
    loop {
        let hasty = Request { budget: Some(Duration::from_micros(500)), ..get(b"key") };
        match client.call(hasty).await {
            Err(CallError::Rejected(rejected)) if rejected.stage == RING_LOCK => {
                assert!(rejected.predicted_delay > Duration::from_micros(100), "{rejected}");
                break;
            }
            // It may also be served, or late on its way there.
            Ok(_) | Err(CallError::Rejected(_)) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody met the rebalancing");
    }
    for _ in 0..20 {
        client.call(get(b"key")).await.expect("who can wait is served");
    }
}
