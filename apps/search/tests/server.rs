//! The server, over real connections.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use seawall_control::admission;
use seawall_rpc::{CallError, Client, ClientConfig, Request, Status};
use seawall_search::engine::Found;
use seawall_search::index::{self, Layout};
use seawall_search::native;
use seawall_search::server::{SearchConfig, SearchServer, StartError};

const LINES: &str = include_str!("data/lines.txt");

fn config(folder: &Path, algorithm: &str) -> SearchConfig {
    let mut config = SearchConfig { folder: folder.into(), ..SearchConfig::default() };
    config.server.listen = ([127, 0, 0, 1], 0).into();
    config.server.slo = Duration::from_secs(5);
    config.server.admission = admission::Config::named(algorithm);
    (config.server.threads.workers, config.server.threads.dispatchers) = (2, 1);
    config
}

fn start(folder: &Path, algorithm: &str) -> SearchServer {
    let lines: Vec<&str> = LINES.lines().collect();
    index::build(folder, &lines, &Layout::default(), |_| {}).unwrap();
    SearchServer::start(config(folder, algorithm)).unwrap()
}

fn client(server: &SearchServer) -> Client {
    Client::new([server.address()], ClientConfig::default())
}

async fn search(client: &Client, words: &str, limit: u16) -> Found {
    let request = Request::new(native::SEARCH, native::encode_request(words, limit));
    native::decode_reply(client.call(request).await.unwrap().payload).unwrap()
}

#[tokio::test]
async fn documents_are_found_from_afar() {
    for algorithm in ["none", "breakwater"] {
        let folder = tempfile::tempdir().unwrap();
        let server = start(folder.path(), algorithm);
        let client = client(&server);
        let found = search(&client, "mason lighthouse", 3).await;
        assert_eq!(found.total, 3);
        assert_eq!(&*found.hits[0].text, "The mason and the keeper drank tea in the lighthouse.");
        assert_eq!(search(&client, "dragon", 3).await, Found::default());
        let calls = (0..200).map(|_| search(&client, "boats wait lock", 10));
        let together: Vec<Found> = futures_of(calls).await;
        assert!(together.iter().all(|found| *found == together[0]));
        assert_eq!((server.stats().completions, server.stats().outstanding), (202, 0));
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
    let server = start(folder.path(), "none");
    let client = client(&server);
    let failure =
        async |payload: Bytes| match client.call(Request::new(native::SEARCH, payload)).await {
            Err(CallError::Failed { code, message }) => (code, message),
            other => panic!("{other:?}"),
        };
    for (payload, expected) in [
        (Bytes::new(), "ends too early"),
        (native::encode_request("of the", 1), "no word to search for"),
        (native::encode_request("sea", 0), "0 hits cannot be asked for"),
        (Bytes::from_static(b"\x01\0\xff"), "not UTF-8"),
    ] {
        let (code, message) = failure(payload).await;
        assert_eq!(code, Status::INVALID);
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(search(&client, "tea", 9).await.total, 3);
}

#[test]
fn a_folder_without_an_index_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = SearchServer::start(config(folder.path(), "none")).unwrap_err();
    assert!(matches!(error, StartError::Index(_)), "{error}");
    assert!(error.to_string().contains("seawall-search build"), "{error}");
}

/// Makes all calls at once.
async fn futures_of<F: Future>(calls: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut calls: Vec<_> = calls.map(|call| (Box::pin(call), None)).collect();
    std::future::poll_fn(|cx| {
        for (call, done) in calls.iter_mut().filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(found) = call.as_mut().poll(cx) {
                *done = Some(found);
            }
        }
        match calls.iter().all(|(_, done)| done.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    calls.into_iter().filter_map(|(_, done)| done).collect()
}
