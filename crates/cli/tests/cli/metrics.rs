//! The Prometheus endpoint speaks the vocabulary of `seawall_measure::names`, and no other.

use std::collections::BTreeSet;

use seawall_measure::names::{self, Kind, Metric};

use crate::support::until;
use crate::watched::{Watched, name_of};

#[test]
fn counters_grow_with_the_load() {
    let watched = Watched::start(&["synthetic", "--service=const:10us"]);
    let counters = [names::REQUESTS, names::COMPLETIONS, names::BYTES_RECEIVED, names::BYTES_SENT];
    until("everything is published", || {
        counters.iter().all(|counter| watched.value(counter).is_some())
    });
    let sent = watched.load(&[]);
    assert!(sent > 0.0);
    until("all requests are counted", || watched.value(&names::REQUESTS) >= Some(sent));
    for counter in counters {
        assert!(watched.value(&counter) > Some(0.0), "{}", counter.name);
    }
    // A second load comes on top.
    let sent = sent + watched.load(&[]);
    until("the counter goes on", || watched.value(&names::REQUESTS) >= Some(sent));
    until("everybody has left", || watched.value(&names::SESSIONS) == Some(0.0));
    let gone = ("seawall_connections_closed_total", "reason=\"left\"");
    until("they left in order", || {
        watched.scrape().lines().any(|line| line.contains(gone.0) && line.contains(gone.1))
    });
}

#[test]
fn the_state_of_admission_is_shown() {
    let watched = Watched::start(&["kv"]);
    let gauges = [names::SESSIONS, names::OUTSTANDING, names::POOL, names::CREDITS_ISSUED];
    until("everything is published", || gauges.iter().all(|gauge| watched.value(gauge).is_some()));
    assert!(watched.value(&names::POOL) > Some(0.0));
}

#[test]
fn contended_stages_are_shown_by_name() {
    let service = ["synthetic", "--service=const:0us", "--wait=const:10ms", "--paths=hot:1"];
    let watched = Watched::start(&[&service[..], &["--locks=plain"]].concat());
    watched.load(&[]);
    let counted = [names::STAGE_WAITS, names::STAGE_ACQUISITIONS, names::STAGE_WAITED];
    for metric in counted {
        until("somebody waited", || watched.value(&metric) > Some(0.0));
    }
    assert!(watched.scrape().contains("{stage=\"first_lock\"}"));
    let parts = [names::SERVICE_TAIL, names::NETWORK_TAIL, names::DELAY_BUDGET];
    assert!(parts.iter().all(|part| watched.value(part) > Some(0.0)));
}

#[test]
fn predicted_holds_are_shown_by_what_the_holder_does() {
    let rebalance = ["pause='const:1ms'", "tokens=[8, 64]"]
        .map(|field| format!("--set=kv.cluster.rebalance.{field}"));
    let watched = Watched::start(&[&rebalance[0], &rebalance[1], "kv"]);
    // The first lookup lets the job begin.
    watched.load(&["--workload=kv", "--mix=1/uniform:9/const:5"]);
    until("holds were predicted", || watched.value(&names::STAGE_HOLDS) > Some(0.0));
    assert!(watched.value(&names::STAGE_HOLD_ERROR) > Some(0.0));
    let text = watched.scrape();
    assert!(text.contains("{stage=\"ring\",work=\"rebalance\"}"), "{text}");
    let mut series = text.lines().filter(|line| name_of(line).is_some());
    assert!(series.all(is_known), "{text}");
}

#[test]
fn nothing_else_is_shown() {
    let mut strangers = BTreeSet::new();
    for algorithm in seawall_control::admission::NAMES {
        let watched = Watched::start(&["--algorithm", algorithm, "synthetic"]);
        let sent = watched.load(&[]);
        until("all requests are counted", || watched.value(&names::REQUESTS) >= Some(sent));
        let text = watched.scrape();
        let series = text.lines().filter(|line| name_of(line).is_some());
        let unknown = series.filter(|line| !is_known(line));
        strangers.extend(unknown.map(|line| format!("{algorithm}: {line}")));
    }
    assert!(strangers.is_empty(), "{strangers:#?}");
}

/// Whether a line is of a metric in the vocabulary and has the labels which that promises.
pub(crate) fn is_known(line: &str) -> bool {
    let name = name_of(line).expect("it is a series");
    let is_histogram = |metric: &&Metric| {
        let suffix = name.strip_prefix(metric.name);
        let suffix = suffix.filter(|_| metric.kind == Kind::Histogram);
        suffix.is_some_and(|suffix| ["_bucket", "_sum", "_count"].contains(&suffix))
    };
    let known = names::ALL.iter().find(|metric| metric.name == name || is_histogram(metric));
    let Some(metric) = known else { return false };
    let labels = line.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let labels = labels.map_or("", |(labels, _)| labels);
    let labels: Vec<&str> =
        labels.split(',').filter_map(|label| Some(label.split_once('=')?.0)).collect();
    let labels: Vec<&str> = labels.into_iter().filter(|label| *label != "le").collect();
    labels == metric.labels
}
