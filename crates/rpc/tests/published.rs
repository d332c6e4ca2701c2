//! What a server hands to a recorder: why it refused, and how long requests took.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use seawall_control::controller::Feedback;
use seawall_control::request::{RefusalReason, Rejected, Stage};
use seawall_control::wire::{Request, RequestOp, Status};
use seawall_measure::names;
use seawall_rpc::{Context, Server, Stats};
use support::raw::{Raw, call, frame, short};
use support::{ECHO, SLEEP, SPIN, balanced, config, router};

const LOCK: Stage = Stage(16);
const REFUSE: u16 = 9;

/// A server with one stage of its own, which refuses all who call [`REFUSE`].
fn server() -> Server {
    let refuse = |_: Context, _: Bytes| async {
        Err(Rejected::new(LOCK, Duration::from_millis(3), Duration::from_millis(1)).into())
    };
    let router = router().method(REFUSE, "refuse", refuse).stage(LOCK, "orders");
    let mut config = config("none");
    config.limits.outstanding = 2;
    Server::start(config, router).unwrap()
}

/// A call that has so much left.
fn left(id: u64, deadline: Option<Duration>, budget: Option<Duration>) -> Vec<u8> {
    let mut request = Request::new(RequestOp::Call);
    (request.claims.id, request.claims.method) = (id, ECHO);
    (request.claims.deadline, request.claims.budget) = (deadline, budget);
    frame(request, &[])
}

/// Calls that end in each way, the last of them with their connection.
async fn all_ways(server: &Server) -> Stats {
    let mut client = Raw::open(server.address()).await;
    client.send(&call(1, ECHO, b"served")).await;
    client.reply(1).await;
    client.send(&call(2, SPIN, &[2])).await;
    client.reply(2).await;
    client.send(&call(3, 77, b"unknown method")).await;
    client.reply(3).await;
    client.send(&call(4, REFUSE, b"")).await;
    client.reply(4).await;
    client.send(&left(5, None, Some(Duration::ZERO))).await;
    client.reply(5).await;
    client.send(&left(6, Some(Duration::ZERO), None)).await;
    client.reply(6).await;
    for id in 7..10 {
        client.send(&call(id, SLEEP, b"")).await;
    }
    let refused = client.reply(9).await;
    assert_eq!(refused.status(), Some(Status::Rejected));
    assert_eq!(refused.head.feedback, Feedback::None);
    client.send(&short(RequestOp::Cancel, 7)).await;
    client.reply(7).await;
    drop(client);
    balanced(server).await
}

#[tokio::test]
async fn refusals_are_told_apart_by_stage_and_reason() {
    let stats = all_ways(&server()).await;
    let expected = [
        ((Stage::ADMISSION, RefusalReason::WindowExceeded), 1),
        ((Stage::RUN_QUEUE, RefusalReason::Deadline), 1),
        ((Stage::RUN_QUEUE, RefusalReason::Budget), 1),
        ((LOCK, RefusalReason::Overload), 1),
    ];
    assert_eq!(stats.classes[0].refusals_for, BTreeMap::from(expected));
    let by_stage = BTreeMap::from([(Stage::ADMISSION, 1), (Stage::RUN_QUEUE, 2), (LOCK, 1)]);
    assert_eq!((&stats.classes[0].refusals, &stats.refusals), (&by_stage, &by_stage));
    assert_eq!(stats.stage_name(LOCK), "orders");
    assert_eq!(stats.stage_name(Stage::CPU), "cpu");
    assert_eq!(stats.stage_name(Stage(17)), "stage 17");
}

#[tokio::test]
async fn every_reply_has_a_time_and_every_request_a_wait() {
    let stats = all_ways(&server()).await;
    let times = &stats.classes[0].times;
    let counts: Vec<_> = times.iter().map(|(outcome, all)| (*outcome, all.count())).collect();
    assert_eq!(counts, [("cancelled", 1), ("done", 2), ("failed", 1), ("refused", 4)]);
    assert_eq!(stats.cancellations, 2, "one was told");
    assert!(times["done"].sum() >= Duration::from_millis(2), "one of them span for that long");
    assert_eq!(stats.waits[&Stage::SOCKET].count(), stats.requests);
    // Entry refused three; the others ran, one of them to its end in several polls at most.
    assert!(stats.waits[&Stage::RUN_QUEUE].count() >= stats.requests - 3);
}

/// The value of each series: the metric's name, and what its labels say. Takes it out.
fn series(taken: &Snapshotter) -> BTreeMap<(String, Vec<String>), DebugValue> {
    let all = taken.snapshot().into_vec().into_iter();
    all.map(|(key, _, _, value)| {
        let label = |label: &metrics::Label| format!("{}={}", label.key(), label.value());
        let labels = key.key().labels().map(label).collect();
        ((key.key().name().to_owned(), labels), value)
    })
    .collect()
}

#[tokio::test]
async fn a_recorder_is_told_of_each_request_once() {
    let server = server();
    let stats = all_ways(&server).await;
    let class = format!("class={}", stats.classes[0].class);
    let key = |metric: names::Metric, labels: &[&str]| {
        let labels = labels.iter().map(|label| (*label).to_owned());
        (metric.name.to_owned(), std::iter::once(class.clone()).chain(labels).collect::<Vec<_>>())
    };
    let counted = |value: &DebugValue| match value {
        DebugValue::Histogram(values) => values.len(),
        other => panic!("not a histogram: {other:?}"),
    };
    let recorder = DebuggingRecorder::new();
    let taken = recorder.snapshotter();
    let hand_over = |stats: &Stats, before: &Stats| {
        metrics::with_local_recorder(&recorder, || stats.publish(before));
        series(&taken)
    };
    let first = hand_over(&stats, &Stats::default());
    for (outcome, count) in [("done", 2), ("failed", 1), ("refused", 4), ("cancelled", 1)] {
        let times = key(names::REQUEST, &[&format!("outcome={outcome}")]);
        assert_eq!(counted(&first[&times]), count, "{outcome}");
    }
    for (stage, reason) in [
        ("admission", "window"),
        ("run_queue", "deadline"),
        ("run_queue", "budget"),
        ("orders", "overload"),
    ] {
        let labels = [&*format!("stage={stage}"), &format!("reason={reason}")];
        assert_eq!(first[&key(names::REFUSALS, &labels)], DebugValue::Counter(1), "{labels:?}");
    }

    // What was handed over is not handed over again, and what is new is.
    let done = key(names::REQUEST, &["outcome=done"]);
    let again = hand_over(&stats, &stats);
    assert_eq!(counted(&again[&done]), 0);
    let mut client = Raw::open(server.address()).await;
    client.send(&call(1, ECHO, b"served")).await;
    client.reply(1).await;
    let new = hand_over(&server.stats(), &stats);
    assert_eq!(counted(&new[&done]), 1);
    assert_eq!(counted(&new[&key(names::REQUEST, &["outcome=refused"])]), 0);
}
