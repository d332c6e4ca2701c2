//! The server, over real connections.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seawall_columns::file;
use seawall_columns::native::{COMPUTE, Computed, MAX, Request};
use seawall_columns::series::Series;
use seawall_columns::server::{ColumnsConfig, StartError, router, start};
use seawall_columns::smoothing::smooth;
use seawall_columns::store::Store;
use seawall_control::admission;
use seawall_rpc::{CallError, Client, ClientConfig, Request as Call, Server, Status};
use seawall_sync::MemoryPolicy;

const ROWS: usize = 20_003;

fn config(file: &Path, algorithm: &str) -> ColumnsConfig {
    let mut config = ColumnsConfig { file: file.into(), ..ColumnsConfig::default() };
    config.server.listen = ([127, 0, 0, 1], 0).into();
    config.server.slo = Duration::from_secs(5);
    config.server.admission = admission::Config::named(algorithm);
    (config.server.threads.workers, config.server.threads.dispatchers) = (2, 1);
    config
}

fn client(server: &Server) -> Client {
    Client::new([server.address()], ClientConfig::default())
}

async fn compute(client: &Client, method: u16, request: Request) -> Computed {
    let reply = client.call(Call::new(method, request.encode())).await.unwrap();
    Computed::decode(&reply.payload).unwrap()
}

#[tokio::test]
async fn columns_are_computed_with_from_afar_by_each_method() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("series.arrow");
    let series = Series::generate(ROWS, 8);
    file::write(&path, &series).unwrap();
    let most = series.close.iter().copied().fold(f64::MIN, f64::max);
    for (algorithm, semaphore) in
        [("none", MemoryPolicy::None), ("protego", MemoryPolicy::Wait), ("none", MemoryPolicy::Try)]
    {
        let mut config = config(&path, algorithm);
        config.store.semaphore = semaphore;
        let store = Arc::new(Store::new(series.close.clone().into(), &config.store));
        let server = Server::start(config.server, router(&store)).unwrap();
        let client = client(&server);
        for span in [1, 5, 300] {
            let mut expected = Vec::new();
            smooth(&series.close, span, &mut expected);
            let request = Request::Smooth { span };
            for method in [COMPUTE, request.method()] {
                let smoothed = compute(&client, method, request).await;
                assert_eq!(smoothed, Computed { rows: ROWS as u32, value: expected[ROWS - 1] });
                assert_eq!(store.smoothed().values()[..], expected[..]);
            }
            for method in [COMPUTE, MAX] {
                assert_eq!(compute(&client, method, Request::max()).await.value, most);
                let part = compute(&client, method, Request::Max { first: 500, rows: 7 }).await;
                let most = series.close[500..507].iter().copied().fold(f64::MIN, f64::max);
                assert_eq!(part, Computed { rows: 7, value: most });
            }
        }
        assert_eq!((server.stats().completions, server.stats().outstanding), (18, 0));
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
    let path = folder.path().join("series.arrow");
    file::write(&path, &Series::generate(100, 1)).unwrap();
    let server = start(config(&path, "none")).unwrap();
    let client = client(&server);
    for (method, payload, expected) in [
        (COMPUTE, Bytes::new(), "ends too early"),
        (COMPUTE, Bytes::from_static(b"\x09"), "no operation 9"),
        (MAX, Request::Smooth { span: 3 }.encode(), "for another operation"),
        (COMPUTE, Request::Smooth { span: 0 }.encode(), "a span of 0 rows"),
    ] {
        match client.call(Call::new(method, payload)).await {
            Err(CallError::Failed { code: Status::INVALID, message }) => {
                assert!(message.contains(expected), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(compute(&client, MAX, Request::max()).await.rows, 100);
}

#[test]
fn a_file_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.arrow");
    let error = start(config(&path, "none")).unwrap_err();
    assert!(matches!(error, StartError::File(_)), "{error}");
    assert!(error.to_string().contains("seawall-columns build"), "{error}");
}
