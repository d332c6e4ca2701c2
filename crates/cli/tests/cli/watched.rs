//! A server that is watched through its Prometheus endpoint.

use std::io::{Read, Write};
use std::net::TcpStream;

use seawall_measure::names::Metric;

use crate::support::{Served, succeed};

/// A server with an endpoint.
pub(crate) struct Watched {
    pub(crate) server: Served,
}

/// What a listener answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: String,
    pub(crate) body: String,
}

impl Answer {
    /// A header that it has once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.lines().filter_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        });
        values.next().filter(|_| values.next().is_none())
    }
}

/// Sends a request of these lines to a listener, without any headers of its own but that it ends
/// the connection.
pub(crate) fn ask(listener: &str, lines: &[&str]) -> Answer {
    let mut stream = TcpStream::connect(listener).unwrap();
    let request = format!("{}\r\nConnection: close\r\n\r\n", lines.join("\r\n"));
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (headers, body) = reply.split_once("\r\n\r\n").expect("a reply has a head");
    let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("{reply}"));
    Answer { status, headers: headers.to_owned(), body: body.to_owned() }
}

impl Watched {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let metrics = ["--metrics", "127.0.0.1:0"];
        Self { server: Served::start(&[&metrics, arguments].concat()) }
    }

    /// What its listener answers to a request for `path`.
    pub(crate) fn get(&self, path: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1");
        ask(&self.server.metrics(), &[&request, "Host: localhost"])
    }

    /// All series of the endpoint.
    pub(crate) fn scrape(&self) -> String {
        let answer = self.get("/metrics");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// The sum of all series of a metric; `None` if there is none.
    pub(crate) fn value(&self, metric: &Metric) -> Option<f64> {
        let text = self.scrape();
        let series = text.lines().filter(|line| name_of(line) == Some(metric.name));
        series
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .reduce(|sum, value| sum + value)
    }

    /// Loads the server for a moment; gives how many requests it was sent.
    pub(crate) fn load(&self, more: &[&str]) -> f64 {
        let address = self.server.address();
        let load = ["load", &address, "--rate=200", "--warm-up=0s", "--time=200ms", "--json"];
        let summary = succeed(&[&load, more].concat()).json();
        let offered = summary["offered_count"].as_f64().unwrap();
        (offered * (1.0 - summary["client_drop_rate"].as_f64().unwrap())).round()
    }
}

/// The metric that a line of the endpoint is a value of.
pub(crate) fn name_of(line: &str) -> Option<&str> {
    if line.starts_with('#') {
        return None;
    }
    line.split(['{', ' ']).next().filter(|name| !name.is_empty())
}
