//! What is counted.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use metrics::Label;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use seawall_control::replica::Selection;
use seawall_measure::names;
use seawall_tower::client::{Config, Layer, Replay, Replicas};
use tokio::runtime::Builder;
use tower_layer::Layer as _;

use super::support::{get, mock, response, send, settle};

/// Runs `calls`, and gives all series that are not zero then, by name and labels.
fn counted<F: Future<Output = ()>>(calls: impl FnOnce(Snapshotter) -> F) -> BTreeMap<String, f64> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(calls(recorder.snapshotter()));
    });
    look(&snapshotter)
}

fn look(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    let series = snapshotter.snapshot().into_vec().into_iter().filter_map(|(key, _, _, value)| {
        let (_, key) = key.into_parts();
        let metric = names::ALL.iter().find(|metric| metric.name == key.name());
        let metric = metric.unwrap_or_else(|| panic!("{} has no name", key.name()));
        let labels: Vec<_> = key.labels().map(Label::key).collect();
        assert_eq!(labels, metric.labels, "{}", metric.name);
        assert_eq!(key.labels().next().unwrap().value(), "orders");
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(_) => panic!("{} is a histogram", metric.name),
        };
        let rest: Vec<_> = key.labels().skip(1).map(Label::value).collect();
        let name = metric.name.trim_start_matches("seawall_client_");
        (value != 0.0).then(|| (format!("{name} {}", rest.join(" ")).trim().to_owned(), value))
    });
    series.collect()
}

fn series<const N: usize>(series: [(&str, f64); N]) -> BTreeMap<String, f64> {
    series.map(|(name, value)| (name.to_owned(), value)).into()
}

#[test]
fn each_attempt_ends_once_and_gauges_come_back_to_zero() {
    let counted = counted(|_| async {
        let layer = Layer::new(Config::named("orders")).unwrap();
        let (mock, mut server) = mock();
        let client = layer.layer(mock);
        for told in ["window=1, seq=1", ""] {
            let call = send(&client, get());
            server.next().await.serve(told);
            call.await.unwrap().unwrap();
        }
        let call = send(&client, get());
        server.next().await.refuse("");
        call.await.unwrap().unwrap();
        let cancelled = send(&client, get());
        let at_server = server.next().await;
        let expired = send(&client, get());
        expired.await.unwrap().unwrap_err();
        cancelled.abort();
        settle().await;
        assert!(at_server.is_given_up());
    });
    let expected = series([
        ("attempts_total served", 2.0),
        ("attempts_total refused", 1.0),
        ("attempts_total cancelled", 1.0),
        ("refusals_total run_queue", 1.0),
        ("drops_total expired", 1.0),
    ]);
    assert_eq!(counted, expected);
}

#[test]
fn gauges_show_what_is_under_way_in_all_sessions() {
    let after = counted(|snapshotter| async move {
        let client = Replicas::new(Config::named("orders")).unwrap();
        let servers: Vec<_> = ["a", "b"]
            .map(|name| {
                let (mock, server) = mock::<Replay<Empty<Bytes>>>();
                client.insert(name, mock);
                server
            })
            .into();
        let calls: Vec<_> = (0..6).map(|_| send(&client, Request::new(Empty::new()))).collect();
        settle().await;
        // One at each registers its session, and nobody knows yet where there is room.
        let expected = series([("outstanding_requests", 2.0), ("pending_requests", 4.0)]);
        assert_eq!(look(&snapshotter), expected);
        drop((servers, calls));
    });
    // A look takes out what it sees, so that this is all that came back since.
    assert_eq!((after["outstanding_requests"], after["pending_requests"]), (-2.0, -4.0));
}

#[test]
fn retries_are_told_apart() {
    let counted = counted(|_| async {
        let mut config = Config::named("orders");
        config.retry.budget = 0.0;
        config.retry.burst = 1;
        config.admission.client.replicas.choose = Selection::First;
        let client = Replicas::new(config).unwrap();
        let (mock_one, mut one) = mock::<Replay<Empty<Bytes>>>();
        let (mock_two, mut two) = mock();
        client.insert("a", mock_one);
        client.insert("b", mock_two);
        for retries in [1, 0] {
            let call = send(&client, Request::new(Empty::new()));
            one.next().await.answer(response(429, &[]));
            if retries > 0 {
                two.next().await.serve("");
            }
            call.await.unwrap().unwrap();
        }
        drop(one);
        let call = send(&client, Request::new(Empty::new()));
        two.next().await.serve("");
        call.await.unwrap().unwrap();
    });
    let expected = series([
        ("attempts_total served", 2.0),
        ("attempts_total refused", 2.0),
        ("attempts_total failed", 1.0),
        ("refusals_total admission", 2.0),
        ("retries_total retry", 1.0),
        ("retries_total forbidden", 1.0),
        ("retries_total move", 1.0),
    ]);
    assert_eq!(counted, expected);
}
