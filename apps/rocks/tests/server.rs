//! The server, over real connections.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use seawall_control::admission;
use seawall_rocks::data::{self, Counts};
use seawall_rocks::native::{self, Found, GET, GET_LARGE, GET_SMALL};
use seawall_rocks::server::{RocksConfig, StartError, start};
use seawall_rpc::{CallError, Client, ClientConfig, Request, Server, Status};
use seawall_sync::MemoryPolicy;

fn config(folder: &Path, algorithm: &str) -> RocksConfig {
    let mut config = RocksConfig { folder: folder.into(), ..RocksConfig::default() };
    config.server.listen = ([127, 0, 0, 1], 0).into();
    config.server.slo = Duration::from_secs(5);
    config.server.admission = admission::Config::named(algorithm);
    (config.server.threads.workers, config.server.threads.dispatchers) = (2, 1);
    config
}

fn client(server: &Server) -> Client {
    Client::new([server.address()], ClientConfig::default())
}

async fn get(client: &Client, method: u16, key: Vec<u8>) -> Option<Found> {
    let reply = client.call(Request::new(method, key)).await.unwrap();
    native::decode_reply(reply.payload).unwrap()
}

#[tokio::test]
async fn values_are_read_from_afar_by_each_method() {
    let folder = tempfile::tempdir().unwrap();
    data::build(folder.path(), Counts { small: 50, large: 3 }, |_| {}).unwrap();
    for (algorithm, semaphore) in
        [("none", MemoryPolicy::None), ("protego", MemoryPolicy::Wait), ("none", MemoryPolicy::Try)]
    {
        let mut config = config(folder.path(), algorithm);
        config.store.semaphore = semaphore;
        let server = start(config).unwrap();
        let client = client(&server);
        for (small, large) in [(GET, GET), (GET_SMALL, GET_LARGE)] {
            for number in 0..3 {
                let found = get(&client, large, data::large_key(number)).await.unwrap();
                assert!(found.value == data::large_value(number), "large value {number}");
                let found = get(&client, small, data::small_key(number)).await.unwrap();
                assert_eq!(found.value, data::small_value(number));
            }
        }
        assert_eq!(get(&client, GET, b"nothing".into()).await, None);
        assert_eq!((server.stats().completions, server.stats().outstanding), (13, 0));
        // It waits for its clients to go.
        drop(client);
        while server.stats().sessions > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.shutdown(Duration::from_secs(5));
    }
}

#[tokio::test]
async fn nonsense_fails_the_call_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    data::build(folder.path(), Counts { small: 5, large: 1 }, |_| {}).unwrap();
    let server = start(config(folder.path(), "none")).unwrap();
    let client = client(&server);
    for (method, expected) in [(GET, Status::INVALID), (999, Status::UNIMPLEMENTED)] {
        match client.call(Request::new(method, Bytes::new())).await {
            Err(CallError::Failed { code, .. }) => assert_eq!(code, expected),
            other => panic!("{other:?}"),
        }
    }
    let found = get(&client, GET_SMALL, data::small_key(4)).await.unwrap();
    assert_eq!(found.value, data::small_value(4));
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = start(config(folder.path(), "none")).unwrap_err();
    assert!(matches!(error, StartError::Store(_)), "{error}");
    assert!(error.to_string().contains("seawall-rocks build"), "{error}");
    let mut config = config(folder.path(), "none");
    config.store.large_bytes = 0;
    let error = start(config).unwrap_err().to_string();
    assert!(error.contains("large_bytes"), "{error}");
}
