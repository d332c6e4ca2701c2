//! The Prometheus endpoint speaks the vocabulary of `seawall_measure::names`, and no other.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use seawall_measure::names::{self, Metric};

use crate::support::{Served, free_port, succeed, until};

/// A server with an endpoint.
struct Watched {
    server: Served,
    port: u16,
}

impl Watched {
    fn start(arguments: &[&str]) -> Self {
        let port = free_port();
        let metrics = format!("127.0.0.1:{port}");
        Self { server: Served::start(&[&["--metrics", &metrics], arguments].concat()), port }
    }

    /// All series of the endpoint.
    fn scrape(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
        reply.split_once("\r\n\r\n").expect("a reply has a body").1.to_owned()
    }

    /// The sum of all series of a metric; `None` if there is none.
    fn value(&self, metric: &Metric) -> Option<f64> {
        let text = self.scrape();
        let series = text.lines().filter(|line| name_of(line) == Some(metric.name));
        series
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .reduce(|sum, value| sum + value)
    }

    /// Loads the server for a moment; gives how many requests it was sent.
    fn load(&self, more: &[&str]) -> f64 {
        let address = self.server.address();
        let load = ["load", &address, "--rate=200", "--warm-up=0s", "--time=200ms", "--json"];
        let summary = succeed(&[&load, more].concat()).json();
        let offered = summary["offered_count"].as_f64().unwrap();
        (offered * (1.0 - summary["client_drop_rate"].as_f64().unwrap())).round()
    }
}

/// The metric that a line of the endpoint is a value of.
fn name_of(line: &str) -> Option<&str> {
    if line.starts_with('#') {
        return None;
    }
    line.split(['{', ' ']).next().filter(|name| !name.is_empty())
}

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
fn is_known(line: &str) -> bool {
    let name = name_of(line).expect("it is a series");
    let Some(metric) = names::ALL.iter().find(|metric| metric.name == name) else { return false };
    let labels = line.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let labels = labels.map_or("", |(labels, _)| labels);
    let labels: Vec<&str> =
        labels.split(',').filter_map(|label| Some(label.split_once('=')?.0)).collect();
    labels == metric.labels
}
