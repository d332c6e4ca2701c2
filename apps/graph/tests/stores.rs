//! Real stores behind services.

use std::process::Command;

use bytes::Bytes;
use seawall_abi::page::Reader;
use seawall_graph::store::{StoreClient, StoreProcess};
use seawall_graph::{JOB, Service, ServiceConfig};
use seawall_measure::Graph;
use seawall_measure::graph::Store;
use seawall_rpc::{Client, ClientConfig, Request};

#[tokio::test]
#[ignore = "needs memcached and redis-server: `make test` installs them"]
async fn stores_answer_in_their_own_words() {
    for (store, values) in [(Store::Memcached, 1), (Store::Redis, 10)] {
        let process = StoreProcess::start(store).unwrap();
        let client = StoreClient::new(store, process.address());
        assert_eq!(client.get().await.unwrap(), 0, "nothing is in it yet");
        client.fill().await.unwrap();
        assert_eq!(client.get().await.unwrap(), values);
        client.fill().await.unwrap();
        assert_eq!(client.get().await.unwrap(), values, "filling twice changes nothing");
        drop(process);
        assert!(client.get().await.is_err());
    }
}

#[tokio::test]
#[ignore = "needs memcached and redis-server: `make test` installs them"]
async fn a_service_stands_in_front_of_its_store_and_takes_it_along() {
    let graph = Graph::named("read-user-timeline").unwrap().stretched(0.01);
    let pages = tempfile::tempdir().unwrap();
    for name in ["user-timeline-redis", "post-storage-memcached"] {
        let mut config = ServiceConfig::new(graph.clone(), name);
        (config.real_store, config.pages) = (true, Some(pages.path().into()));
        let service = Service::start(&config).unwrap();
        let client = Client::new([service.address()], ClientConfig::default());
        for _ in 0..5 {
            client.call(Request::new(JOB, Bytes::new())).await.unwrap();
        }
        let counters = Reader::open(service.page().unwrap()).unwrap().counters().unwrap();
        assert_eq!(counters.requests, 5);
        let stores = children();
        assert_eq!(stores.len(), 1, "{stores:?}");
        drop(service);
        assert!(children().is_empty(), "{:?}", children());
    }
}

/// Stores that this thread has started.
fn children() -> Vec<String> {
    let found = Command::new("pgrep").args(["-P", &std::process::id().to_string(), "-l"]).output();
    let found = String::from_utf8(found.unwrap().stdout).unwrap();
    let is_store = |line: &&str| line.contains("memcached") || line.contains("redis");
    found.lines().filter(is_store).map(str::to_owned).collect()
}
