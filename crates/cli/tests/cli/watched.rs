//! A server that is watched through its Prometheus endpoint.

use std::io::{Read, Write};
use std::net::TcpStream;

use seawall_measure::names::Metric;

use crate::support::{Served, free_port, succeed};

/// A server with an endpoint.
pub(crate) struct Watched {
    pub(crate) server: Served,
    port: u16,
}

impl Watched {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let port = free_port();
        let metrics = format!("127.0.0.1:{port}");
        Self { server: Served::start(&[&["--metrics", &metrics], arguments].concat()), port }
    }

    /// All series of the endpoint.
    pub(crate) fn scrape(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
        reply.split_once("\r\n\r\n").expect("a reply has a body").1.to_owned()
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
